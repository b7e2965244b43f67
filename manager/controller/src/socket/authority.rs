//! The rotation of the certificate authority, for root.

use std::{sync::Arc, time::Duration};

use axum::{extract::State, http::StatusCode};
use jiff::Timestamp;
use kedge_control::local::{AuthorityRotation, RotationRequest};
use kedge_core::Code;

use super::{Answer, Body, Context, Refusal};
use crate::{clock::to_text, pki::authority::OVERLAP};

/// `POST /v1/fleet/authority`: puts the next authority in force beside the last.
pub async fn rotate<Root>(
    _: Root,
    State(context): State<Arc<Context>>,
    Body(request): Body<RotationRequest>,
) -> Result<Answer<AuthorityRotation>, Refusal> {
    let world = &context.world;
    let overlap = request.overlap_seconds.map_or(OVERLAP, Duration::from_secs);
    if !(LEAST..=MOST).contains(&overlap) {
        let what = format!(
            "authorities overlap {} to {} seconds, not {}",
            LEAST.as_secs(),
            MOST.as_secs(),
            overlap.as_secs()
        );
        return Err(Refusal::unprocessable(Code::ConfigOutOfRange, what));
    }
    let text = |at| to_text(Timestamp::try_from(at).unwrap_or_default());
    if request.dry_run {
        let would = AuthorityRotation {
            from: world.authority.pin(),
            to: None,
            until: text(world.clock.now() + overlap),
        };
        return Ok(Answer(StatusCode::OK, would));
    }
    if !world.store.leads() {
        let seconds = overlap.as_secs();
        let command = format!("kedge fleet rotate-ca --overlap {seconds}s --yes");
        return Err(Refusal::elsewhere(world, &command));
    }
    let rotated = world.authority.rotate(&world.store, overlap).await;
    let rotated = rotated.map_err(|problem| {
        let status = match problem.code {
            Code::ApiConflict => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal(status, problem)
    })?;
    let done = AuthorityRotation {
        from: rotated.from,
        to: Some(rotated.to),
        until: text(rotated.until),
    };
    Ok(Answer(StatusCode::OK, done))
}

const LEAST: Duration = Duration::from_secs(60);
const MOST: Duration = Duration::from_secs(365 * 86_400);
