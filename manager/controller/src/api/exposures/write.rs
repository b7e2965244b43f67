//! The objects of a tenant's exposures, and the epoch that fences them.

use axum::http::StatusCode;
use kedge_control::exposure::{CERTIFICATE_PREFIX, Exposure, ExposureKind};
use kedge_core::{Code, Problem};
use kedge_crd::{
    HttpLoadBalancerSpec, LoadBalancerSpec, Resource as _, TcpLoadBalancerSpec, meta,
    validate::validate,
};
use serde_json::{Value, json};

use super::{LAYER, Scope};
use crate::{
    api::{error::ApiError, record::TRIES},
    managers,
    plan::{exposed::SPEAKER, marks::TENANT_LABEL},
    store::{Current, Layer, Layers, Name, ObjectKey, Objects, Write, key::is_subdomain},
    world::World,
};

/// An object that was written for a tenant.
pub struct Kept {
    /// Its kind.
    pub kind: ExposureKind,
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: ObjectKey,
}

/// The load balancers of the tenant's namespace, of whatever kind.
pub fn balancers(world: &World, scope: &Scope) -> Objects {
    let mut all = Objects::default();
    for kind in BALANCERS {
        let space = Some(scope.namespace.as_str());
        let mut of_kind = world.store.of_kind(meta::GROUP, kind, space);
        all.by_key.append(&mut of_kind.by_key);
    }
    all
}

/// What of these was written for the tenant, by kind and name.
pub fn kept(objects: &Objects, scope: &Scope) -> Vec<Kept> {
    let mut all = Vec::new();
    for kind in [ExposureKind::Tcp, ExposureKind::Http] {
        let own = objects
            .of_kind(meta::GROUP, kind.as_str())
            .filter(|(_, layers)| is_of(layers, &scope.tenant));
        all.extend(own.map(|(key, _)| Kept {
            kind,
            name: key.name.name.clone(),
            key: key.clone(),
        }));
    }
    all
}

/// The epoch in force, with the record it stands in.
pub async fn epoch(world: &World, scope: &Scope) -> Result<(u64, Current), ApiError> {
    let current = world.store.current(&epoch_key(scope)).await;
    let current = current.map_err(ApiError::unavailable)?;
    let layer = current.layers.owned.get(LAYER);
    let text = layer.and_then(|layer| layer.pointer("/stringData/epoch")?.as_str());
    let epoch = text.and_then(|text| text.parse().ok());
    Ok((epoch.unwrap_or_default(), current))
}

/// Begins the next epoch, if `seen` is the one in force.
pub async fn take_over(world: &World, scope: &Scope, seen: u64) -> Result<u64, ApiError> {
    let (in_force, current) = epoch(world, scope).await?;
    let next = in_force.saturating_add(1);
    let key = epoch_key(scope);
    let content = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        // Of the type that is watched; what it holds is told by its name.
        "type": "kedge.dev/enrollment-token",
        "metadata": {"name": key.name.name, "namespace": key.name.namespace,
            "labels": {"clusterctl.cluster.x-k8s.io/move": ""}},
        "stringData": {"epoch": next.to_string()},
    });
    let write = Write {
        key,
        layer: Layer::Owned(LAYER.to_owned()),
        content: Some(content),
    };
    let won = in_force == seen && {
        let written = world.store.write_over(write, &current).await;
        written.map_err(ApiError::unavailable)?
    };
    if won {
        return Ok(next);
    }
    Err(ApiError::conflict(
        Code::ApiConflict,
        format!("the epoch in force is not {seen}: another host took over"),
    ))
}

/// Writes the objects of these intents; says how many differ from before. Nothing is written where
/// one of them may not be.
pub async fn apply(world: &World, scope: &Scope, items: &[Exposure]) -> Result<u32, ApiError> {
    let objects = balancers(world, scope);
    let mut writes = Vec::new();
    let mut news = 0;
    for item in items {
        let key = object_key(scope, item.kind, &item.name);
        let content = checked(&objects, scope, &key, item)?;
        let layers = objects.get(&key);
        news += usize::from(layers.is_none());
        let known = layers.and_then(|layers| layers.owned.get(LAYER));
        if known != Some(&content) {
            writes.push((key, content));
        }
    }
    if news > 0 && objects.by_key.len() + news > scope.most {
        let most = scope.most;
        return Err(ApiError::forbidden(format!(
            "tenant {} may have {most} load balancers",
            scope.tenant
        )));
    }
    let written = u32::try_from(writes.len()).unwrap_or(u32::MAX);
    for (key, content) in writes {
        put(world, scope, key, content).await?;
    }
    Ok(written)
}

/// Whether every intent may be written.
pub fn checked_all(world: &World, scope: &Scope, items: &[Exposure]) -> Result<(), ApiError> {
    let objects = balancers(world, scope);
    for item in items {
        let key = object_key(scope, item.kind, &item.name);
        checked(&objects, scope, &key, item)?;
    }
    Ok(())
}

