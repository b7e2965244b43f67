//! The records of the enrolled: what the agent API itself writes.

use std::{collections::BTreeSet, sync::Arc};

use axum::{extract::State, http::StatusCode};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_control::{
    enrol::Enrolled,
    identity::{Role, SpiffeId},
};
use kedge_core::{Code, Problem};
use kedge_crd::{
    EdgeGateway, EdgeGatewaySpec, EdgeHost, EdgeHostSpec, ObjectMeta, Resource, Tenant, TenantSpec,
    gateway::Instance, host::Identity,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{access::Caller, error::ApiError};
use crate::{
    managers,
    pki::SigningRequest,
    store::{Layer, Name, ObjectKey, Write},
    world::{self, Member, Party, World},
};

/// `DELETE <own path>`: the identity ends with the record.
pub async fn leave(
    State(world): State<Arc<World>>,
    caller: Caller,
) -> Result<StatusCode, ApiError> {
    let _change = world.change().await;
    let member = caller.member(&*world.state().await)?.clone();
    match &member.party {
        Party::Host(_) => remove(&world, &member.party.key()).await?,
        Party::Instance(gateway, name) => {
            let mut all = instances(&*world.state().await, gateway);
            all.retain(|instance| instance.name != *name);
            keep_instances(&world, gateway, all).await?;
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
}

/// The host as the agent API keeps it.
pub fn host(state: &world::State, name: &Name) -> EdgeHost {
    kept(state, &crate::snapshot::key::<EdgeHostSpec>(name))
        .unwrap_or_else(|| EdgeHost::new(&name.namespace, &name.name, EdgeHostSpec::default()))
}

/// The instances of a gateway as the agent API keeps them.
pub fn instances(state: &world::State, gateway: &Name) -> Vec<Instance> {
    let key = crate::snapshot::key::<EdgeGatewaySpec>(gateway);
    kept::<EdgeGateway>(state, &key)
        .map(|gateway| gateway.spec.instances)
        .unwrap_or_default()
}

/// Keeps a host.
///
/// # Errors
///
/// It cannot be written.
pub async fn keep_host(world: &World, name: &Name, host: &EdgeHost) -> Result<(), ApiError> {
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
    write(world, key, content).await
}

/// Keeps the instances of a gateway.
///
/// # Errors
///
/// They cannot be written.
pub async fn keep_instances(
    world: &World,
    gateway: &Name,
    instances: Vec<Instance>,
) -> Result<(), ApiError> {
    let key = crate::snapshot::key::<EdgeGatewaySpec>(gateway);
    let content = json!({
        "apiVersion": EdgeGatewaySpec::api_version(),
        "kind": EdgeGatewaySpec::KIND,
        "metadata": {"name": gateway.name, "namespace": gateway.namespace},
        "spec": {"instances": instances},
    });
    write(world, key, content).await
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
    match &member.party {
        Party::Host(name) => {
            let mut host = host(&*world.state().await, name);
            host.spec.identity = Some(identity.clone());
            keep_host(world, name, &host).await?;
        }
        Party::Instance(gateway, name) => {
            let mut all = instances(&*world.state().await, gateway);
            for instance in all.iter_mut().filter(|instance| instance.name == *name) {
                instance.identity = identity.clone();
            }
            keep_instances(world, gateway, all).await?;
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
    let life = (world.clock.now(), world.certificate_life);
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
        ca_bundle: world.authority.bundle().to_owned(),
        generation: member.identity.generation,
    })
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
    let mut gateways = BTreeSet::new();
    let taken = state
        .members()
        .values()
        .any(|member| match (&member.party, party) {
            (Party::Host(name), own) => {
                let is_other = member.party != *own;
                is_other
                    && host(state, name)
                        .spec
                        .tunnel
                        .public_keys
                        .iter()
                        .any(|k| k == key)
            }
            (Party::Instance(gateway, _), own) => {
                gateways.insert(gateway)
                    && instances(state, gateway).iter().any(|instance| {
                        let it = Party::Instance(gateway.clone(), instance.name.clone());
                        it != *own && instance.public_keys.iter().any(|k| k == key)
                    })
            }
        });
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
    let objects = state.store.objects();
    let tenant: Option<Tenant> = objects.get(&key).and_then(|layers| layers.as_written());
    tenant.is_some_and(|tenant| {
        let mut denied = tenant.spec.enrollment.denied.iter();
        denied.any(|denied| hashes.contains(&denied.key_hash))
    })
}

/// What the agent API keeps of an object, as it is written.
#[must_use]
pub fn layer(state: &world::State, key: &ObjectKey) -> Option<Value> {
    state.store.objects().owned(key, managers::ENROL).cloned()
}

/// Undoes a write, as far as the disk lets it: [`layer`] was there before.
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

fn kept<T: DeserializeOwned>(state: &world::State, key: &ObjectKey) -> Option<T> {
    serde_json::from_value(layer(state, key)?).ok()
}

async fn write(world: &World, key: ObjectKey, content: Value) -> Result<(), ApiError> {
    let layer = Layer::Owned(managers::ENROL.to_owned());
    let content = Some(content);
    let write = Write {
        key,
        layer,
        content,
    };
    let written = world.store.write(vec![write]).await;
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
