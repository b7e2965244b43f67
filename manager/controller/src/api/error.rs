//! Refusals: an HTTP status and a problem in the shape people read.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use kedge_control::Document;
use kedge_core::{Code, Fix, Problem};

/// A refused request.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    problem: Problem,
}

impl ApiError {
    pub fn new(status: StatusCode, problem: Problem) -> Self {
        Self { status, problem }
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

    /// The problem, for the log.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(Document::new(self.problem))).into_response()
    }
}
