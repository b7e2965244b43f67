//! What a tenant's cluster offers at the gateways, written for it by the manager.
//!
//! Only a host that may speak for its cluster is heard, and only for its own tenant. Its words are
//! fenced by an epoch: whoever takes over gets the next one.

mod certificates;
mod write;

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Json,
    extract::{FromRequestParts, Path, Query, State},
    http::request::Parts,
};
use kedge_control::exposure::{
    Epoch, Exposed, Exposure, ExposureAnswer, ExposureChange, ExposureKind, ExposureList,
    ExposureSet,
};
use kedge_core::Code;
use kedge_crd::{
    EdgeGateway, EdgeGatewaySpec, EdgeHost, EdgeHostSpec, ObjectMeta, Tenant, TenantSpec,
    capi::{self, CONTROL_PLANE_LABEL},
    tenant,
};
use serde::Deserialize;
use serde_json::Value;
use tracing::info;

use super::{
    access::{peer_of, revoked},
    body::Bounded,
    error::ApiError,
    turn::in_turn,
};
use crate::{
    managers,
    pki::Peer,
    plan::gateway::public_addresses,
    snapshot::key,
    store::{Name, ObjectKey},
    world::{self, Party, World},
};
use write::{Kept, apply, balancers, checked_all, epoch, kept, remove, take_over};

/// A host that asks for its tenant's exposures.
pub struct Speaker {
    peer: Peer,
    tenant: String,
}

/// What of a tenant is needed.
pub struct Scope {
    /// The tenant.
    pub tenant: String,
    /// The namespace of its objects.
    pub namespace: String,
    /// The host that speaks.
    pub host: String,
    /// How many load balancers it may have.
    pub most: usize,
    /// Its gateway.
    pub gateway: Option<Name>,
}

impl FromRequestParts<Arc<World>> for Speaker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, world: &Arc<World>) -> Result<Self, ApiError> {
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, world).await;
        let Path(path) = path.map_err(|_| ApiError::not_found())?;
        let tenant = path.into_iter().find(|(name, _)| name == "scope");
        let (_, tenant) = tenant.ok_or_else(ApiError::not_found)?;
        let peer = peer_of(parts, world)?;
        Ok(Self { peer, tenant })
    }
}

impl Speaker {
    /// The tenant it speaks for, if it may.
    fn scope(&self, state: &world::State) -> Result<Scope, ApiError> {
        let member = state.member(&self.peer.identity.uid);
        let member = member.ok_or_else(revoked)?;
        let Party::Host(name) = &member.party else {
            return Err(ApiError::forbidden("the path is not the caller's own"));
        };
        let is_own = member.tenant == self.tenant && name.namespace == self.peer.identity.namespace;
        // One answer for another's tenant and for none: who asks learns nothing about others.
        if !is_own || !member.holds(&self.peer) {
            return Err(ApiError::forbidden("the path is not the caller's own"));
        }
        if !member.active {
            return Err(ApiError::forbidden("the host is suspended or banned"));
        }
        let host = state.store.get(&key::<EdgeHostSpec>(name));
        let host: Option<EdgeHost> = host.and_then(|layers| layers.in_force().ok());
        let host = host.ok_or_else(revoked)?;
        let is_control_plane = || {
            let machine = Name::new(&name.namespace, &host.status.machine_ref);
            let machine = ObjectKey::new(capi::GROUP, "Machine", machine);
            let machine = state.store.get(&machine)?;
            let meta = machine.user.as_ref()?.value.get("metadata")?;
            let meta: ObjectMeta = serde_json::from_value(meta.clone()).ok()?;
            Some(meta.labels.contains_key(CONTROL_PLANE_LABEL))
        };
        let may = host.spec.exposures;
        if !may.unwrap_or_else(|| is_control_plane() == Some(true)) {
            return Err(ApiError::forbidden(
                "the host does not speak for its cluster (spec.exposures)",
            ));
        }
        let found = state
            .store
            .get(&key::<TenantSpec>(&Name::new("", &self.tenant)));
        let found: Option<Tenant> = found.and_then(|layers| layers.as_written());
        let found = found.filter(|found| tenant::namespace(found) == name.namespace);
        let found = found.ok_or_else(|| ApiError::forbidden("the path is not the caller's own"))?;
        let limits = found.spec.limits.as_ref();
        let most = limits.and_then(|limits| limits.load_balancers);
        let gateway = found.spec.gateway_ref.as_ref();
        Ok(Scope {
            gateway: gateway.map(|gateway| Name::new(gateway.namespace(), &gateway.name)),
            tenant: self.tenant.clone(),
            namespace: name.namespace.clone(),
            host: name.name.clone(),
            most: most.map_or(MAX_ITEMS, |most| most as usize),
        })
    }
}

