//! Refusals: an HTTP status and a problem in the shape people read.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use kedge_control::Document;
use kedge_core::{Code, Fix, Problem};

/// A refused request.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    problem: Problem,
    retry_after: Option<u32>,
}

impl ApiError {
    pub fn new(status: StatusCode, problem: Problem) -> Self {
        Self {
            status,
            problem,
            retry_after: None,
        }
    }

    /// The same, to be asked again after some seconds.
    #[must_use]
    pub fn after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The request makes no sense.
    pub fn malformed(what: impl Into<String>) -> Self {
        let problem = Problem::new(Code::ApiMalformed, what)
            .consequence("nothing was changed")
            .fix(Fix::text("compare the versions of host and manager").command("kedge version"));
        Self::new(StatusCode::BAD_REQUEST, problem)
    }

    /// Nobody of ours asks.
    pub fn unauthenticated(what: impl Into<String>) -> Self {
        let problem = Problem::new(Code::ApiUnauthenticated, what)
            .consequence("the request was refused")
            .fix(
                Fix::text("enrol with a token of this manager")
                    .command("kedge token create --tenant TENANT"),
            );
        Self::new(StatusCode::UNAUTHORIZED, problem)
    }

    /// Somebody of ours asks for what is not its own.
    pub fn forbidden(what: impl Into<String>) -> Self {
        let problem = Problem::new(Code::ApiForbidden, what).consequence("the request was refused");
        Self::new(StatusCode::FORBIDDEN, problem)
    }

    /// There is no such thing.
    pub fn not_found() -> Self {
        let problem = Problem::new(Code::ApiNotFound, "the agent API has no such path");
        Self::new(StatusCode::NOT_FOUND, problem)
    }

    /// Somebody else holds it.
    pub fn conflict(code: Code, what: impl Into<String>) -> Self {
        let problem = Problem::new(code, what)
            .consequence("the newcomer is refused, the holder keeps running");
        Self::new(StatusCode::CONFLICT, problem)
    }

    /// The body is too large.
    pub fn too_large(limit: &str) -> Self {
        Self::beyond(format!("the request's body is larger than {limit}"))
    }

    /// The body is too deep.
    pub fn too_deep(levels: usize) -> Self {
        Self::beyond(format!(
            "the request's body nests deeper than {levels} levels"
        ))
    }

    fn beyond(what: String) -> Self {
        let problem = Problem::new(Code::ApiTooLarge, what)
            .consequence("nothing of it was read")
            .fix(Fix::text("send less: no Kedge host comes near the limit"));
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
    }

    /// The manager itself cannot.
    pub fn unavailable(problem: Problem) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, problem)
    }

    /// No manager leads, or another does whom this one cannot reach.
    pub fn no_leader() -> Self {
        let problem = Problem::new(
            Code::ApiNoLeader,
            "this manager does not lead, and reaches none that does",
        )
        .consequence("nothing was changed; the request is to be sent again")
        .fix(
            Fix::text("see who holds the lease")
                .command("kubectl -n kedge-system get lease kedge-manager -o yaml"),
        );
        Self::unavailable(problem).after(1)
    }

    /// The caller was refused too often, or the tenant enrols too fast.
    pub fn too_many(what: impl Into<String>, seconds: u32) -> Self {
        let problem = Problem::new(Code::ApiTooMany, what)
            .consequence("the request was not looked at")
            .fix(Fix::text(
                "find out why earlier requests were refused, then wait",
            ));
        Self::new(StatusCode::TOO_MANY_REQUESTS, problem).after(seconds)
    }

    /// What was read changes faster than it can be written over.
    pub fn restless(what: impl std::fmt::Display) -> Self {
        let problem = Problem::new(
            Code::HostStateNotPersisted,
            format!("{what} changes faster than it can be written"),
        );
        Self::unavailable(problem).after(1)
    }

    /// Whether the caller could not prove what it said, or sent what nobody of ours sends. Whoever
    /// proved itself and was refused for another reason guesses nothing.
    pub fn is_guess(&self) -> bool {
        let guesses = [
            StatusCode::BAD_REQUEST,
            StatusCode::UNAUTHORIZED,
            StatusCode::PAYLOAD_TOO_LARGE,
        ];
        guesses.contains(&self.status)
    }

    /// The problem, for the log.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Document::new(self.problem))).into_response();
        if let Some(seconds) = self.retry_after {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            if self.status == StatusCode::SERVICE_UNAVAILABLE {
                // The next connection may find another manager.
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
        }
        response
    }
}