/// Removes objects; says how many.
pub async fn remove(world: &World, gone: &[&Kept]) -> Result<u32, ApiError> {
    let writes: Vec<Write> = gone
        .iter()
        .map(|kept| Write {
            key: kept.key.clone(),
            layer: Layer::Owned(LAYER.to_owned()),
            content: None,
        })
        .collect();
    let removed = u32::try_from(writes.len()).unwrap_or(u32::MAX);
    let written = world.store.write(writes).await;
    written.map_err(ApiError::unavailable)?;
    Ok(removed)
}

async fn put(world: &World, scope: &Scope, key: ObjectKey, content: Value) -> Result<(), ApiError> {
    for _ in 0..TRIES {
        let current = world.store.current(&key).await;
        let current = current.map_err(ApiError::unavailable)?;
        if !is_of(&current.layers, &scope.tenant) && !is_nobodys(&current.layers) {
            return Err(taken(&key));
        }
        let write = Write {
            key: key.clone(),
            layer: Layer::Owned(LAYER.to_owned()),
            content: Some(content.clone()),
        };
        let written = world.store.write_over(write, &current).await;
        if written.map_err(ApiError::unavailable)? {
            return Ok(());
        }
    }
    Err(ApiError::restless(&key))
}

/// The document of an intent, if it may be written.
fn checked(
    objects: &Objects,
    scope: &Scope,
    key: &ObjectKey,
    item: &Exposure,
) -> Result<Value, ApiError> {
    if !is_subdomain(&item.name) {
        return Err(ApiError::malformed(
            "an exposure's name is no DNS subdomain",
        ));
    }
    let layers = objects.get(key);
    let layers = layers.filter(|layers| !is_nobodys(layers));
    if layers.is_some_and(|layers| !is_of(layers, &scope.tenant)) {
        return Err(taken(key));
    }
    let ports = item.spec.get("ports").and_then(Value::as_array);
    let chosen = ports
        .into_iter()
        .flatten()
        .any(|port| port.get("listenerPort").is_some());
    if chosen {
        return Err(refused(key, "`listenerPort` is the manager's to choose"));
    }
    led_to_own(key, item)?;
    let document = json!({
        "apiVersion": TcpLoadBalancerSpec::api_version(),
        "kind": key.kind,
        "metadata": {"name": key.name.name, "namespace": key.name.namespace,
            "labels": {TENANT_LABEL: scope.tenant},
            "annotations": {SPEAKER: scope.host}},
        "spec": item.spec,
    });
    let before = layers.map(Layers::effective);
    validate(&document, before.as_ref()).map_err(|violations| {
        let what: Vec<String> = violations.iter().map(ToString::to_string).collect();
        refused(key, &what.join("; "))
    })?;
    Ok(document)
}

/// An agent leads its load balancers to its own certificates alone: other Secrets of the namespace may be
/// another tenant's, or the manager's.
fn led_to_own(key: &ObjectKey, item: &Exposure) -> Result<(), ApiError> {
    let tls = item.spec.get("tls").and_then(Value::as_array);
    let tls = tls.into_iter().flatten().enumerate();
    for (at, tls) in tls {
        let secret = tls.get("secretRef").and_then(Value::as_str);
        if secret.is_some_and(|secret| !secret.starts_with(CERTIFICATE_PREFIX)) {
            let what = format!(
                "spec.tls[{at}].secretRef must begin with `{CERTIFICATE_PREFIX}`: it is one of the set's certificates"
            );
            return Err(refused(key, &what));
        }
    }
    Ok(())
}

fn is_of(layers: &Layers, tenant: &str) -> bool {
    let labels = layers.owned.get(LAYER);
    let labels = labels.and_then(|layer| layer.pointer("/metadata/labels"));
    labels.is_some_and(|labels| labels.get(TENANT_LABEL) == Some(&Value::from(tenant)))
}

/// Whether nobody asks for an object: what the manager chose for one that was withdrawn may be left for a moment.
fn is_nobodys(layers: &Layers) -> bool {
    let mut owners = layers.owned.keys();
    let is_beside = |owner: &String| managers::BESIDE.contains(&owner.as_str());
    layers.user.is_none() && layers.server.is_none() && owners.all(is_beside)
}

fn object_key(scope: &Scope, kind: ExposureKind, name: &str) -> ObjectKey {
    let name = Name::new(&scope.namespace, name);
    ObjectKey::new(meta::GROUP, kind.as_str(), name)
}

fn epoch_key(scope: &Scope) -> ObjectKey {
    let name = format!("kedge-exposures-{}", scope.tenant);
    ObjectKey::new("", "Secret", Name::new(&scope.namespace, name))
}

fn taken(key: &ObjectKey) -> ApiError {
    ApiError::conflict(Code::ApiConflict, format!("{key} is somebody else's"))
}

fn refused(key: &ObjectKey, what: &str) -> ApiError {
    let what: String = what.chars().take(500).collect();
    let problem = Problem::new(Code::ApiMalformed, format!("{key} cannot be accepted"))
        .evidence(what.escape_debug().to_string())
        .consequence("nothing of the request was written");
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, problem)
}

/// The kinds of load balancers.
const BALANCERS: [&str; 3] = [
    LoadBalancerSpec::KIND,
    TcpLoadBalancerSpec::KIND,
    HttpLoadBalancerSpec::KIND,
];
