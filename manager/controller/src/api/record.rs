//! The records of the enrolled: what the agent API itself writes.

use std::{sync::Arc, time::SystemTime};

use axum::{extract::State, http::StatusCode};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kedge_control::{
    enrol::Enrolled,
    identity::{Role, SpiffeId},
};
use kedge_core::{Code, Problem};
use kedge_crd::{
    EdgeGateway, EdgeGatewaySpec, EdgeHost, EdgeHostSpec, ObjectMeta, Resource, TenantSpec,
    gateway::Instance, host::Identity,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{
    access::{Caller, revoked},
    error::ApiError,
    turn::in_turn,
};
use crate::{
    managers,
    pki::{SigningRequest, trust::BACKDATED},
    plan::denied,
    store::{Current, Layer, Name, ObjectKey, Write},
    world::{self, Member, Party, World},
};

/// `DELETE <own path>`: the identity ends with the record.
pub async fn leave(
    State(world): State<Arc<World>>,
    caller: Caller,
) -> Result<StatusCode, ApiError> {
    in_turn(world, |world| async move {
        let member = caller.member(&*world.state().await)?;
        match &member.party {
            Party::Host(_) => remove(&world, &member.party.key()).await?,
            Party::Instance(gateway, _) => {
                let uid = &member.identity.uid;
                alter_instance(&world, gateway, uid, |_| false).await?;
            }
        }
        let mut state = world.state().await;
        match &member.party {
            Party::Host(name) => state.tracker.forget_host(name),
            Party::Instance(gateway, name) => {
                let key = (gateway.clone(), name.clone());
                state.tracker.forget_gateway(&key);
            }
        }
        state.dismiss(&member.identity.uid);
        drop(state);
        info!(party = ?member.party, uid = member.identity.uid, "a member left");
        world.touch();
        Ok(StatusCode::ACCEPTED)
    })
    .await
}

/// The host as the agent API keeps it; blank where it keeps none.
#[must_use]
pub fn kept_host(current: &Current, name: &Name) -> EdgeHost {
    kept(current)
        .unwrap_or_else(|| EdgeHost::new(&name.namespace, &name.name, EdgeHostSpec::default()))
}

/// The instances of a gateway as the agent API keeps them.
#[must_use]
pub fn kept_instances(current: &Current) -> Vec<Instance> {
    kept::<EdgeGateway>(current)
        .map(|gateway| gateway.spec.instances)
        .unwrap_or_default()
}

/// Writes a host over what was read; says whether it was still so.
///
/// # Errors
///
/// It cannot be written.
pub async fn put_host(
    world: &World,
    name: &Name,
    host: &EdgeHost,
    current: &Current,
) -> Result<bool, ApiError> {
    let key = crate::snapshot::key::<EdgeHostSpec>(name);
    let meta = ObjectMeta {
        name: name.name.clone(),
        namespace: Some(name.namespace.clone()),
        labels: host.metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    let content = json!({
        "apiVersion": EdgeHostSpec::api_version(),
        "kind": EdgeHostSpec::KIND,
        "metadata": meta,
        "spec": host.spec,
    });
    write_over(world, key, content, current).await
}

/// Writes the instances of a gateway over what was read; says whether it was still so.
///
/// # Errors
///
/// They cannot be written.
pub async fn put_instances(
    world: &World,
    gateway: &Name,
    instances: &[Instance],
    current: &Current,
) -> Result<bool, ApiError> {
    let key = crate::snapshot::key::<EdgeGatewaySpec>(gateway);
    let content = json!({
        "apiVersion": EdgeGatewaySpec::api_version(),
        "kind": EdgeGatewaySpec::KIND,
        "metadata": {"name": gateway.name, "namespace": gateway.namespace},
        "spec": {"instances": instances},
    });
    write_over(world, key, content, current).await
}

/// Changes a host's record, as long as it holds that identity: a record that was removed meanwhile
/// does not come back by a change.
///
/// # Errors
///
/// The identity was revoked, or the record cannot be written.
pub async fn alter_host(
    world: &World,
    name: &Name,
    uid: &str,
    change: impl Fn(&mut EdgeHost) + Send + Sync,
) -> Result<(), ApiError> {
    let key = crate::snapshot::key::<EdgeHostSpec>(name);
    for _ in 0..TRIES {
        let current = world.store.current(&key).await;
        let current = current.map_err(ApiError::unavailable)?;
        let mut host = kept_host(&current, name);
        let holds = |identity: &Identity| identity.uid == uid;
        if !host.spec.identity.as_ref().is_some_and(holds) {
            return Err(revoked());
        }
        change(&mut host);
        if put_host(world, name, &host, &current).await? {
            return Ok(());
        }
    }
    Err(ApiError::restless(&key))
}

/// Changes an instance of a gateway, as long as it holds that identity; `change` says whether it
/// stays.
///
/// # Errors
///
/// The identity was revoked, or the record cannot be written.
pub async fn alter_instance(
    world: &World,
    gateway: &Name,
    uid: &str,
    change: impl Fn(&mut Instance) -> bool + Send + Sync,
) -> Result<(), ApiError> {
    let key = crate::snapshot::key::<EdgeGatewaySpec>(gateway);
    for _ in 0..TRIES {
        let current = world.store.current(&key).await;
        let current = current.map_err(ApiError::unavailable)?;
        let mut all = kept_instances(&current);
        let own = all.iter_mut().find(|instance| instance.identity.uid == uid);
        if !change(own.ok_or_else(revoked)?) {
            all.retain(|instance| instance.identity.uid != uid);
        }
        if put_instances(world, gateway, &all, &current).await? {
            return Ok(());
        }
    }
    Err(ApiError::restless(&key))
}

/// Keeps a member's identity, and lets it be known.
///
/// # Errors
///
/// It cannot be written.
pub async fn keep_identity(
    world: &World,
    member: &Member,
    identity: Identity,
) -> Result<(), ApiError> {
    let uid = member.identity.uid.as_str();
    match &member.party {
        Party::Host(name) => {
            let keep = |host: &mut EdgeHost| host.spec.identity = Some(identity.clone());
            alter_host(world, name, uid, keep).await?;
        }
        Party::Instance(gateway, _) => {
            let keep = |instance: &mut Instance| {
                instance.identity = identity.clone();
                true
            };
            alter_instance(world, gateway, uid, keep).await?;
        }
    }
    world.state().await.admit(Member {
        identity,
        ..member.clone()
    });
    Ok(())
}

/// Signs a member's certificate and tells it all it needs.
///
/// # Errors
///
/// The library refuses.
pub fn certificate(
    world: &World,
    member: &Member,
    request: &SigningRequest,
) -> Result<Enrolled, ApiError> {
    let (role, namespace, name, path) = match &member.party {
        Party::Host(name) => {
            let path = format!("/kedge/v1/tenants/{}/hosts/{}", member.tenant, name.name);
            (Role::Host, &name.namespace, &name.name, path)
        }
        Party::Instance(gateway, name) => {
            let scope = format!("{}.{}", gateway.namespace, gateway.name);
            let path = format!("/kedge/v1/gateways/{scope}/instances/{name}");
            (Role::Gateway, &gateway.namespace, name, path)
        }
    };
    let identity = SpiffeId {
        trust_domain: world.trust_domain.clone(),
        namespace: namespace.clone(),
        role,
        uid: member.identity.uid.clone(),
    };
    let life = (
        dated(&member.identity, world.clock.now()),
        world.certificate_life,
    );
    let certificate = world
        .authority
        .issue(request, &identity, &member.identity.serial, life)
        .map_err(|error| internal("sign a certificate", &error))?;
    Ok(Enrolled {
        role,
        uid: member.identity.uid.clone(),
        name: name.clone(),
        path,
        certificate,
        ca_bundle: world.authority.bundle(),
        generation: member.identity.generation,
    })
}

/// From when a certificate counts: the moment that its record tells. A manager whose clock fell back knows no
/// later one, and what it issues next must not be older. Only what is asked for again long after counts from now.
fn dated(identity: &Identity, now: SystemTime) -> SystemTime {
    let recorded = identity.issued.parse().map(|at: Timestamp| at.into());
    let is_fresh = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age < BACKDATED);
    recorded.ok().filter(is_fresh).unwrap_or(now)
}

/// A failure that is nobody's fault outside.
pub fn internal(what: &str, error: &dyn std::error::Error) -> ApiError {
    let problem = Problem::new(Code::SysUnexpected, format!("the manager could not {what}"));
    ApiError::unavailable(problem.caused_by(error))
}

/// A WireGuard public key as base64, if it is one.
#[must_use]
pub fn tunnel_key(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let length = STANDARD.decode_slice(text, &mut key).ok()?;
    (length == 32 && key != [0; 32] && text.len() == 44).then_some(key)
}

/// Refuses a WireGuard key that another host or gateway instance has: a gateway tells its peers
/// apart by nothing else, so whoever could name another's key could cut it off.
///
/// # Errors
///
/// Another has it.
pub fn free_tunnel_key(state: &world::State, key: &str, party: &Party) -> Result<(), ApiError> {
    let wanted = tunnel_key(key);
    let is_wanted = |taken: &[u8; 32]| wanted.as_ref() == Some(taken);
    let taken = state
        .members()
        .any(|member| member.party() != party && member.tunnel_keys().iter().any(is_wanted));
    if taken {
        return Err(ApiError::conflict(
            Code::ApiConflict,
            "the tunnel key belongs to another host or gateway",
        ));
    }
    Ok(())
}

/// Whether the tenant banned one of these keys.
#[must_use]
pub fn is_banned(state: &world::State, tenant: &str, hashes: &[String]) -> bool {
    let key = crate::snapshot::key::<TenantSpec>(&Name::new("", tenant));
    let layers = state.store.get(&key);
    layers.is_some_and(|layers| denied::is_denied(&layers, hashes))
}

/// Undoes a write, as far as the store lets it: `before` was there.
pub async fn put_back(world: &World, key: ObjectKey, before: Option<Value>) {
    let write = Write {
        key,
        layer: Layer::Owned(managers::ENROL.to_owned()),
        content: before,
    };
    if let Err(problem) = world.store.write(vec![write]).await {
        warn!(KEDGE_CODE = %problem.code, %problem, "a record of nobody stays behind");
    }
}

fn kept<T: DeserializeOwned>(current: &Current) -> Option<T> {
    let layer = current.layers.owned.get(managers::ENROL)?;
    serde_json::from_value(layer.clone()).ok()
}

async fn write_over(
    world: &World,
    key: ObjectKey,
    content: Value,
    current: &Current,
) -> Result<bool, ApiError> {
    let write = Write {
        key,
        layer: Layer::Owned(managers::ENROL.to_owned()),
        content: Some(content),
    };
    let written = world.store.write_over(write, current).await;
    written.map_err(ApiError::unavailable)
}

async fn remove(world: &World, key: &ObjectKey) -> Result<(), ApiError> {
    let write = Write {
        key: key.clone(),
        layer: Layer::Owned(managers::ENROL.to_owned()),
        content: None,
    };
    let written = world.store.write(vec![write]).await;
    written.map_err(ApiError::unavailable)
}

/// How often something is read again that changed before it could be written.
pub const TRIES: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_certificate_counts_from_the_moment_its_record_tells() {
        let identity = |issued: &str| Identity {
            issued: issued.to_owned(),
            ..Identity::default()
        };
        let at = |text: &str| SystemTime::from(text.parse::<Timestamp>().unwrap());
        let recorded = "2026-11-27T10:00:00Z";
        // The record was written late in one second, the certificate signed early in the next.
        let signed = at(recorded) + Duration::from_millis(1_003);
        assert_eq!(dated(&identity(recorded), signed), at(recorded));
        let next_day = at("2026-11-28T10:00:00Z");
        assert_eq!(dated(&identity(recorded), next_day), next_day);
        let before = at("2026-11-27T09:00:00Z");
        assert_eq!(dated(&identity(recorded), before), before);
        assert_eq!(dated(&identity("yesterday"), signed), signed);
    }
}
