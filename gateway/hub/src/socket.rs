//! What the control socket shows of the gateway. The loop answers: what is shown is what it decides
//! with.

use axum::{
    Router,
    extract::State,
    routing::{get, post},
};
use kedge_control::local::{
    BfdSessionList, ConfigInForce, GatewayDrain, GatewayStatus, Reloaded, TunnelKey, TunnelList,
};
use kedge_core::Problem;
use kedge_host::{
    Role,
    local::{self, Answer, Answers, Asks, Failure, MayChange},
};

use crate::hub::Hub;

impl Answers for Hub {
    const ROLE: Role = Role::Gateway;
    type Status = GatewayStatus;

    fn status(&self) -> GatewayStatus {
        self.status()
    }

    fn tunnels(&self) -> TunnelList {
        self.tunnels()
    }

    fn unready(&self) -> Option<&'static str> {
        self.unready()
    }

    fn config(&self) -> ConfigInForce {
        self.live.in_force()
    }

    fn reload(&mut self) -> Result<Reloaded, Problem> {
        self.reload()
    }
}

/// The gateway's routes.
pub(crate) fn routes(asks: Asks<Hub>) -> Router {
    local::routes()
        .route("/v1/drain", get(draining).post(drain))
        .route("/v1/undrain", post(undrain))
        .route("/v1/bfd/sessions", get(bfd_sessions))
        .route("/v1/tunnel/key", get(tunnel_key).post(rotate_key))
        .with_state(asks)
}

type Loop = State<Asks<Hub>>;

async fn draining(State(asks): Loop) -> Result<Answer<GatewayDrain>, Failure> {
    asks.look(Hub::draining).await.map(Answer)
}

async fn bfd_sessions(State(asks): Loop) -> Result<Answer<BfdSessionList>, Failure> {
    asks.look(|hub| hub.sessions.list()).await.map(Answer)
}

async fn tunnel_key(State(asks): Loop) -> Result<Answer<TunnelKey>, Failure> {
    asks.look(Hub::tunnel_key).await.map(Answer)
}

async fn rotate_key(State(asks): Loop, _may: MayChange) -> Result<Answer<TunnelKey>, Failure> {
    let done = asks.change(|hub| hub.rotate_key("ordered")).await?;
    done.map(Answer).map_err(Failure)
}

async fn drain(State(asks): Loop, _may: MayChange) -> Result<Answer<GatewayDrain>, Failure> {
    asks.change(|hub| hub.order(true)).await.map(Answer)
}

async fn undrain(State(asks): Loop, _may: MayChange) -> Result<Answer<GatewayDrain>, Failure> {
    asks.change(|hub| hub.order(false)).await.map(Answer)
}
