//! The routes of the local control socket: what runs here is for whoever may open it, tokens and
//! approvals are for root.

mod approvals;
mod authority;
mod fleet;
mod tokens;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{FromRequest, FromRequestParts, Request, State, rejection::JsonRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use kedge_control::{
    Document, Kind,
    local::{ConfigInForce, FleetEndpointList, FleetLoadBalancerList, ManagerStatus, RoleInfo},
};
use kedge_core::{Code, Fix, Problem};
use serde::{Serialize, de::DeserializeOwned};

use crate::world::{Party, World};

/// What the routes need.
#[derive(Debug)]
pub struct Context {
    /// The world.
    pub world: Arc<World>,
    /// The agent API's address, as it is bound.
    pub agent_api: String,
    /// When the role started.
    pub started: (std::time::Instant, String),
    /// The configuration in force, where the caller has one.
    pub config: Option<ConfigInForce>,
}

/// The routes. `Root` lets only root through.
pub fn routes<Root>(context: Arc<Context>) -> Router
where
    Root: FromRequestParts<Arc<Context>> + Send + 'static,
{
    let tokens = get(tokens::list::<Root>).post(tokens::create::<Root>);
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/config", get(config))
        .route("/v1/fleet/endpoints", get(endpoints))
        .route("/v1/fleet/hosts", get(fleet::hosts))
        .route("/v1/fleet/loadbalancers", get(load_balancers))
        .route("/v1/fleet/authority", post(authority::rotate::<Root>))
        .route("/v1/fleet/approvals", post(approvals::approve::<Root>))
        .route("/v1/tokens", tokens)
        .with_state(context)
}

/// A refused request.
#[derive(Debug)]
pub struct Refusal(pub StatusCode, pub Problem);

impl Refusal {
    fn not_found() -> Self {
        let problem = Problem::new(Code::ApiNotFound, "the manager's socket has no such route")
            .fix(Fix::text("compare the versions of command and manager").command("kedge version"));
        Self(StatusCode::NOT_FOUND, problem)
    }

    /// Another manager leads: the same command works there.
    pub fn elsewhere(world: &World, command: &str) -> Self {
        let holder = world.store.holder();
        // A manager is called by its host and its run; on Kubernetes the host is the pod.
        let place = holder.rsplit_once('_').map_or("", |(host, _)| host);
        let problem = Problem::new(
            Code::ApiNoLeader,
            "another manager leads, and it alone decides this",
        )
        .consequence("nothing was changed");
        let problem = if place.is_empty() {
            problem.fix(
                Fix::text("nobody holds the lease right now: ask again in a moment")
                    .command("kubectl -n kedge-system get lease kedge-manager"),
            )
        } else {
            problem
                .evidence(format!("the lease is held by {holder}"))
                .fix(
                    Fix::text(format!("ask {place}"))
                        .command(format!("kubectl -n kedge-system exec {place} -- {command}")),
                )
        };
        Self(StatusCode::SERVICE_UNAVAILABLE, problem)
    }

    /// The request makes no sense.
    pub fn unprocessable(code: Code, what: impl Into<String>) -> Self {
        let problem = Problem::new(code, what).consequence("nothing was changed");
        Self(StatusCode::UNPROCESSABLE_ENTITY, problem)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(Document::new(self.1))).into_response()
    }
}

/// What was asked for.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let read = Json::from_request(request, state).await;
        let read = read.map_err(|error: JsonRejection| {
            let text = error.body_text();
            let what: String = text.escape_debug().take(200).collect();
            Refusal::unprocessable(Code::ApiMalformed, what)
        });
        read.map(|Json(body)| Self(body))
    }
}

/// An answer in its envelope.
pub struct Answer<T>(pub StatusCode, pub T);

impl<T: Kind + Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        (self.0, Json(Document::new(self.1))).into_response()
    }
}

async fn status(State(context): State<Arc<Context>>) -> Answer<ManagerStatus> {
    let world = &context.world;
    let state = world.state().await;
    let is_host = |party: &Party| matches!(party, Party::Host(_));
    let hosts = state.members().filter(|member| is_host(member.party()));
    let alive: usize = state.parts().map(|(_, part)| part.alive()).sum();
    let (started, since) = &context.started;
    let filled = state.endpoints().filter(|item| item.endpoint.is_some());
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let status = ManagerStatus {
        role: RoleInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hostname: hostname(),
            started: since.clone(),
            uptime_seconds: started.elapsed().as_secs_f64(),
            pid: std::process::id(),
            config_generation: context
                .config
                .as_ref()
                .map_or(1, |config| config.generation),
            config_stale: false,
        },
        store: world.store.name(),
        agent_api: context.agent_api.clone(),
        ca_pin: world.authority.pin(),
        clusters: count(state.endpoints().count()),
        endpoints: count(filled.count()),
        hosts_alive: count(alive),
        hosts: count(hosts.count()),
        problems: state.problems(),
    };
    Answer(StatusCode::OK, status)
}

async fn config(State(context): State<Arc<Context>>) -> Result<Answer<ConfigInForce>, Refusal> {
    let config = context.config.clone().ok_or_else(Refusal::not_found)?;
    Ok(Answer(StatusCode::OK, config))
}

async fn endpoints(State(context): State<Arc<Context>>) -> Answer<FleetEndpointList> {
    let state = context.world.state().await;
    let items = state.endpoints().cloned().collect();
    Answer(StatusCode::OK, FleetEndpointList { items })
}

async fn load_balancers(State(context): State<Arc<Context>>) -> Answer<FleetLoadBalancerList> {
    let state = context.world.state().await;
    let items = state.load_balancers().cloned().collect();
    Answer(StatusCode::OK, FleetLoadBalancerList { items })
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}
