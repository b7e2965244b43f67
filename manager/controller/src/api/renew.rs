//! The next certificate: at half life with the last one, or by the bound key after it expired.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use axum::{Extension, Json, extract::State};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use kedge_control::enrol::{Enrolled, ProofKind, RecoverRequest, RenewRequest, proof_message};
use kedge_core::Code;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tracing::{info, warn};

use super::{
    access::{Caller, Place},
    body::Bounded,
    buckets,
    enrol::{next_generation, unwelcome, welcome},
    error::ApiError,
    record,
    serve::Connection,
    turn::in_turn,
};
use crate::{
    events::Notice,
    metrics::Ended,
    pki::{Peer, Presented, SigningRequest, Verdict, request::key_bytes, verdict::verdict},
    world::{Member, Party, World},
};

/// `POST <own path>/certificate`.
pub async fn renew(
    State(world): State<Arc<World>>,
    caller: Caller,
    Bounded(request): Bounded<RenewRequest, 64>,
) -> Result<Json<Enrolled>, ApiError> {
    let csr = own_request(&request.csr, &request.renewal_id)?;
    in_turn(world, |world| async move {
        let member = caller.member(&*world.state().await)?;
        if request.generation != caller.peer.generation {
            return Err(ApiError::malformed(
                "`generation` is not that of the certificate in use",
            ));
        }
        let enrolled = next(&world, &member, &caller.peer, &csr, &request.renewal_id).await;
        ended(&world, &member, "CertificateRenewed", &enrolled);
        Ok(Json(enrolled?))
    })
    .await
}

/// `POST <own path>/recover`: no certificate is shown (an expired one fails the handshake); the
/// identity key proves itself on this connection.
pub async fn recover(
    State(world): State<Arc<World>>,
    Extension(connection): Extension<Arc<Connection>>,
    place: Place,
    Bounded(request): Bounded<RecoverRequest, 64>,
) -> Result<Json<Enrolled>, ApiError> {
    let source = buckets::source(connection.address.ip());
    welcome(&world, source)?;
    let recovered = in_turn(Arc::clone(&world), |world| async move {
        recovered(&world, &connection, place, &request).await
    });
    let recovered = recovered.await;
    if let Err(error) = &recovered {
        unwelcome(&world, source, error);
    }
    recovered.map(Json)
}

async fn recovered(
    world: &World,
    connection: &Connection,
    place: Place,
    request: &RecoverRequest,
) -> Result<Enrolled, ApiError> {
    let csr = own_request(&request.csr, &request.renewal_id)?;
    let peer = last_certificate(world, &request.certificate)?;
    let caller = Caller {
        peer: peer.clone(),
        place,
    };
    let member = caller.member(&*world.state().await)?;
    if let Err(error) = proven(connection, request, &csr, &member) {
        let about = member.party.key();
        let notice = Notice::refused(about, "AuthRejected", error.problem());
        world.store.tell(vec![notice]);
        return Err(error);
    }
    let now = world.clock.timestamp();
    let age = world
        .clock
        .now()
        .duration_since(peer.not_after)
        .unwrap_or_default();
    if age > RECOVERY_WINDOW {
        return Err(ApiError::forbidden(
            "the certificate expired more than 30 days ago; enrol with a new token",
        ));
    }
    let last: Option<Timestamp> = member.identity.recovered.parse().ok();
    let again =
        last.is_some_and(|last| now.duration_since(last).as_secs() < RECOVERY_PAUSE_SECONDS);
    let mut member = member;
    let matches = peer.generation == member.identity.generation;
    let repeated = member.identity.renewal_id == request.renewal_id;
    if again && !repeated {
        return Err(ApiError::forbidden(
            "the identity was recovered within the last hour",
        ));
    }
    if !matches && !repeated {
        if member.identity.recovery_mismatches >= RECOVERY_LIMIT {
            return Err(conflict());
        }
        member.identity.recovery_mismatches += 1;
    }
    member.identity.recovered = world.clock.text();
    info!(
        uid = member.identity.uid,
        "an expired identity is recovered by its key"
    );
    let enrolled = next(world, &member, &peer, &csr, &request.renewal_id).await;
    ended(world, &member, "IdentityRecovered", &enrolled);
    enrolled
}

