//! The desired state, by long poll.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use kedge_core::{Code, Problem};
use serde::Deserialize;
use tokio::time::{Instant as TokioInstant, sleep, timeout_at};
use tracing::warn;

use super::{access::Caller, error::ApiError};
use crate::{
    events::Notice,
    live::{Claim, Life},
    plan::clean,
    store::Name,
    world::{self, Party, World},
};

/// The query of a request.
#[derive(Debug, Default, Deserialize)]
pub struct Wait {
    /// How many seconds to wait for a change.
    #[serde(default)]
    wait: u64,
    /// The kernel's boot id.
    #[serde(default)]
    boot: String,
    /// `/etc/machine-id`.
    #[serde(default)]
    machine: String,
}

/// `GET <own path>/config?wait=30` with `If-None-Match`.
pub async fn config(
    State(world): State<Arc<World>>,
    caller: Caller,
    Query(query): Query<Wait>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.and_then(|etag| etag.to_str().ok()?.trim_matches('"').parse::<u64>().ok());
    let deadline = TokioInstant::now() + Duration::from_secs(query.wait.min(MAX_WAIT_SECONDS));
    let first = deadline.max(TokioInstant::now() + FIRST);
    let (mut versions, party) = {
        let mut state = world.state().await;
        let party = caller.member(&state)?.party.clone();
        (state.follow(party.namespace()), party)
    };
    if let Party::Host(name) = &party {
        let life = Life {
            boot_id: query.boot,
            machine_id: query.machine,
        };
        contend(&world, &caller, name, &life).await?;
    }
    let _open = Open::new(&world, party.clone()).await;
    loop {
        versions.mark_unchanged();
        {
            let state = world.state().await;
            // Suspended meanwhile, or gone: the request ends.
            caller.member(&state)?;
            let doubted = match &party {
                Party::Host(name) => state.tracker.is_doubted(name),
                Party::Instance(..) => false,
            };
            let late = TokioInstant::now() >= deadline;
            match generation(&state, &party) {
                Some(generation) if known != Some(generation) => {
                    let answer = answer(&world, &state, &party).ok_or_else(|| not_yet(&state))?;
                    return Ok((StatusCode::OK, etag(generation), answer).into_response());
                }
                // Asked to speak up: whoever lives asks again at once.
                Some(generation) if doubted || late => {
                    return Ok((StatusCode::NOT_MODIFIED, etag(generation)).into_response());
                }
                None if TokioInstant::now() >= first => return Err(not_yet(&state)),
                _ => {}
            }
        }
        let until = if TokioInstant::now() < deadline {
            deadline
        } else {
            first
        };
        let _: Result<_, _> = timeout_at(until, versions.changed()).await;
    }
}

/// Waits until it is clear which of two machines has an identity.
async fn contend(world: &World, caller: &Caller, name: &Name, life: &Life) -> Result<(), ApiError> {
    loop {
        let claim = {
            let mut state = world.state().await;
            caller.member(&state)?;
            state.tracker.claim_host(name, life, Instant::now())
        };
        match claim {
            Claim::Yours => return Ok(()),
            Claim::Probed => {
                // The holder's open request is answered, so that it shows whether it lives.
                world.state().await.nudge(&name.namespace);
                sleep(GLANCE).await;
            }
            Claim::Taken => {
                let error = ApiError::conflict(
                    Code::ApiConflict,
                    "another machine uses this identity, and it answers",
                );
                let problem = error.problem();
                warn!(KEDGE_CODE = %problem.code, host = %name, machine = %clean(&life.machine_id),
                    "an identity is used twice: the newcomer is refused");
                world.metrics.conflicted();
                let about = Party::Host(name.clone()).key();
                let notice = Notice::refused(about, "IdentityConflict", problem);
                world.store.tell(vec![notice]);
                world.touch();
                return Err(error);
            }
        }
    }
}

fn generation(state: &world::State, party: &Party) -> Option<u64> {
    match party {
        Party::Host(name) => state.host_generation(name),
        Party::Instance(gateway, name) => {
            let config = state.gateway_config(&(gateway.clone(), name.clone()))?;
            Some(config.generation)
        }
    }
}

fn answer(world: &World, state: &world::State, party: &Party) -> Option<Response> {
    match party {
        Party::Host(name) => {
            let config = state.host_config(name, &world.authority.bundle())?;
            Some(Json(config).into_response())
        }
        Party::Instance(gateway, name) => {
            let config = state.gateway_config(&(gateway.clone(), name.clone()))?;
            Some(Json(config).into_response())
        }
    }
}

fn etag(generation: u64) -> [(header::HeaderName, String); 1] {
    [(header::ETAG, format!("\"{generation}\""))]
}

/// Nothing is handed out that is not written down.
fn not_yet(state: &world::State) -> ApiError {
    let stuck = state.stuck().cloned();
    ApiError::unavailable(stuck.unwrap_or_else(|| {
        Problem::new(
            Code::CapiWaiting,
            "the desired state of this record is not decided yet",
        )
    }))
}

/// A request that waits, counted while it does.
struct Open {
    world: Arc<World>,
    party: Party,
}

impl Open {
    async fn new(world: &Arc<World>, party: Party) -> Self {
        let mut state = world.state().await;
        match &party {
            Party::Host(name) => state.tracker.open_host(name, Instant::now()),
            Party::Instance(gateway, name) => {
                state
                    .tracker
                    .open_gateway(&(gateway.clone(), name.clone()), Instant::now());
            }
        }
        Self {
            world: Arc::clone(world),
            party,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let (world, party) = (Arc::clone(&self.world), self.party.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            let mut state = world.state().await;
            match &party {
                Party::Host(name) => state.tracker.close_host(name, Instant::now()),
                Party::Instance(gateway, name) => close(&mut state, gateway, name),
            }
        });
    }
}

fn close(state: &mut world::State, gateway: &Name, name: &str) {
    let key = (gateway.clone(), name.to_owned());
    state.tracker.close_gateway(&key, Instant::now());
}

const MAX_WAIT_SECONDS: u64 = 60;
const GLANCE: Duration = Duration::from_millis(50);
// Who has just enrolled asks before the planner has gone round.
const FIRST: Duration = Duration::from_secs(2);
