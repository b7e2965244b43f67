//! Reports: what hosts and gateways tell of themselves.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use axum::{
    Json,
    body::Body,
    extract::{FromRequest as _, Request, State},
};
use kedge_control::report::{GatewayReport, HostReport, MAX_ITEMS, ReportAnswer};
use kedge_crd::{EdgeHost, gateway::Instance};
use tracing::info;

use super::{access::Caller, body::Bounded, error::ApiError, record};
use crate::{
    store::Name,
    world::{Party, World},
};

/// `PATCH <own path>`.
pub async fn report(
    State(world): State<Arc<World>>,
    caller: Caller,
    request: Request<Body>,
) -> Result<Json<ReportAnswer>, ApiError> {
    // Looked up before the body is read: a stranger does not get that far.
    let party = caller.member(&*world.state().await)?.party.clone();
    match party {
        Party::Host(name) => {
            let Bounded(report) = Bounded::<HostReport, 256>::from_request(request, &()).await?;
            host(&world, &caller, &name, report).await
        }
        Party::Instance(gateway, name) => {
            let Bounded(report) =
                Bounded::<GatewayReport, 2048>::from_request(request, &()).await?;
            instance(&world, &caller, (gateway, name), report).await
        }
    }
}

async fn host(
    world: &World,
    caller: &Caller,
    name: &Name,
    report: HostReport,
) -> Result<Json<ReportAnswer>, ApiError> {
    let counts = [
        report.addresses.len(),
        report.vips.len(),
        report.problems.len(),
    ];
    if counts.iter().any(|count| *count > MAX_ITEMS) {
        return Err(ApiError::too_large(&format!(
            "{MAX_ITEMS} addresses, VIPs or problems"
        )));
    }
    if let Some(tunnel) = report
        .tunnel
        .as_ref()
        .filter(|tunnel| !tunnel.public_key.is_empty())
    {
        let key = tunnel.public_key.clone();
        if record::tunnel_key(&key).is_none() {
            return Err(ApiError::malformed(
                "`tunnel.publicKey` is no WireGuard public key",
            ));
        }
        let known = |host: &EdgeHost| host.spec.tunnel.public_keys.first() == Some(&key);
        if !known(&record::host(&*world.state().await, name)) {
            let _change = world.change().await;
            let mut host = {
                let state = world.state().await;
                caller.member(&state)?;
                record::free_tunnel_key(&state, &key, &Party::Host(name.clone()))?;
                let host = record::host(&state, name);
                let hash = record::tunnel_key(&key).map(|key| crate::pki::hash(&key));
                if record::is_banned(&state, &host.spec.tenant, hash.as_slice()) {
                    return Err(ApiError::forbidden("the host's key was banned"));
                }
                host
            };
            host.spec.tunnel.public_keys = vec![key];
            record::keep_host(world, name, &host).await?;
            info!(host = %name, "a host has another tunnel key");
            world.touch();
        }
    }
    let mut state = world.state().await;
    caller.member(&state)?;
    if state.tracker.host_report(name, report, Instant::now()) {
        world.touch();
    }
    let generation = state
        .plan
        .hosts
        .get(name)
        .map_or(0, |config| config.generation);
    Ok(Json(ReportAnswer { generation }))
}

async fn instance(
    world: &World,
    caller: &Caller,
    key: (Name, String),
    mut report: GatewayReport,
) -> Result<Json<ReportAnswer>, ApiError> {
    if report.problems.len() > MAX_ITEMS {
        return Err(ApiError::too_large(&format!("{MAX_ITEMS} problems")));
    }
    if !report.public_key.is_empty() {
        if record::tunnel_key(&report.public_key).is_none() {
            return Err(ApiError::malformed(
                "`publicKey` is no WireGuard public key",
            ));
        }
        let is_own = |instance: &&Instance| instance.name == key.1;
        let is_other =
            |instance: &Instance| instance.public_keys.first() != Some(&report.public_key);
        let all = record::instances(&*world.state().await, &key.0);
        if all.iter().find(is_own).is_some_and(is_other) {
            let _change = world.change().await;
            let mut all = {
                let state = world.state().await;
                caller.member(&state)?;
                let party = Party::Instance(key.0.clone(), key.1.clone());
                record::free_tunnel_key(&state, &report.public_key, &party)?;
                record::instances(&state, &key.0)
            };
            for own in all.iter_mut().filter(|instance| instance.name == key.1) {
                own.public_keys = vec![report.public_key.clone()];
            }
            record::keep_instances(world, &key.0, all).await?;
            info!(gateway = %key.0, instance = key.1, "a gateway instance has another tunnel key");
            world.touch();
        }
    }
    let mut state = world.state().await;
    caller.member(&state)?;
    // A gateway speaks for its own peers: what it says of others' hosts is not heard.
    let own = state.plan.gateways.get(&key);
    let own = own.and_then(|config| config.tunnel.as_ref());
    let own: BTreeSet<&str> = own
        .into_iter()
        .flat_map(|tunnel| &tunnel.peers)
        .map(|peer| peer.name.as_str())
        .collect();
    report.peers.retain(|peer| own.contains(peer.name.as_str()));
    if state.tracker.gateway_report(&key, report, Instant::now()) {
        world.touch();
    }
    // A host that its gateway lost must be asked at once.
    world.nudge();
    let generation = state
        .plan
        .gateways
        .get(&key)
        .map_or(0, |config| config.generation);
    Ok(Json(ReportAnswer { generation }))
}
