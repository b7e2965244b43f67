//! The control socket's routes. The loop answers: what is shown is what it decides with.

mod bgp;

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::{get, post},
};
use kedge_control::local::{
    AgentStatus, BfdSessionList, BgpNeighbor, ConfigInForce, DrainOrder, History, Order,
    OrderRequest, PathList, Reloaded, Restart, ShortcutStatus, Timeline, TunnelKey, TunnelList,
    TunnelPath, Vip, VipExplanation, VipList, VipOrder,
};
use kedge_core::{Code, Fix, Problem};
use kedge_host::{
    Role,
    layers::closest,
    local::{self, Answer, Answers, Asks, Failure, MayChange, unknown},
};
use kedge_net::clock;
use tokio::time::timeout;

use crate::{
    agent::Agent,
    explain::{Known, explain},
    operate::{self, Begun},
    succession::{self, Asked},
};

impl Answers for Agent {
    const ROLE: Role = Role::Agent;
    type Status = AgentStatus;

    fn status(&self) -> AgentStatus {
        self.status()
    }

    fn tunnels(&self) -> TunnelList {
        let list = self.tunnel.as_ref().map(|tunnel| TunnelList {
            key_change: Some(self.tunnel_key()).filter(|key| key.next_public_key.is_some()),
            ..tunnel.list()
        });
        list.unwrap_or_default()
    }

    fn neighbors(&self) -> Vec<BgpNeighbor> {
        self.announcing.neighbors.list()
    }

    fn shortcuts(&self) -> Vec<ShortcutStatus> {
        self.shortcuts.status()
    }

    fn config(&self) -> ConfigInForce {
        self.live.in_force()
    }

    fn reload(&mut self) -> Result<Reloaded, Problem> {
        self.reload()
    }
}

impl Agent {
    fn paths(&self) -> PathList {
        let tunnel = self.tunnel.as_ref();
        tunnel.map(|tunnel| tunnel.paths()).unwrap_or_default()
    }

