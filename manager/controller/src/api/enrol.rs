//! First contact: a proof that fits this connection alone, and an identity for whoever made it.
//!
//! ```text
//! refused too often? ─► proof ─► who may be enrolled with it ─► record ─► use counted ─► certificate
//!        429              401              403, 409             └── written over what was just read ──┘
//! ```

mod newcomer;
mod proof;

use std::{net::IpAddr, sync::Arc, time::Instant};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use kedge_control::{
    enrol::{EnrolRequest, Enrolled, ProofKind, Waiting},
    identity::Role,
};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{
    EdgeGatewaySpec, TenantSpec,
    elemental::{self, HOST_KIND},
    host::Identity,
};
use tracing::{info, warn};

use super::{
    access::{gateway_named, gateway_of},
    body::Bounded,
    buckets,
    error::ApiError,
    record,
    serve::Connection,
    turn::in_turn,
};
use crate::{
    events::Notice,
    metrics::Ended,
    pki::{self, SigningRequest},
    snapshot::key,
    store::{Name, ObjectKey, key::is_label},
    token::{self, Use},
    world::{Member, World},
};
use newcomer::{Entry, Newcomer};
use proof::Grant;

type Body = Bounded<EnrolRequest, 64>;

/// `POST /enrol`: the proof says what it admits to.
pub async fn by_token(
    State(world): State<Arc<World>>,
    Extension(connection): Extension<Arc<Connection>>,
    Bounded(request): Body,
) -> Result<Response, ApiError> {
    enrol(world, connection, None, request).await
}

/// `POST /tenants/{t}/hosts`.
pub async fn host(
    State(world): State<Arc<World>>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(tenant): Path<String>,
    Bounded(request): Body,
) -> Result<Response, ApiError> {
    enrol(world, connection, Some((Role::Host, tenant)), request).await
}

/// `POST /gateways/{g}/instances`.
pub async fn instance(
    State(world): State<Arc<World>>,
    Extension(connection): Extension<Arc<Connection>>,
    Path(gateway): Path<String>,
    Bounded(request): Body,
) -> Result<Response, ApiError> {
    let gateway = gateway_of(&gateway).to_string();
    enrol(world, connection, Some((Role::Gateway, gateway)), request).await
}

/// What became of a request.
enum Outcome {
    Enrolled(Box<Enrolled>),
    Waiting(Waiting),
}

async fn enrol(
    world: Arc<World>,
    connection: Arc<Connection>,
    scope: Option<(Role, String)>,
    request: EnrolRequest,
) -> Result<Response, ApiError> {
    let source = buckets::source(connection.address.ip());
    welcome(&world, source)?;
    let name = request.name.clone();
    let about = about(&world, scope.as_ref(), &request);
    let outcome = admit(&world, connection, scope, request).await;
    world.metrics.enrolled(Ended::of(&outcome));
    match outcome {
        Ok(Outcome::Enrolled(enrolled)) => {
            let (name, uid, path) = (&enrolled.name, &enrolled.uid, &enrolled.path);
            info!(name, uid, path, "enrolled");
            Ok((StatusCode::CREATED, Json(enrolled)).into_response())
        }
        Ok(Outcome::Waiting(waiting)) => {
            info!(name, key = waiting.key_hash, "a host waits for approval");
            Ok((StatusCode::ACCEPTED, Json(waiting)).into_response())
        }
        Err(error) => {
            unwelcome(&world, source, &error);
            let problem = error.problem();
            let name: String = name.escape_debug().take(63).collect();
            if let Some(left_out) = world.refusals.tell(Instant::now()) {
                let because = &problem.what;
                warn!(KEDGE_CODE = %problem.code, name, because, left_out, "an enrolment was refused");
                if let Some(about) = about {
                    world
                        .store
                        .tell(vec![Notice::refused(about, "EnrolmentDenied", problem)]);
                }
            }
            Err(error)
        }
    }
}

/// What a request is about: what its path names, else what its proof says it is made with.
fn about(
    world: &World,
    scope: Option<&(Role, String)>,
    request: &EnrolRequest,
) -> Option<ObjectKey> {
    let scoped = |role: Role, scope: &str| match role {
        Role::Host => key::<TenantSpec>(&Name::new("", scope)),
        Role::Gateway => key::<EdgeGatewaySpec>(&gateway_named(scope)),
    };
    if let Some((role, scope)) = scope {
        return Some(scoped(*role, scope));
    }
    let id = request.proof.id.as_str();
    match request.proof.kind {
        ProofKind::Token => {
            let named = world.store.named("", "Secret", &token::secret_name(id));
            let record = token::find(&named, id)?;
            Some(scoped(record.role, &record.scope))
        }
        ProofKind::ElementalKey => {
            let (namespace, name) = id.split_once('/')?;
            let record = Name::new(namespace, name);
            Some(ObjectKey::new(elemental::GROUP, HOST_KIND, record))
        }
        ProofKind::BoundKey => None,
    }
}

