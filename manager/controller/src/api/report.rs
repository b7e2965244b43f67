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
    world::{Member, Party, World},
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
        let key = tunnel.public_key.clone();
        if record::tunnel_key(&key).is_none() {
            return Err(ApiError::malformed(
                "`tunnel.publicKey` is no WireGuard public key",
            ));
        }
        let is_known = |member: &Member| member.tunnel_keys.first() == Some(&key);
        if !is_known(&caller.member(&*world.state().await)?) {
            take_tunnel_key(world, caller, key).await?;
        }
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
        if record::tunnel_key(&report.public_key).is_none() {
            return Err(ApiError::malformed(
                "`publicKey` is no WireGuard public key",
            ));
        }
        let is_known = |member: &Member| member.tunnel_keys.first() == Some(&report.public_key);
        if !is_known(&caller.member(&*world.state().await)?) {
            take_tunnel_key(world, caller, report.public_key.clone()).await?;
        }
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

/// Writes down that the caller has another WireGuard key from now on.
async fn take_tunnel_key(world: &Arc<World>, caller: &Caller, key: String) -> Result<(), ApiError> {
    let caller = caller.clone();
    in_turn(Arc::clone(world), |world| async move {
        let mut member = {
            let state = world.state().await;
            let member = caller.member(&state)?;
            record::free_tunnel_key(&state, &key, &member.party)?;
            let hash = record::tunnel_key(&key).map(|key| crate::pki::hash(&key));
            if record::is_banned(&state, &member.tenant, hash.as_slice()) {
                return Err(ApiError::forbidden("the host's key was banned"));
            }
            member
        };
        let uid = caller.peer.identity.uid.as_str();
        let keys = vec![key];
        match &member.party {
            Party::Host(name) => {
                let keep = |host: &mut EdgeHost| host.spec.tunnel.public_keys.clone_from(&keys);
                record::alter_host(&world, name, uid, keep).await?;
                info!(host = %name, "a host has another tunnel key");
            }
            Party::Instance(gateway, instance) => {
                let keep = |instance: &mut Instance| {
                    instance.public_keys.clone_from(&keys);
                    true
                };
                record::alter_instance(&world, gateway, uid, keep).await?;
                info!(%gateway, instance, "a gateway instance has another tunnel key");
            }
        }
        member.tunnel_keys = keys;
        world.state().await.admit(member);
        world.touch();
        Ok(())
    })
    .await
}
