//! The control socket's routes. The loop answers: what is shown is what it decides with.

use axum::{
    Router,
    extract::{Path, State},
    routing::{get, post},
};
use kedge_control::local::{
    AgentStatus, ConfigInForce, Reloaded, Tunnel, TunnelList, Vip, VipExplanation, VipList,
};
use kedge_core::{Code, Problem};
use kedge_host::{
    Role,
    local::{self, Answer, Failure, RequireRoot, unknown},
};
use kedge_net::clock;
use tokio::sync::{mpsc, oneshot};

use crate::{
    agent::Agent,
    explain::{Known, explain},
};

/// A question to the loop.
pub(crate) enum Ask {
    Status(oneshot::Sender<AgentStatus>),
    Vips(oneshot::Sender<VipList>),
    Explain(String, oneshot::Sender<Option<VipExplanation>>),
    Tunnels(oneshot::Sender<TunnelList>),
    Config(oneshot::Sender<ConfigInForce>),
    Reload(oneshot::Sender<Result<Reloaded, Problem>>),
}

impl Agent {
    /// Answers a question; whether the link to the manager may be another one.
    pub fn answer(&mut self, ask: Ask) -> bool {
        // Whoever asked may have left: that is theirs.
        match ask {
            Ask::Status(answer) => drop(answer.send(self.status())),
            Ask::Vips(answer) => drop(answer.send(self.vips())),
            Ask::Explain(name, answer) => drop(answer.send(self.explain(&name))),
            Ask::Tunnels(answer) => drop(answer.send(self.tunnels())),
            Ask::Config(answer) => {
                drop(answer.send(self.loaded.in_force(self.config_generation)));
            }
            Ask::Reload(answer) => {
                drop(answer.send(self.reload()));
                return true;
            }
        }
        false
    }

    fn explain(&self, name: &str) -> Option<VipExplanation> {
        let vip = self.snapshot(name)?;
        let health = self.gates.status();
        Some(explain(&Known {
            vip: &vip,
            wanted: self.desired.vip(&vip.name),
            health: health.iter().find(|health| health.vip == name),
            host: &self.node_name(),
            now: clock::now(),
        }))
    }

    fn tunnels(&self) -> TunnelList {
        self.tunnel
            .as_ref()
            .map(|tunnel| tunnel.list())
            .unwrap_or_default()
    }
}

type Loop = State<mpsc::Sender<Ask>>;

/// The agent's routes.
pub(crate) fn routes(asks: mpsc::Sender<Ask>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/vips", get(vips))
        .route("/v1/vips/{name}", get(vip))
        .route("/v1/vips/{name}/explain", get(explained))
        .route("/v1/tunnels", get(tunnels))
        .route("/v1/tunnels/{name}", get(tunnel))
        .route("/v1/config", get(config))
        .route("/v1/reload", post(reload))
        .with_state(asks)
}

async fn status(State(asks): Loop) -> Result<Answer<AgentStatus>, Failure> {
    ask(&asks, Ask::Status).await.map(Answer)
}

async fn vips(State(asks): Loop) -> Result<Answer<VipList>, Failure> {
    ask(&asks, Ask::Vips).await.map(Answer)
}

async fn vip(State(asks): Loop, Path(name): Path<String>) -> Result<Answer<Vip>, Failure> {
    let list = ask(&asks, Ask::Vips).await?;
    let found = list.items.into_iter().find(|vip| vip.name == name);
    found.map(Answer).ok_or_else(|| no_vip(&name))
}

async fn explained(
    State(asks): Loop,
    Path(name): Path<String>,
) -> Result<Answer<VipExplanation>, Failure> {
    let wanted = name.clone();
    let found = ask(&asks, |answer| Ask::Explain(wanted, answer)).await?;
    found.map(Answer).ok_or_else(|| no_vip(&name))
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

fn no_vip(name: &str) -> Failure {
    unknown(Code::VipUnknown, "VIP", name, "kedge vip list")
}

async fn ask<T>(
    asks: &mpsc::Sender<Ask>,
    question: impl FnOnce(oneshot::Sender<T>) -> Ask,
) -> Result<T, Failure> {
    local::ask(Role::Agent, asks, question).await
}
