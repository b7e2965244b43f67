//! The agent API: HTTPS with mutual TLS for hosts and gateway instances.
//!
//! Everybody may connect; every route but enrolment and recovery demands a certificate of ours,
//! and access is looked up per request: a certificate says who asks, never what is allowed.

pub mod access;
mod body;
mod desired;
mod enrol;
mod error;
mod record;
mod renew;
mod report;
mod seats;
pub mod serve;

use std::sync::Arc;

use axum::{
    Router,
    routing::{get, patch, post},
};

use crate::world::World;
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
        .fallback(|| async { ApiError::not_found() })
        .method_not_allowed_fallback(|| async { ApiError::not_found() })
        .with_state(world)
}
