//! The record of whoever is enrolled, made over what is there under its name.

use kedge_control::{enrol::EnrolRequest, identity::Role, local};
use kedge_core::Code;
use kedge_crd::{
    EdgeGatewaySpec, EdgeHost, EdgeHostSpec, Tenant, TenantSpec,
    gateway::Instance,
    host::{EnrolmentRequest, HostRef, Identity},
    tenant::{self, Approval},
};

use super::{proof::Grant, refused};
use crate::{
    api::{access::gateway_named, error::ApiError, record},
    pki::{self, SigningRequest},
    snapshot::key,
    store::{Current, Name, ObjectKey},
    world::{self, Kept, Member, Party, World},
};

/// A newcomer and what is to be written for it.
pub struct Newcomer {
    /// The object its record is kept in.
    pub key: ObjectKey,
    /// What is written.
    pub entry: Entry,
    /// The member it becomes; none while it waits for approval.
    pub member: Option<Member>,
    /// The object as it was read.
    pub current: Current,
}

/// What is written.
pub enum Entry {
    /// A host.
    Host(Box<EdgeHost>),
    /// The instances of a gateway.
    Instances(Vec<Instance>),
}

/// What a grant makes of a request.
pub async fn newcomer(
    world: &World,
    grant: &Grant,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Result<Newcomer, ApiError> {
    let key = match grant.role {
        Role::Host => key::<EdgeHostSpec>(&Name::new(&grant.namespace, &request.name)),
        Role::Gateway => key::<EdgeGatewaySpec>(&gateway_named(&grant.scope)),
    };
    let current = world.store.current(&key).await;
    let current = current.map_err(ApiError::unavailable)?;
    let state = world.state().await;
    let (member, entry) = match grant.role {
        Role::Host => host(world, &state, &current, grant, request, csr)?,
        Role::Gateway => instance(&state, &current, grant, request, csr)?,
    };
    let party = match grant.role {
        Role::Host => Party::Host(key.name.clone()),
        Role::Gateway => Party::Instance(key.name.clone(), request.name.clone()),
    };
    record::free_tunnel_key(&state, &request.tunnel_key, &party)?;
    Ok(Newcomer {
        key,
        entry,
        member,
        current,
    })
}

fn host(
    world: &World,
    state: &world::State,
    current: &Current,
    grant: &Grant,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Result<(Option<Member>, Entry), ApiError> {
    let objects = &state.store;
    let tenant_key = key::<TenantSpec>(&Name::new("", &grant.scope));
    let tenant: Option<Tenant> = objects
        .get(&tenant_key)
        .and_then(|layers| layers.as_written());
    let tenant = tenant
        .filter(|tenant| tenant::namespace(tenant) == grant.namespace)
        .ok_or_else(|| {
            refused(
                Code::EnrolTokenScope,
                "the token's tenant does not exist any more",
            )
        })?;
    let rules = &tenant.spec.enrollment;
    let wireguard = record::tunnel_key(&request.tunnel_key).unwrap_or_default();
    let hashes = [
        csr.key_hash(),
        pki::hash(&wireguard),
        grant.elemental_key.clone(),
    ];
    if record::is_banned(state, &grant.scope, &hashes) {
        return Err(ApiError::forbidden("the host's key was banned"));
    }
    let bound = grant.host_ref.as_ref();
    let claimed = request.host_ref.as_ref().map(|claimed| HostRef {
        api_group: claimed.api_group.clone(),
        kind: claimed.kind.clone(),
        name: claimed.name.clone(),
    });
    if bound.is_some() && claimed.is_some() && claimed.as_ref() != bound {
        return Err(refused(
            Code::EnrolTokenScope,
            "the token is bound to another host",
        ));
    }
    let name = Name::new(&grant.namespace, &request.name);
    let in_force: Option<EdgeHost> = current.layers.in_force().ok();
    if in_force.as_ref().is_some_and(|host| !host.spec.is_active()) {
        return Err(ApiError::forbidden("the host is suspended or banned"));
    }
    let (last, machine) = in_force.as_ref().map_or((None, None), |host| {
        (host.spec.identity.clone(), host.spec.host_ref.clone())
    });
    let identity = Identity {
        elemental_key: grant.elemental_key.clone(),
        ..identity(last.clone(), grant, csr, &request.name, world.clock.text())?
    };
    let is_new = identity.generation == 1;
    let elsewhere = match (&machine, bound) {
        (Some(machine), Some(bound)) => machine != bound,
        // A name is the newcomer's choice: it must not make it the machine an admin had in mind.
        (Some(_), None) => is_new,
        (None, _) => false,
    };
    if elsewhere {
        return Err(refused(
            Code::EnrolTokenScope,
            "the record stands for a machine that the token is not bound to",
        ));
    }
    let others: Vec<&Kept> = state
        .members()
        .filter(|member| match member.party() {
            Party::Host(other) => other.namespace == name.namespace && *other != name,
            Party::Instance(..) => false,
        })
        .collect();
    if let Some(bound) = bound
        && let Some(other) = others
            .iter()
            .find(|other| other.host_ref().as_ref() == Some(bound))
    {
        let what = format!(
            "{} {} is already the host {}",
            bound.kind,
            bound.name,
            other.party().name()
        );
        return Err(ApiError::conflict(Code::EnrolNameTaken, what));
    }
    let most = rules.max_hosts.unwrap_or(u32::MAX);
    if others.len() >= most as usize {
        return Err(ApiError::forbidden(format!(
            "tenant {} has {most} hosts, its limit",
            grant.scope
        )));
    }
    let mut host = record::kept_host(current, &name);
    host.metadata.labels.clone_from(&rules.host_labels);
    host.metadata.labels.extend(grant.labels());
    host.spec.tenant.clone_from(&grant.scope);
    let approved = in_force
        .as_ref()
        .and_then(|host| host.spec.approved.as_ref());
    let is_manual = match grant.approval() {
        Some(said) => said == local::Approval::Manual,
        None => rules.approval == Some(Approval::Manual),
    };
    let needs_word = is_manual && last.is_none();
    if needs_word && approved != Some(&csr.key_hash()) {
        let waits = in_force.and_then(|host| host.spec.request);
        if waits
            .as_ref()
            .is_some_and(|waits| waits.key_hash != csr.key_hash())
        {
            let what = format!("`{}` waits for approval with another key", request.name);
            return Err(ApiError::conflict(Code::EnrolNameTaken, what));
        }
        host.spec.request = waits.or_else(|| {
            Some(EnrolmentRequest {
                key_hash: csr.key_hash(),
                since: world.clock.text(),
            })
        });
        return Ok((None, Entry::Host(Box::new(host))));
    }
    host.spec.request = None;
    host.spec.identity = Some(identity.clone());
    // Bound once: a token that names no machine does not free it.
    host.spec.host_ref = bound.cloned().or(host.spec.host_ref);
    host.spec.tunnel.public_keys = vec![request.tunnel_key.clone()];
    let member = Member {
        party: Party::Host(name),
        active: true,
        tenant: grant.scope.clone(),
        tunnel_keys: host.spec.tunnel.public_keys.clone(),
        host_ref: host.spec.host_ref.clone(),
        identity,
    };
    Ok((Some(member), Entry::Host(Box::new(host))))
}

fn instance(
    state: &world::State,
    current: &Current,
    grant: &Grant,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Result<(Option<Member>, Entry), ApiError> {
    let gateway = gateway_named(&grant.scope);
    let known = state.store.get(&key::<EdgeGatewaySpec>(&gateway));
    if known.is_none_or(|layers| layers.user.is_none()) {
        return Err(refused(
            Code::EnrolTokenScope,
            "the token's EdgeGateway does not exist any more",
        ));
    }
    let mut all = record::kept_instances(current);
    let last = all.iter().find(|instance| instance.name == request.name);
    let last = last.map(|last| last.identity.clone());
    let identity = identity(last, grant, csr, &request.name, String::new())?;
    all.retain(|instance| instance.name != request.name);
    all.push(Instance {
        name: request.name.clone(),
        identity: identity.clone(),
        public_keys: vec![request.tunnel_key.clone()],
        ..Instance::default()
    });
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let member = Member {
        party: Party::Instance(gateway, request.name.clone()),
        active: true,
        tenant: String::new(),
        tunnel_keys: vec![request.tunnel_key.clone()],
        host_ref: None,
        identity,
    };
    Ok((Some(member), Entry::Instances(all)))
}

/// The identity of a newcomer: new, or that of the same key under the same name. A host that
/// Elemental reset comes back with other keys under its name: it is let in where Elemental itself
/// has made its record anew.
fn identity(
    last: Option<Identity>,
    grant: &Grant,
    csr: &SigningRequest,
    name: &str,
    issued: String,
) -> Result<Identity, ApiError> {
    let failed = |error: pki::NoRandomness| record::internal("make an identity", &error);
    let is_reset = |last: &Identity| {
        let (before, now) = (&last.elemental_key, &grant.elemental_key);
        !before.is_empty() && !now.is_empty() && before != now
    };
    let (uid, generation) = match last.filter(|last| !last.uid.is_empty()) {
        None => (pki::uuid().map_err(failed)?, 1),
        Some(last) if last.public_key == csr.key_pem() || is_reset(&last) => {
            (last.uid, last.generation.saturating_add(1))
        }
        Some(_) => {
            let what = format!("`{name}` is enrolled with another key");
            return Err(ApiError::conflict(Code::EnrolNameTaken, what));
        }
    };
    Ok(Identity {
        serial: pki::serial(generation).map_err(failed)?,
        public_key: csr.key_pem(),
        uid,
        generation,
        issued,
        ..Identity::default()
    })
}
