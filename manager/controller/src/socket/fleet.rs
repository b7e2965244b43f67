//! The fleet's hosts, for people.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use kedge_control::local::{FleetHost, FleetHostList};
use kedge_crd::{EdgeHost, Status, condition::find};

use super::{Answer, Context};
use crate::{
    plan::shown_condition,
    snapshot::{Live, Snapshot},
    store::Name,
};

/// `GET /v1/fleet/hosts`.
pub async fn hosts(State(context): State<Arc<Context>>) -> Answer<FleetHostList> {
    let world = &context.world;
    let snapshot = Snapshot::observe(
        &world.store.objects(),
        Live::default(),
        "",
        &world.clock.text(),
    );
    let items = snapshot
        .hosts
        .iter()
        .map(|(name, host)| item(&snapshot, name, host));
    Answer(
        StatusCode::OK,
        FleetHostList {
            items: items.collect(),
        },
    )
}

fn item(snapshot: &Snapshot, name: &Name, host: &EdgeHost) -> FleetHost {
    let cluster = snapshot.balancers.iter().find_map(|(balancer, layers)| {
        let mut targets = layers.status.targets.iter();
        let is_target =
            balancer.namespace == name.namespace && targets.any(|target| target.host == name.name);
        let spec = layers.written.as_ref().or(layers.given.as_ref());
        is_target.then(|| spec.map(|spec| spec.cluster_name.clone()))?
    });
    let status = &host.status;
    let first = status.addresses.iter().find(|address| address.primary);
    let first = first.or_else(|| status.addresses.first());
    let alive = find(&status.conditions, "AgentAlive");
    let reference = host.spec.host_ref.as_ref();
    FleetHost {
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        tenant: host.spec.tenant.clone(),
        host_ref: reference
            .map(|to| format!("{}/{}", to.kind, to.name))
            .unwrap_or_default(),
        cluster: cluster.unwrap_or_default(),
        address: first
            .map(|address| address.address.clone())
            .unwrap_or_default(),
        overlay: host
            .spec
            .tunnel
            .addresses
            .iter()
            .map(ToString::to_string)
            .collect(),
        alive: alive.is_some_and(|condition| condition.status == Status::True),
        vips: status
            .vips
            .iter()
            .map(|vip| format!("{} {}", vip.lb, vip.state))
            .collect(),
        gateway: status.tunnel.gateway.clone().unwrap_or_default(),
        applied_generation: status.agent.config_generation,
        generation: host.spec.config.as_ref().map_or(0, |mark| mark.generation),
        version: status.agent.version.clone(),
        conditions: status.conditions.iter().map(shown_condition).collect(),
    }
}
