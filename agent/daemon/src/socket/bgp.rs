//! The routes about BGP.

use axum::{
    Router,
    extract::{Path, State},
    routing::get,
};
use kedge_control::local::{BgpExplanation, BgpNeighbor, BgpNeighborList, BgpRouteList};
use kedge_core::{Code, Fix, Problem};
use kedge_host::{
    layers::closest,
    local::{Answer, Asks, Failure, unknown},
};
use kedge_vip_speaker::bgp::Prefix;

use super::Loop;
use crate::{agent::Agent, bgp::Direction};

pub(super) fn routes() -> Router<Asks<Agent>> {
    Router::new()
        .route("/v1/bgp/neighbors", get(neighbors))
        .route("/v1/bgp/neighbors/{name}", get(neighbor))
        .route("/v1/bgp/routes/{direction}", get(all_routes))
        .route(
            "/v1/bgp/neighbors/{name}/routes/{direction}",
            get(routes_of),
        )
        .route("/v1/bgp/explain/{prefix}", get(explain))
}

async fn neighbors(State(asks): Loop) -> Result<Answer<BgpNeighborList>, Failure> {
    asks.look(Agent::bgp).await.map(Answer)
}

async fn neighbor(
    State(asks): Loop,
    Path(name): Path<String>,
) -> Result<Answer<BgpNeighbor>, Failure> {
    let list = asks.look(Agent::bgp).await?;
    match list.items.iter().find(|it| it.name == name) {
        Some(found) => Ok(Answer(found.clone())),
        None => Err(nobody(&list, &name)),
    }
}

async fn all_routes(
    State(asks): Loop,
    Path(direction): Path<String>,
) -> Result<Answer<BgpRouteList>, Failure> {
    let direction = way(&direction)?;
    let list = asks.look(move |agent| agent.bgp_routes(direction, None));
    list.await.map(Answer)
}

async fn routes_of(
    State(asks): Loop,
    Path((name, direction)): Path<(String, String)>,
) -> Result<Answer<BgpRouteList>, Failure> {
    let direction = way(&direction)?;
    let list = asks.look(Agent::bgp).await?;
    if !list.items.iter().any(|it| it.name == name) {
        return Err(nobody(&list, &name));
    }
    let list = asks.look(move |agent| agent.bgp_routes(direction, Some(&name)));
    list.await.map(Answer)
}

async fn explain(
    State(asks): Loop,
    Path(text): Path<String>,
) -> Result<Answer<BgpExplanation>, Failure> {
    let shown: String = text.escape_debug().take(80).collect();
    let prefix = match text.parse::<std::net::IpAddr>() {
        Ok(address) => Some(Prefix::host(address)),
        Err(_) => text.parse::<Prefix>().ok(),
    };
    let prefix = prefix.ok_or_else(|| {
        let what = format!("`{shown}` is no destination");
        let fix =
            Fix::text("name an address or a prefix").command("kedge bgp explain 192.0.2.10/32");
        Failure(Problem::new(Code::SysUsage, what).fix(fix))
    })?;
    let told = asks.look(move |agent| agent.explain_bgp(&prefix));
    told.await.map(Answer)
}

fn way(direction: &str) -> Result<Direction, Failure> {
    match direction {
        "advertised" => Ok(Direction::Advertised),
        "received" => Ok(Direction::Received),
        _ => Err(Failure(Problem::new(
            Code::SysUsage,
            "routes are `advertised` or `received`",
        ))),
    }
}

/// The answer about a neighbour nobody has, and which one may be meant.
fn nobody(list: &BgpNeighborList, name: &str) -> Failure {
    let mut failure = unknown(Code::BgpUnknown, "BGP neighbour", name, "kedge bgp summary");
    let names = list.items.iter().map(|it| it.name.as_str());
    if let Some(meant) = closest(name, names) {
        let text = format!("did you mean `{meant}`?");
        failure.0 = failure.0.fix(Fix::text(text).command("kedge bgp summary"));
    }
    failure
}
