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

use super::{access::Caller, body::Bounded, error::ApiError, record, turn::in_turn};
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
    let party = caller.member(&*world.state().await)?.party;
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
    world: &Arc<World>,
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
        let keys = (&tunnel.public_key, tunnel.next_public_key.as_ref());
        have_tunnel_keys(world, caller, keys).await?;
    }
    let mut state = world.state().await;
    caller.member(&state)?;
    if state.tracker.host_report(name, report, Instant::now()) {
        world.touch();
    }
    let generation = state.host_generation(name).unwrap_or_default();
    Ok(Json(ReportAnswer { generation }))
}

async fn instance(
    world: &Arc<World>,
    caller: &Caller,
    key: (Name, String),
    mut report: GatewayReport,
) -> Result<Json<ReportAnswer>, ApiError> {
    if report.problems.len() > MAX_ITEMS {
        return Err(ApiError::too_large(&format!("{MAX_ITEMS} problems")));
    }
    if !report.public_key.is_empty() {
        let next = report.next_key.as_ref().map(|next| &next.public_key);
        have_tunnel_keys(world, caller, (&report.public_key, next)).await?;
    }
    let mut state = world.state().await;
    caller.member(&state)?;
    // A gateway speaks for its own peers: what it says of others' hosts is not heard.
    let own = state.gateway_config(&key);
    let own = own.and_then(|config| config.tunnel.as_ref());
    let own: BTreeSet<&str> = own
        .into_iter()
        .flat_map(|tunnel| &tunnel.peers)
        .map(|peer| peer.name.as_str())
        .collect();
    report.peers.retain(|peer| own.contains(peer.name.as_str()));
    // Nor is what it says of frontends and sites that it was not given.
    let given = state.gateway_config(&key).into_iter();
    let given: BTreeSet<&str> = given.flat_map(|config| config.offer.names()).collect();
    if let Some(unserved) = &mut report.unserved {
        unserved.retain(|one| given.contains(one.frontend.as_str()));
    }
    // Nor of backends on others' hosts.
    if let Some(draining) = &mut report.draining {
        draining.retain(|one| own.contains(one.host.as_str()));
    }
    if state.tracker.gateway_report(&key, report, Instant::now()) {
        world.touch();
    }
    // A host that its gateway lost must be asked at once.
    state.nudge_doubted();
    let generation = state
        .gateway_config(&key)
        .map_or(0, |config| config.generation);
    Ok(Json(ReportAnswer { generation }))
}

/// Has the caller known by these WireGuard keys: the one in use, and the one it goes over to.
async fn have_tunnel_keys(
    world: &Arc<World>,
    caller: &Caller,
    (key, next): (&String, Option<&String>),
) -> Result<(), ApiError> {
    let keys: Vec<String> = std::iter::once(key).chain(next).cloned().collect();
    if keys.iter().any(|key| record::tunnel_key(key).is_none()) {
        return Err(ApiError::malformed(
            "the key of the tunnel is no WireGuard public key",
        ));
    }
    if caller.member(&*world.state().await)?.tunnel_keys == keys {
        return Ok(());
    }
    take_tunnel_keys(world, caller, keys).await
}

/// Writes down that the caller has other WireGuard keys from now on.
async fn take_tunnel_keys(
    world: &Arc<World>,
    caller: &Caller,
    keys: Vec<String>,
) -> Result<(), ApiError> {
    let caller = caller.clone();
    in_turn(Arc::clone(world), |world| async move {
        let mut member = {
            let state = world.state().await;
            let member = caller.member(&state)?;
            for key in &keys {
                record::free_tunnel_key(&state, key, &member.party)?;
                let hash = record::tunnel_key(key).map(|key| crate::pki::hash(&key));
                if record::is_banned(&state, &member.tenant, hash.as_slice()) {
                    return Err(ApiError::forbidden("the host's key was banned"));
                }
            }
            member
        };
        let uid = caller.peer.identity.uid.as_str();
        let many = keys.len();
        match &member.party {
            Party::Host(name) => {
                let keep = |host: &mut EdgeHost| host.spec.tunnel.public_keys.clone_from(&keys);
                record::alter_host(&world, name, uid, keep).await?;
                info!(host = %name, keys = many, "a host has another tunnel key");
            }
            Party::Instance(gateway, instance) => {
                let keep = |instance: &mut Instance| {
                    instance.public_keys.clone_from(&keys);
                    true
                };
                record::alter_instance(&world, gateway, uid, keep).await?;
                info!(%gateway, instance, keys = many, "a gateway instance has another tunnel key");
            }
        }
        member.tunnel_keys = keys;
        world.state().await.admit(member);
        world.touch();
        Ok(())
    })
    .await
}
