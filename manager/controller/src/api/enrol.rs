//! First contact: a bounded token, a proof that fits this connection alone, an identity.

use std::{sync::Arc, time::Instant};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kedge_control::{
    enrol::{EnrolRequest, Enrolled, ProofKind, proof_message},
    identity::Role,
};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{
    EdgeGatewaySpec, TenantSpec,
    gateway::Instance,
    host::{HostRef, Identity},
    tenant,
};
use tracing::{info, warn};

use super::{
    access::{gateway_named, gateway_of},
    body::Bounded,
    error::ApiError,
    record,
    serve::Connection,
};
use crate::{
    events::Notice,
    metrics::Ended,
    pki::{self, SigningRequest},
    snapshot::key,
    store::{Name, key::is_label},
    token::{self, Record, Use},
    world::{self, Member, Party, World},
};

type Body = Bounded<EnrolRequest, 64>;
type Answer = Result<(StatusCode, Json<Enrolled>), ApiError>;

/// `POST /enrol`: the token says what it admits to.
pub async fn by_token(
    State(world): State<Arc<World>>,
    Extension(connection): Extension<Arc<Connection>>,
    Bounded(request): Body,
) -> Answer {
    enrol(&world, &connection, None, request).await
}

/// `POST /tenants/{t}/hosts`.
pub async fn host(
    State(world): State<Arc<World>>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(tenant): Path<String>,
    Bounded(request): Body,
) -> Answer {
    enrol(&world, &connection, Some((Role::Host, tenant)), request).await
}

/// `POST /gateways/{g}/instances`.
pub async fn instance(
    State(world): State<Arc<World>>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(gateway): Path<String>,
    Bounded(request): Body,
) -> Answer {
    let gateway = gateway_of(&gateway).to_string();
    enrol(&world, &connection, Some((Role::Gateway, gateway)), request).await
}

async fn enrol(
    world: &World,
    connection: &Connection,
    scope: Option<(Role, String)>,
    request: EnrolRequest,
) -> Answer {
    let name = request.name.clone();
    let about = scope.as_ref().map(|(role, scope)| match role {
        Role::Host => key::<TenantSpec>(&Name::new("", scope)),
        Role::Gateway => key::<EdgeGatewaySpec>(&gateway_of(scope)),
    });
    let answer = admit(world, connection, scope, request).await;
    world.metrics.enrolled(Ended::of(&answer));
    match &answer {
        Ok((_, Json(enrolled))) => {
            info!(
                name = enrolled.name,
                uid = enrolled.uid,
                path = enrolled.path,
                "enrolled"
            );
            world.touch();
        }
        Err(error) => {
            let problem = error.problem();
            let name: String = name.escape_debug().take(63).collect();
            if let Some(left_out) = world.refusals.tell(Instant::now()) {
                let because = &problem.what;
                warn!(KEDGE_CODE = %problem.code, name, because, left_out, "an enrolment was refused");
                if let Some(about) = about {
                    world
                        .store
                        .tell(vec![Notice::refused(about, "EnrolmentDenied", &problem)]);
                }
            }
        }
    }
    answer
}

async fn admit(
    world: &World,
    connection: &Connection,
    scope: Option<(Role, String)>,
    request: EnrolRequest,
) -> Answer {
    if !is_label(&request.name) {
        return Err(ApiError::malformed("`name` must be a DNS label"));
    }
    if record::tunnel_key(&request.tunnel_key).is_none() {
        return Err(ApiError::malformed(
            "`tunnelKey` is no WireGuard public key in base64",
        ));
    }
    let csr = SigningRequest::parse(&request.csr)
        .map_err(|error| ApiError::malformed(error.to_string()))?;
    let _change = world.change().await;
    let mut token = proven(world, connection, &request, &csr)?;
    if let Some(used) = token.used_with(&csr.key_hash()) {
        return repeat(world, &used.uid.clone(), &csr).await;
    }
    usable(world, &token)?;
    if let Some((role, scope)) = scope
        && (role != token.role || scope != scope_of(&token))
    {
        return Err(refused(
            Code::EnrolTokenScope,
            "the token is not for this path",
        ));
    }
    let (member, write, before) = {
        let state = world.state().await;
        let (member, write) = match token.role {
            Role::Host => newcomer(world, &state, &token, &request, &csr)?,
            Role::Gateway => instance_newcomer(&state, &token, &request, &csr)?,
        };
        record::free_tunnel_key(&state, &request.tunnel_key, &member.party)?;
        let before = record::layer(&state, &member.party.key());
        (member, write, before)
    };
    token.used_by.push(Use {
        uid: member.identity.uid.clone(),
        key_hash: csr.key_hash(),
    });
    // The record first: what is not counted yet can be asked for again with the same key, but a
    // use that was counted for a record that was never written would be lost.
    match write {
        Entry::Host(name, host) => record::keep_host(world, &name, &host).await?,
        Entry::Instances(gateway, all) => record::keep_instances(world, &gateway, all).await?,
    }
    // Counted before anything is signed: of two racers for the last use one is refused.
    if let Err(problem) = world.store.write(vec![token.write()]).await {
        record::put_back(world, member.party.key(), before).await;
        return Err(ApiError::unavailable(problem));
    }
    world.state().await.admit(member.clone());
    Ok((
        StatusCode::CREATED,
        Json(record::certificate(world, &member, &csr)?),
    ))
}