/// `GET /tenants/{t}/exposures`.
pub async fn list(
    State(world): State<Arc<World>>,
    speaker: Speaker,
) -> Result<Json<ExposureList>, ApiError> {
    let scope = speaker.scope(&*world.state().await)?;
    let (epoch, _) = epoch(&world, &scope).await?;
    let objects = balancers(&world, &scope);
    let items = kept(&objects, &scope)
        .into_iter()
        .map(|Kept { kind, name, key }| {
            let whole = objects.get(&key).map(|layers| layers.effective());
            let whole = whole.unwrap_or_default();
            let part = |name: &str| whole.get(name).cloned().unwrap_or_default();
            let status = part("status");
            let conditions = status.get("conditions").and_then(Value::as_array);
            let observed = conditions
                .into_iter()
                .flatten()
                .filter_map(|condition| condition.get("observedGeneration")?.as_i64());
            let generation = whole
                .pointer("/metadata/generation")
                .and_then(Value::as_i64);
            Exposed {
                kind,
                name,
                spec: part("spec"),
                observed_generation: observed.min().unwrap_or_default(),
                generation: generation.unwrap_or_default(),
                status,
            }
        });
    let items = items.collect();
    Ok(Json(ExposureList {
        epoch,
        items,
        addresses: addresses(&world, &scope),
    }))
}

/// `POST /tenants/{t}/exposures/epoch`: whoever saw the epoch in force gets the next one.
pub async fn speak(
    State(world): State<Arc<World>>,
    speaker: Speaker,
    Bounded(seen): Bounded<Epoch, 1>,
) -> Result<Json<Epoch>, ApiError> {
    in_turn(world, |world| async move {
        let scope = speaker.scope(&*world.state().await)?;
        let epoch = take_over(&world, &scope, seen.epoch).await?;
        let (tenant, uid) = (&scope.tenant, &speaker.peer.identity.uid);
        info!(
            tenant,
            uid, epoch, "another host speaks for a tenant's cluster"
        );
        Ok(Json(Epoch { epoch }))
    })
    .await
}

/// `PUT /tenants/{t}/exposures`: every intent there is.
pub async fn replace(
    State(world): State<Arc<World>>,
    speaker: Speaker,
    Bounded(set): Bounded<ExposureSet, 4096>,
) -> Result<Json<ExposureAnswer>, ApiError> {
    if set.items.len() > MAX_ITEMS {
        return Err(ApiError::too_large(&format!("{MAX_ITEMS} exposures")));
    }
    if names(&set).len() != set.items.len() {
        return Err(ApiError::malformed("two exposures have one kind and name"));
    }
    if !set.items.iter().all(|item| set.kinds.contains(&item.kind)) {
        return Err(ApiError::malformed(
            "an exposure is of a kind that `kinds` does not name",
        ));
    }
    certificates::check(&set)?;
    in_turn(world, |world| async move {
        let scope = speaker.scope(&*world.state().await)?;
        fenced(&world, &scope, set.epoch).await?;
        // Nothing is written where one of them may not be.
        let changed = certificates::changed(&world, &scope, &set.certificates).await?;
        checked_all(&world, &scope, &set.items)?;
        certificates::put(&world, &scope, &changed).await?;
        let objects = balancers(&world, &scope);
        let synced: Vec<Kept> = kept(&objects, &scope)
            .into_iter()
            .filter(|kept| set.kinds.contains(&kept.kind))
            .collect();
        let names = names(&set);
        let gone: Vec<&Kept> = synced
            .iter()
            .filter(|kept| !names.contains(&(kept.kind, kept.name.as_str())))
            .collect();
        let mut answer = ExposureAnswer {
            written: apply(&world, &scope, &set.items).await?,
            ..ExposureAnswer::default()
        };
        if gone.len() * 2 > synced.len() && !set.confirm {
            let held = gone.iter();
            answer.held = held
                .map(|kept| format!("{}/{}", kept.kind.as_str(), kept.name))
                .collect();
        } else {
            answer.removed = remove(&world, &gone).await?;
            if set.kinds.contains(&ExposureKind::Http) {
                certificates::remove_others(&world, &scope, &set.certificates).await?;
            }
        }
        world.touch();
        Ok(Json(answer))
    })
    .await
}

