//! The control socket's routes. The loop answers: what is shown is what it decides with.

use axum::{
    Router,
    extract::{Path, State},
    routing::get,
};
use kedge_control::local::{
    AgentStatus, ConfigInForce, Reloaded, TunnelList, Vip, VipExplanation, VipList,
};
use kedge_core::{Code, Problem};
use kedge_host::{
    Role,
    local::{self, Answer, Answers, Asks, Failure, unknown},
};
use kedge_net::clock;

use crate::{
    agent::Agent,
    explain::{Known, explain},
};

impl Answers for Agent {
    const ROLE: Role = Role::Agent;
    type Status = AgentStatus;

    fn status(&self) -> AgentStatus {
        self.status()
    }

    fn tunnels(&self) -> TunnelList {
        self.tunnel
            .as_ref()
            .map(|tunnel| tunnel.list())
            .unwrap_or_default()
    }

    fn config(&self) -> ConfigInForce {
        self.live.in_force()
    }

    fn reload(&mut self) -> Result<Reloaded, Problem> {
        self.reload()
    }
}

impl Agent {
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
}

/// The agent's routes.
pub(crate) fn routes(asks: Asks<Agent>) -> Router {
    local::routes()
        .route("/v1/vips", get(vips))
        .route("/v1/vips/{name}", get(vip))
        .route("/v1/vips/{name}/explain", get(explained))
        .with_state(asks)
}

type Loop = State<Asks<Agent>>;

async fn vips(State(asks): Loop) -> Result<Answer<VipList>, Failure> {
    asks.look(Agent::vips).await.map(Answer)
}

async fn vip(State(asks): Loop, Path(name): Path<String>) -> Result<Answer<Vip>, Failure> {
    let list = asks.look(Agent::vips).await?;
    let found = list.items.into_iter().find(|vip| vip.name == name);
    found.map(Answer).ok_or_else(|| no_vip(&name))
}

async fn explained(
    State(asks): Loop,
    Path(name): Path<String>,
) -> Result<Answer<VipExplanation>, Failure> {
    let wanted = name.clone();
    let found = asks.look(move |agent| agent.explain(&wanted)).await?;
    found.map(Answer).ok_or_else(|| no_vip(&name))
}

fn no_vip(name: &str) -> Failure {
    unknown(Code::VipUnknown, "VIP", name, "kedge vip list")
}