/// Refuses whoever was refused too often.
///
/// # Errors
///
/// It has to wait.
pub fn welcome(world: &World, source: IpAddr) -> Result<(), ApiError> {
    match world.limits.refused.wait(&source, Instant::now()) {
        Some(seconds) => Err(ApiError::too_many(
            "too many requests of this address were refused",
            seconds,
        )),
        None => Ok(()),
    }
}

/// Counts a guess against where the request came from.
pub fn unwelcome(world: &World, source: IpAddr, error: &ApiError) {
    if error.is_guess() {
        world.limits.refused.take(&source, Instant::now());
    }
}

async fn admit(
    world: &Arc<World>,
    connection: Arc<Connection>,
    scope: Option<(Role, String)>,
    request: EnrolRequest,
) -> Result<Outcome, ApiError> {
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
    // Nobody else waits for it.
    let sought = proof::sought(world, &connection, &request, &csr).await;
    in_turn(Arc::clone(world), |world| async move {
        let scope = scope.as_ref();
        for _ in 0..record::TRIES {
            let at = (scope, sought.as_ref());
            let grant = proof::proven(&world, &connection, &request, &csr, at).await?;
            if let Some(outcome) = attempt(&world, &grant, scope, &request, &csr).await? {
                world.touch();
                return Ok(outcome);
            }
        }
        Err(ApiError::restless("the token"))
    })
    .await
}

/// One try; none where something changed between what was read and what was to be written.
async fn attempt(
    world: &World,
    grant: &Grant,
    scope: Option<&(Role, String)>,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Result<Option<Outcome>, ApiError> {
    let used = grant
        .token
        .as_ref()
        .and_then(|token| token.record.used_with(&csr.key_hash()));
    match used {
        // The answer was lost, and the use counts once; without an identity it waits.
        Some(used) if !used.uid.is_empty() => {
            let uid = used.uid.clone();
            return repeat(world, &uid, csr).await.map(Some);
        }
        Some(_) => {}
        None => proof::usable(world, grant, &request.facts)?,
    }
    if let Some((role, scope)) = scope
        && (*role != grant.role || *scope != grant.path_scope())
    {
        return Err(refused(
            Code::EnrolTokenScope,
            "the token is not for this path",
        ));
    }
    if let Some(seconds) = world.limits.granted.wait(&grant.scope, Instant::now()) {
        let what = format!("{} enrols faster than it may", grant.scope);
        return Err(ApiError::too_many(what, seconds));
    }
    let newcomer = newcomer::newcomer(world, grant, request, csr).await?;
    let Newcomer {
        key,
        entry,
        member,
        current,
    } = newcomer;
    let before = current.layers.owned.get(crate::managers::ENROL).cloned();
    let written = match &entry {
        Entry::Host(host) => record::put_host(world, &key.name, host, &current).await?,
        Entry::Instances(all) => record::put_instances(world, &key.name, all, &current).await?,
    };
    // The record first: what is not counted yet can be asked for again with the same key, but a
    // use that was counted for a record that was never written would be lost.
    if !written {
        return Ok(None);
    }
    // Counted before anything is signed: of two racers for the last use one is refused.
    let uid = member.as_ref().map(|member| member.identity.uid.clone());
    let by = Use {
        uid: uid.unwrap_or_default(),
        key_hash: csr.key_hash(),
    };
    if let Some(token) = &grant.token {
        match token.count(world, by).await {
            Ok(true) => {}
            Ok(false) => {
                record::put_back(world, key, before).await;
                return Ok(None);
            }
            Err(problem) => {
                record::put_back(world, key, before).await;
                return Err(ApiError::unavailable(problem));
            }
        }
    }
    world.limits.granted.take(&grant.scope, Instant::now());
    let Some(member) = member else {
        return Ok(Some(Outcome::Waiting(Waiting {
            key_hash: csr.key_hash(),
        })));
    };
    world.state().await.admit(member.clone());
    let enrolled = record::certificate(world, &member, csr)?;
    Ok(Some(Outcome::Enrolled(Box::new(enrolled))))
}

/// The same key with the same token again.
async fn repeat(world: &World, uid: &str, csr: &SigningRequest) -> Result<Outcome, ApiError> {
    let (member, is_heard) = {
        let state = world.state().await;
        let member = state.member(uid);
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
    let enrolled = record::certificate(world, &member, csr)?;
    Ok(Outcome::Enrolled(Box::new(enrolled)))
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

fn refused(code: Code, what: &str) -> ApiError {
    let problem = Problem::new(code, what)
        .consequence("the host is not enrolled")
        .fix(Fix::text("make a new token").command("kedge token create --tenant TENANT"));
    ApiError::new(StatusCode::FORBIDDEN, problem)
}