/// What is to be written for a newcomer.
enum Entry {
    Host(Name, Box<kedge_crd::EdgeHost>),
    Instances(Name, Vec<Instance>),
}

/// The token whose key made the proof, on this very connection. A wrong id and a wrong signature
/// give one answer.
fn proven(
    world: &World,
    connection: &Connection,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Result<Record, ApiError> {
    let bad = || {
        let problem = Problem::new(
            Code::EnrolProofRefused,
            "the proof was not made with a token of this manager on this connection",
        )
        .consequence("the host is not enrolled")
        .fix(
            Fix::text("make a new token; expose the manager without a TLS-terminating proxy")
                .command("kedge token create --tenant TENANT"),
        );
        ApiError::new(StatusCode::UNAUTHORIZED, problem)
    };
    if request.proof.kind != ProofKind::Token {
        return Err(bad());
    }
    let signature = URL_SAFE_NO_PAD
        .decode(&request.proof.signature)
        .map_err(|_| bad())?;
    let token = token::find(&world.store.objects(), &request.proof.id).ok_or_else(bad)?;
    let message = proof_message(ProofKind::Token, &connection.exporter, &csr.digest);
    if token.verifies(&message, &signature) {
        Ok(token)
    } else {
        Err(bad())
    }
}

fn usable(world: &World, token: &Record) -> Result<(), ApiError> {
    if token.is_expired(world.clock.timestamp()) {
        return Err(refused(Code::EnrolTokenExpired, "the token has expired"));
    }
    if token.is_used_up() {
        return Err(refused(
            Code::EnrolTokenUsed,
            "the token was used as often as it may be",
        ));
    }
    Ok(())
}

/// The same key with the same token again: the answer was lost, and the use counts once.
async fn repeat(world: &World, uid: &str, csr: &SigningRequest) -> Answer {
    let (member, is_heard) = {
        let state = world.state().await;
        let member = state.members().get(uid).cloned();
        let heard = |member: &Member| state.tracker.hears(&member.party, Instant::now());
        let is_heard = member.as_ref().is_some_and(heard);
        (member, is_heard)
    };
    let member = member.filter(|member| member.active).ok_or_else(|| {
        refused(
            Code::EnrolTokenUsed,
            "the token was used for an identity that does not hold any more",
        )
    })?;
    let member = if member.identity.generation == 1 {
        member
    } else if is_heard {
        // Its answer was not lost, it went on from there: a copy must not put it out.
        return Err(ApiError::conflict(
            Code::ApiConflict,
            "the identity is in use; what asks for it again is another one",
        ));
    } else {
        next_generation(world, &member, String::new()).await?
    };
    Ok((
        StatusCode::CREATED,
        Json(record::certificate(world, &member, csr)?),
    ))
}

/// Gives a member's identity its next generation, written before anything is signed.
pub async fn next_generation(
    world: &World,
    member: &Member,
    renewal_id: String,
) -> Result<Member, ApiError> {
    let generation = member.identity.generation.saturating_add(1);
    let identity = Identity {
        serial: pki::serial(generation)
            .map_err(|error| record::internal("number a certificate", &error))?,
        generation,
        renewal_id,
        issued: world.clock.text(),
        ..member.identity.clone()
    };
    record::keep_identity(world, member, identity.clone()).await?;
    Ok(Member {
        identity,
        ..member.clone()
    })
}

fn newcomer(
    world: &World,
    state: &world::State,
    token: &Record,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Result<(Member, Entry), ApiError> {
    let objects = state.store.objects();
    let tenant_key = key::<TenantSpec>(&Name::new("", &token.scope));
    let tenant: Option<kedge_crd::Tenant> = objects
        .get(&tenant_key)
        .and_then(|layers| layers.as_written());
    let tenant = tenant
        .filter(|tenant| tenant::namespace(tenant) == token.namespace)
        .ok_or_else(|| {
            refused(
                Code::EnrolTokenScope,
                "the token's tenant does not exist any more",
            )
        })?;
    let rules = &tenant.spec.enrollment;
    let wireguard = record::tunnel_key(&request.tunnel_key).unwrap_or_default();
    let hashes = [csr.key_hash(), pki::hash(&wireguard)];
    if record::is_banned(state, &token.scope, &hashes) {
        return Err(ApiError::forbidden("the host's key was banned"));
    }
    let bound = token.host_ref.as_ref();
    if bound.is_some() && request.host_ref.is_some() && request.host_ref.as_ref() != bound {
        return Err(refused(
            Code::EnrolTokenScope,
            "the token is bound to another host",
        ));
    }
    let name = Name::new(&token.namespace, &request.name);
    let bound = bound.map(|bound| HostRef {
        api_group: bound.api_group.clone(),
        kind: bound.kind.clone(),
        name: bound.name.clone(),
    });
    let in_force: Option<kedge_crd::EdgeHost> = objects
        .get(&key::<kedge_crd::EdgeHostSpec>(&name))
        .and_then(|layers| layers.in_force().ok());
    if in_force.as_ref().is_some_and(|host| !host.spec.is_active()) {
        return Err(ApiError::forbidden("the host is suspended or banned"));
    }
    let (last, machine) = in_force.map_or((None, None), |host| {
        (host.spec.identity, host.spec.host_ref)
    });
    let identity = identity(world, last, csr, &request.name)?;
    let is_new = identity.generation == 1;
    let elsewhere = match (&machine, &bound) {
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
    let others = state
        .members()
        .values()
        .filter(|member| match &member.party {
            Party::Host(other) => other.namespace == name.namespace && *other != name,
            Party::Instance(..) => false,
        });
    if let Some(bound) = &bound {
        let other = others.clone().find_map(|member| match &member.party {
            Party::Host(other) => {
                let host = record::host(state, other);
                (host.spec.host_ref.as_ref() == Some(bound)).then(|| other.name.clone())
            }
            Party::Instance(..) => None,
        });
        if let Some(other) = other {
            let what = format!("{} {} is already the host {other}", bound.kind, bound.name);
            return Err(ApiError::conflict(Code::EnrolNameTaken, what));
        }
    }
    let most = rules.max_hosts.unwrap_or(u32::MAX);
    if others.count() >= most as usize {
        return Err(ApiError::forbidden(format!(
            "tenant {} has {most} hosts, its limit",
            token.scope
        )));
    }
    let mut host = record::host(state, &name);
    host.metadata.labels.clone_from(&rules.host_labels);
    host.spec.tenant.clone_from(&token.scope);
    host.spec.identity = Some(identity.clone());
    // Bound once: a token that names no machine does not free it.
    host.spec.host_ref = bound.or(host.spec.host_ref);
    host.spec.tunnel.public_keys = vec![request.tunnel_key.clone()];
    let member = Member {
        party: Party::Host(name.clone()),
        active: true,
        tenant: token.scope.clone(),
        identity,
    };
    Ok((member, Entry::Host(name, Box::new(host))))
}

fn instance_newcomer(
    state: &world::State,
    token: &Record,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Result<(Member, Entry), ApiError> {
    let gateway = gateway_named(&token.scope);
    let objects = state.store.objects();
    let known = objects.get(&key::<EdgeGatewaySpec>(&gateway));
    if known.is_none_or(|layers| layers.user.is_none()) {
        return Err(refused(
            Code::EnrolTokenScope,
            "the token's EdgeGateway does not exist any more",
        ));
    }
    let mut all = record::instances(state, &gateway);
    let last = all.iter().find(|instance| instance.name == request.name);
    let identity = identity_of(
        last.map(|last| last.identity.clone()),
        csr,
        &request.name,
        String::new(),
    )?;
    all.retain(|instance| instance.name != request.name);
    all.push(Instance {
        name: request.name.clone(),
        identity: identity.clone(),
        public_keys: vec![request.tunnel_key.clone()],
        ..Instance::default()
    });
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let member = Member {
        party: Party::Instance(gateway.clone(), request.name.clone()),
        active: true,
        tenant: String::new(),
        identity,
    };
    Ok((member, Entry::Instances(gateway, all)))
}

fn identity(
    world: &World,
    last: Option<Identity>,
    csr: &SigningRequest,
    name: &str,
) -> Result<Identity, ApiError> {
    identity_of(last, csr, name, world.clock.text())
}

/// The identity of a newcomer: new, or that of the same key under the same name.
fn identity_of(
    last: Option<Identity>,
    csr: &SigningRequest,
    name: &str,
    issued: String,
) -> Result<Identity, ApiError> {
    let failed = |error: pki::NoRandomness| record::internal("make an identity", &error);
    let (uid, generation) = match last.filter(|last| !last.uid.is_empty()) {
        None => (pki::uuid().map_err(failed)?, 1),
        Some(last) if last.public_key == csr.key_pem() => {
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

/// The scope as it stands in paths.
fn scope_of(token: &Record) -> String {
    match token.role {
        Role::Host => token.scope.clone(),
        Role::Gateway => gateway_named(&token.scope).to_string(),
    }
}

fn refused(code: Code, what: &str) -> ApiError {
    let problem = Problem::new(code, what)
        .consequence("the host is not enrolled")
        .fix(Fix::text("make a new token").command("kedge token create --tenant TENANT"));
    ApiError::new(StatusCode::FORBIDDEN, problem)
}