    fn explain(&self, name: &str) -> Option<VipExplanation> {
        let vip = self.snapshot(name)?;
        let health = self.gates.status();
        let tracks = self.tracks.of(&vip.name);
        let told = self.described(&vip);
        Some(explain(&Known {
            tracks: &tracks,
            vip: &vip,
            told,
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
        .route("/v1/vips/{name}/history", get(history_of))
        .route("/v1/vips/{name}/timeline", get(timeline_of))
        .route("/v1/vips/{name}/release", post(release))
        .route("/v1/vips/{name}/move", post(bring_here))
        .route("/v1/vips/{name}/freeze", post(freeze))
        .route("/v1/vips/{name}/thaw", post(thaw))
        .route("/v1/bfd/sessions", get(bfd_sessions))
        .merge(bgp::routes())
        .route("/v1/paths", get(paths))
        .route("/v1/paths/{name}", get(path))
        .route("/v1/history", get(history))
        .route("/v1/timeline", get(timeline))
        .route("/v1/drain", post(drain))
        .route("/v1/undrain", post(undrain))
        .route("/v1/restart", post(restart))
        .route("/v1/tunnel/key", get(tunnel_key).post(rotate_key))
        .with_state(asks)
}

type Loop = State<Asks<Agent>>;

async fn vips(State(asks): Loop) -> Result<Answer<VipList>, Failure> {
    asks.look(Agent::vips).await.map(Answer)
}

async fn bfd_sessions(State(asks): Loop) -> Result<Answer<BfdSessionList>, Failure> {
    asks.look(|agent| agent.bfd.list()).await.map(Answer)
}

async fn tunnel_key(State(asks): Loop) -> Result<Answer<TunnelKey>, Failure> {
    asks.look(|agent| agent.tunnel_key()).await.map(Answer)
}

async fn rotate_key(State(asks): Loop, _may: MayChange) -> Result<Answer<TunnelKey>, Failure> {
    let done = asks.change(|agent| agent.rotate_key("ordered")).await?;
    done.map(Answer).map_err(Failure)
}

async fn paths(State(asks): Loop) -> Result<Answer<PathList>, Failure> {
    asks.look(Agent::paths).await.map(Answer)
}

async fn path(State(asks): Loop, Path(name): Path<String>) -> Result<Answer<TunnelPath>, Failure> {
    let list = asks.look(Agent::paths).await?;
    let found = list.items.into_iter().find(|it| it.name == name);
    let list = "kedge tunnel path";
    found
        .map(Answer)
        .ok_or_else(|| unknown(Code::TunUnknown, "tunnel peer", &name, list))
}

async fn vip(State(asks): Loop, Path(name): Path<String>) -> Result<Answer<Vip>, Failure> {
    let list = asks.look(Agent::vips).await?;
    let found = list.items.into_iter().find(|vip| vip.name == name);
    or_no_vip(&asks, &name, found).await
}

async fn explained(
    State(asks): Loop,
    Path(name): Path<String>,
) -> Result<Answer<VipExplanation>, Failure> {
    let wanted = name.clone();
    let found = asks.look(move |agent| agent.explain(&wanted)).await?;
    or_no_vip(&asks, &name, found).await
}

async fn history(State(asks): Loop) -> Result<Answer<History>, Failure> {
    let all = asks.look(|agent| agent.history(None)).await?;
    Ok(Answer(all.unwrap_or_default()))
}

async fn history_of(
    State(asks): Loop,
    Path(name): Path<String>,
) -> Result<Answer<History>, Failure> {
    let wanted = name.clone();
    let found = asks.look(move |agent| agent.history(Some(&wanted))).await?;
    or_no_vip(&asks, &name, found).await
}

async fn timeline(State(asks): Loop) -> Result<Answer<Timeline>, Failure> {
    let last = asks.look(|agent| agent.timeline(None)).await?;
    Ok(Answer(last.unwrap_or_default()))
}

async fn timeline_of(
    State(asks): Loop,
    Path(name): Path<String>,
) -> Result<Answer<Timeline>, Failure> {
    let wanted = name.clone();
    let found = asks
        .look(move |agent| agent.timeline(Some(&wanted)))
        .await?;
    or_no_vip(&asks, &name, found).await
}

type Ordered = Result<Answer<VipOrder>, Failure>;

async fn release(
    State(asks): Loop,
    _may: MayChange,
    Path(name): Path<String>,
    Json(request): Json<OrderRequest>,
) -> Ordered {
    once(asks, name, Order::Release, request).await
}

async fn bring_here(
    State(asks): Loop,
    _may: MayChange,
    Path(name): Path<String>,
    Json(request): Json<OrderRequest>,
) -> Ordered {
    once(asks, name, Order::Move, request).await
}

/// Gives an order that the routers act on at once, and waits until they took it.
async fn once(asks: Asks<Agent>, name: String, order: Order, request: OrderRequest) -> Ordered {
    let wanted = name.clone();
    let begun = asks.change(move |agent| {
        let vip = agent.snapshot(&wanted)?;
        Some((agent.once(&vip, order, &request), vip))
    });
    let Some((begun, snapshot)) = begun.await? else {
        return Err(no_vip(&asks, &name).await);
    };
    let vip = snapshot.name.clone();
    let Begun {
        order: told,
        mut answer,
        asked,
    } = begun.map_err(Failure)?;
    if let Some(Asked { host, answer: next }) = asked {
        let refused = |why: &str| Failure(succession::refused(&snapshot, &host, why));
        match timeout(ANSWER, next).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(why))) => return Err(refused(&why)),
            Ok(Err(_)) => return Err(refused("nothing, its link is gone")),
            Err(_) => return Err(refused("nothing within a second")),
        }
        let name = vip.clone();
        answer = Some(asks.look(move |agent| agent.give(&name)).await?);
    }
    if let Some(answer) = answer {
        match timeout(ANSWER, answer).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(reject))) => return Err(Failure(operate::rejected(&vip, order, reject))),
            Ok(Err(_)) | Err(_) => return Err(Failure(operate::unanswered(&vip, ANSWER))),
        }
    }
    Ok(Answer(told))
}