/// Counts and tells how a renewal ended; `granted` is what it is called when it was granted.
fn ended(world: &World, member: &Member, granted: &str, enrolled: &Result<Enrolled, ApiError>) {
    world.metrics.renewed(Ended::of(enrolled));
    let about = member.party.key();
    let notice = match enrolled {
        Ok(enrolled) => {
            let generation = enrolled.generation;
            let note = format!("the certificate of generation {generation} was issued");
            Notice::asked(about, granted, note)
        }
        Err(error) => {
            let problem = error.problem();
            if problem.code != Code::ApiConflict {
                return;
            }
            world.metrics.conflicted();
            Notice::refused(about, "IdentityConflict", problem)
        }
    };
    world.store.tell(vec![notice]);
}

/// The next certificate by the table of verdicts.
async fn next(
    world: &World,
    member: &Member,
    peer: &Peer,
    csr: &SigningRequest,
    renewal_id: &str,
) -> Result<Enrolled, ApiError> {
    // The identity is its key: a certificate for another key would be another host.
    if member.identity.public_key != csr.key_pem() {
        return Err(ApiError::conflict(
            Code::ApiConflict,
            "the request is for another key than the identity's",
        ));
    }
    let shown = Presented {
        generation: peer.generation,
        serial: &peer.serial,
        renewal_id,
    };
    let verdict = verdict(&member.identity, shown);
    let uid = member.identity.uid.as_str();
    let member = match verdict {
        Verdict::Repeat => {
            info!(uid, "an answer was lost: the same certificate again");
            member.clone()
        }
        Verdict::Renew => next_generation(world, member, renewal_id.to_owned()).await?,
        Verdict::Repair => {
            warn!(
                uid,
                kept = member.identity.generation,
                shown = peer.generation,
                "the store is older than a certificate: its generation is taken from there"
            );
            let note = format!(
                "the store knows generation {} of its certificate and it has {}: the store is older",
                member.identity.generation, peer.generation
            );
            let notice = Notice::asked(member.party.key(), "IdentityRepaired", note);
            world.store.tell(vec![notice]);
            let mut member = member.clone();
            member.identity.generation = peer.generation;
            next_generation(world, &member, renewal_id.to_owned()).await?
        }
        Verdict::Conflict => {
            warn!(
                uid,
                KEDGE_CODE = %Code::ApiConflict,
                kept = member.identity.generation,
                shown = peer.generation,
                "an identity is used twice: the newcomer is refused"
            );
            if let Party::Host(name) = &member.party {
                let mut state = world.state().await;
                state.tracker.conflicted(name, Instant::now());
                drop(state);
                world.touch();
            }
            return Err(conflict());
        }
    };
    record::certificate(world, &member, csr)
}

fn own_request(csr: &str, renewal_id: &str) -> Result<SigningRequest, ApiError> {
    if renewal_id.is_empty() || renewal_id.len() > 128 {
        return Err(ApiError::malformed(
            "`renewalID` must have 1 to 128 characters",
        ));
    }
    SigningRequest::parse(csr).map_err(|error| ApiError::malformed(error.to_string()))
}

/// The identity of a certificate of ours, whatever the time is.
fn last_certificate(world: &World, pem: &str) -> Result<Peer, ApiError> {
    let malformed = || ApiError::malformed("`certificate` is no certificate in PEM");
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| malformed())?;
    if !world.authority.signed(&der) {
        return Err(ApiError::unauthenticated(
            "the certificate was not issued here",
        ));
    }
    Peer::read(&der, &world.trust_domain)
        .map_err(|error| ApiError::unauthenticated(error.to_string()))
}

fn proven(
    connection: &Connection,
    request: &RecoverRequest,
    csr: &SigningRequest,
    member: &Member,
) -> Result<(), ApiError> {
    let bad = || {
        ApiError::unauthenticated(
            "the proof was not made with the identity's key on this connection",
        )
    };
    if request.proof.kind != ProofKind::BoundKey {
        return Err(bad());
    }
    let signature = URL_SAFE_NO_PAD
        .decode(&request.proof.signature)
        .map_err(|_| bad())?;
    let key = key_bytes(&member.identity.public_key).ok_or_else(bad)?;
    let message = proof_message(ProofKind::BoundKey, &connection.exporter, &csr.digest);
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(&message, &signature).map_err(|_| bad())
}

fn conflict() -> ApiError {
    ApiError::conflict(
        Code::ApiConflict,
        "somebody else has renewed with this identity",
    )
}

const RECOVERY_WINDOW: Duration = Duration::from_secs(30 * 86_400);
const RECOVERY_PAUSE_SECONDS: i64 = 3600;
const RECOVERY_LIMIT: u32 = 3;