/// `PUT /tenants/{t}/exposures/{kind}/{name}`: one intent besides the set.
pub async fn put(
    State(world): State<Arc<World>>,
    speaker: Speaker,
    Path((_, kind, name)): Path<(String, ExposureKind, String)>,
    Bounded(change): Bounded<ExposureChange, 64>,
) -> Result<Json<ExposureAnswer>, ApiError> {
    in_turn(world, |world| async move {
        let scope = speaker.scope(&*world.state().await)?;
        fenced(&world, &scope, change.epoch).await?;
        let item = Exposure {
            kind,
            name,
            spec: change.spec,
        };
        let written = apply(&world, &scope, &[item]).await?;
        world.touch();
        Ok(Json(ExposureAnswer {
            written,
            ..ExposureAnswer::default()
        }))
    })
    .await
}

/// The query of a removal.
#[derive(Debug, Deserialize)]
pub struct Spoken {
    epoch: u64,
}

/// `DELETE /tenants/{t}/exposures/{kind}/{name}?epoch=`.
pub async fn delete(
    State(world): State<Arc<World>>,
    speaker: Speaker,
    Path((_, kind, name)): Path<(String, ExposureKind, String)>,
    Query(spoken): Query<Spoken>,
) -> Result<Json<ExposureAnswer>, ApiError> {
    in_turn(world, |world| async move {
        let scope = speaker.scope(&*world.state().await)?;
        fenced(&world, &scope, spoken.epoch).await?;
        let objects = balancers(&world, &scope);
        let all = kept(&objects, &scope);
        let own: Vec<&Kept> = all
            .iter()
            .filter(|kept| kept.kind == kind && kept.name == name)
            .collect();
        let removed = remove(&world, &own).await?;
        world.touch();
        Ok(Json(ExposureAnswer {
            removed,
            ..ExposureAnswer::default()
        }))
    })
    .await
}

/// Where clients reach the tenant's gateway.
fn addresses(world: &World, scope: &Scope) -> Vec<String> {
    let gateway = scope.gateway.as_ref();
    let found = gateway.and_then(|name| world.store.get(&key::<EdgeGatewaySpec>(name)));
    let found: Option<EdgeGateway> = found.and_then(|layers| layers.in_force().ok());
    found.as_ref().map(public_addresses).unwrap_or_default()
}

async fn fenced(world: &World, scope: &Scope, spoken: u64) -> Result<(), ApiError> {
    let (in_force, _) = epoch(world, scope).await?;
    if spoken == in_force && spoken > 0 {
        return Ok(());
    }
    Err(ApiError::conflict(
        Code::ApiConflict,
        format!("the epoch in force is {in_force}, not {spoken}: another host speaks"),
    ))
}

fn names(set: &ExposureSet) -> BTreeSet<(ExposureKind, &str)> {
    let items = set.items.iter();
    items.map(|item| (item.kind, item.name.as_str())).collect()
}

/// The most intents of one cluster.
const MAX_ITEMS: usize = 512;
/// The layer of what is written here.
const LAYER: &str = managers::EXPOSED;
