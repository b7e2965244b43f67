//! The control socket's routes. The loop answers: what is shown is what it decides with.

use axum::{
    Router,
    extract::{Path, State},
    routing::{get, post},
};
use kedge_control::local::{ConfigInForce, GatewayStatus, Reloaded, Tunnel, TunnelList};
use kedge_core::{Code, Problem};
use kedge_host::{
    Role,
    local::{self, Answer, Failure, RequireRoot, unknown},
};
use tokio::sync::{mpsc, oneshot};

/// A question to the loop.
pub(crate) enum Ask {
    Status(oneshot::Sender<GatewayStatus>),
    Tunnels(oneshot::Sender<TunnelList>),
    Config(oneshot::Sender<ConfigInForce>),
    Reload(oneshot::Sender<Result<Reloaded, Problem>>),
}

type Loop = State<mpsc::Sender<Ask>>;

/// The gateway's routes.
pub(crate) fn routes(asks: mpsc::Sender<Ask>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/tunnels", get(tunnels))
        .route("/v1/tunnels/{name}", get(tunnel))
        .route("/v1/config", get(config))
        .route("/v1/reload", post(reload))
        .with_state(asks)
}

async fn status(State(asks): Loop) -> Result<Answer<GatewayStatus>, Failure> {
    ask(&asks, Ask::Status).await.map(Answer)
}

async fn tunnels(State(asks): Loop) -> Result<Answer<TunnelList>, Failure> {
    ask(&asks, Ask::Tunnels).await.map(Answer)
}

async fn tunnel(State(asks): Loop, Path(name): Path<String>) -> Result<Answer<Tunnel>, Failure> {
    let list = ask(&asks, Ask::Tunnels).await?;
    let found = list.items.into_iter().find(|tunnel| tunnel.name == name);
    found
        .map(Answer)
        .ok_or_else(|| unknown(Code::TunUnknown, "tunnel peer", &name, "kedge tunnel list"))
}

async fn config(State(asks): Loop) -> Result<Answer<ConfigInForce>, Failure> {
    ask(&asks, Ask::Config).await.map(Answer)
}

async fn reload(State(asks): Loop, _root: RequireRoot) -> Result<Answer<Reloaded>, Failure> {
    ask(&asks, Ask::Reload).await?.map(Answer).map_err(Failure)
}

async fn ask<T>(
    asks: &mpsc::Sender<Ask>,
    question: impl FnOnce(oneshot::Sender<T>) -> Ask,
) -> Result<T, Failure> {
    local::ask(Role::Gateway, asks, question).await
}
