//! Reports: what hosts and gateways tell of themselves.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use axum::{
    Json,
    body::Body,
    extract::{FromRequest as _, Request, State},
};
use kedge_control::report::{GatewayReport, HostReport, MAX_ITEMS, ReportAnswer};
use tracing::info;

use super::{access::Caller, body::Bounded, error::ApiError, record};
use crate::{
    store::Name,
    world::{self, Party, World},
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
            let mut state = world.state().await;
            caller.member(&state)?;
            host(&world, &mut state, &name, report)
        }
        Party::Instance(gateway, name) => {
            let Bounded(report) =
                Bounded::<GatewayReport, 2048>::from_request(request, &()).await?;
            let mut state = world.state().await;
            caller.member(&state)?;
            instance(&world, &mut state, (gateway, name), report)
        }
    }
}

fn host(
    world: &World,
    state: &mut world::State,
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
        let mut host = record::host(state, name);
        if host.spec.tunnel.public_keys.first() != Some(&key) {
            record::free_tunnel_key(state, &key, &Party::Host(name.clone()))?;
            let hash = record::tunnel_key(&key).map(|key| crate::pki::hash(&key));
            if record::is_banned(state, &host.spec.tenant, hash.as_slice()) {
                return Err(ApiError::forbidden("the host's key was banned"));
            }
            host.spec.tunnel.public_keys = vec![key];
            record::keep_host(state, name, &host)?;
            info!(host = %name, "a host has another tunnel key");
            world.touch();
        }
    }
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

fn instance(
    world: &World,
    state: &mut world::State,
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
        let mut all = record::instances(state, &key.0);
        let mut changed = false;
        for own in all.iter_mut().filter(|instance| instance.name == key.1) {
            if own.public_keys.first() != Some(&report.public_key) {
                let party = Party::Instance(key.0.clone(), key.1.clone());
                record::free_tunnel_key(state, &report.public_key, &party)?;
                own.public_keys = vec![report.public_key.clone()];
                changed = true;
            }
        }
        if changed {
            record::keep_instances(state, &key.0, all)?;
            info!(gateway = %key.0, instance = key.1, "a gateway instance has another tunnel key");
            world.touch();
        }
    }
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