async fn freeze(
    State(asks): Loop,
    _may: MayChange,
    Path(name): Path<String>,
    Json(request): Json<OrderRequest>,
) -> Ordered {
    hold_still(asks, name, Order::Freeze, request).await
}

async fn thaw(
    State(asks): Loop,
    _may: MayChange,
    Path(name): Path<String>,
    Json(request): Json<OrderRequest>,
) -> Ordered {
    hold_still(asks, name, Order::Thaw, request).await
}

async fn hold_still(
    asks: Asks<Agent>,
    name: String,
    order: Order,
    request: OrderRequest,
) -> Ordered {
    let wanted = name.clone();
    let told = asks.change(move |agent| {
        let vip = agent.snapshot(&wanted)?;
        Some(agent.freeze(&vip, order, &request))
    });
    let Some(told) = told.await? else {
        return Err(no_vip(&asks, &name).await);
    };
    kept(&asks).await?;
    told.map(Answer).map_err(Failure)
}

/// Waits until an order that must outlive the agent is on the disk: an answer is a promise. A disk
/// that takes nothing is a problem of its own, and told in the status.
async fn kept(asks: &Asks<Agent>) -> Result<(), Failure> {
    let settled = asks.look(|agent| agent.orders.settled()).await?;
    let _ = timeout(ANSWER, settled).await;
    Ok(())
}

async fn drain(
    State(asks): Loop,
    _may: MayChange,
    Json(request): Json<OrderRequest>,
) -> Result<Answer<DrainOrder>, Failure> {
    let told = asks.change(move |agent| agent.drain(Order::Drain, &request));
    let told = told.await?;
    kept(&asks).await?;
    told.map(Answer).map_err(Failure)
}

async fn undrain(
    State(asks): Loop,
    _may: MayChange,
    Json(request): Json<OrderRequest>,
) -> Result<Answer<DrainOrder>, Failure> {
    let told = asks.change(move |agent| agent.drain(Order::Undrain, &request));
    let told = told.await?;
    kept(&asks).await?;
    told.map(Answer).map_err(Failure)
}

async fn restart(
    State(asks): Loop,
    _may: MayChange,
    Json(request): Json<OrderRequest>,
) -> Result<Answer<Restart>, Failure> {
    let candidate = asks.look(Agent::candidate).await?.map_err(Failure)?;
    candidate.check().await.map_err(Failure)?;
    let told = asks.change(move |agent| agent.replace(&candidate.executable, &request));
    told.await.map(Answer)
}

async fn or_no_vip<T>(
    asks: &Asks<Agent>,
    name: &str,
    found: Option<T>,
) -> Result<Answer<T>, Failure> {
    match found {
        Some(found) => Ok(Answer(found)),
        None => Err(no_vip(asks, name).await),
    }
}

/// The answer about a VIP nobody has, and which one may be meant.
async fn no_vip(asks: &Asks<Agent>, name: &str) -> Failure {
    let names = |agent: &Agent| -> Vec<String> {
        let vips = agent.vips().items.into_iter();
        vips.map(|vip| vip.name).collect()
    };
    let names = asks.look(names).await.unwrap_or_default();
    let mut failure = unknown(Code::VipUnknown, "VIP", name, "kedge vip list");
    let anycast = asks.look(Agent::anycast).await.unwrap_or_default();
    if let Some(vip) = anycast.into_iter().find(|vip| vip.name == name) {
        let text = "it is on every healthy host, and only routers know of it";
        let address = vip.addresses.first().map(ToString::to_string);
        let command = format!("kedge bgp explain {}", address.unwrap_or_default());
        failure.0 = failure.0.fix(Fix::text(text).command(command));
        return failure;
    }
    if let Some(meant) = closest(name, names.iter().map(String::as_str)) {
        let text = format!("did you mean `{meant}`?");
        failure.0 = failure.0.fix(Fix::text(text).command("kedge vip list"));
    }
    failure
}

/// How long the routers may take to say whether they take an order.
const ANSWER: Duration = Duration::from_secs(1);
