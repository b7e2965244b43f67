//! The agent API: HTTPS with mutual TLS for hosts and gateway instances.
//!
//! Everybody may connect; every route but enrolment and recovery demands a certificate of ours,
//! and access is looked up per request: a certificate says who asks, never what is allowed.

pub mod access;
mod body;
pub mod buckets;
mod desired;
mod enrol;
mod error;
mod exposures;
pub mod record;
pub mod relay;
mod renew;
mod report;
mod seats;
pub mod serve;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, patch, post, put},
};

use crate::{store::Leadership, world::World};
pub use access::gateway_named;
use error::ApiError;

/// The routes.
pub fn routes(world: Arc<World>) -> Router {
    let host = "/kedge/v1/tenants/{scope}/hosts/{name}";
    let instance = "/kedge/v1/gateways/{scope}/instances/{name}";
    let mut router = Router::new()
        .route("/kedge/v1/enrol", post(enrol::by_token))
        .route("/kedge/v1/tenants/{scope}/hosts", post(enrol::host))
        .route(
            "/kedge/v1/gateways/{scope}/instances",
            post(enrol::instance),
        );
    for path in [host, instance] {
        router = router
            .route(path, patch(report::report).delete(record::leave))
            .route(&format!("{path}/config"), get(desired::config))
            .route(&format!("{path}/certificate"), post(renew::renew))
            .route(&format!("{path}/recover"), post(renew::recover));
    }
    router
        .route(
            "/kedge/v1/tenants/{scope}/exposures",
            get(exposures::list).put(exposures::replace),
        )
        .route(
            "/kedge/v1/tenants/{scope}/exposures/epoch",
            post(exposures::speak),
        )
        .route(
            "/kedge/v1/tenants/{scope}/exposures/{kind}/{name}",
            put(exposures::put).delete(exposures::delete),
        )
        .fallback(|| async { ApiError::not_found() })
        .method_not_allowed_fallback(|| async { ApiError::not_found() })
        .layer(from_fn_with_state(Arc::clone(&world), led))
        .with_state(world)
}

/// Lets requests through while this manager leads: who is alive and who is a clone is seen in one
/// place, and nothing that could not be written down is answered.
async fn led(State(world): State<Arc<World>>, request: Request, next: Next) -> Response {
    match world.store.leadership() {
        Leadership::Me => next.run(request).await,
        Leadership::Other(_) => ApiError::no_leader().into_response(),
    }
}
