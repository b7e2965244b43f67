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
mod turn;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::Method,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, delete, get, patch, post, put},
};

use crate::{store::Leadership, world::World};
pub use access::gateway_named;
use error::ApiError;

/// The routes.
pub fn routes(world: Arc<World>) -> Router {
    let mut router = Router::new();
    for Way { path, handler, .. } in ways() {
        router = router.route(&path, handler);
    }
    router
        .fallback(|| async { ApiError::not_found() })
        .method_not_allowed_fallback(|| async { ApiError::not_found() })
        .layer(from_fn_with_state(Arc::clone(&world), led))
        .with_state(world)
}

/// Every method and path there is, with `{scope}`, `{name}` and `{kind}` for what varies.
#[must_use]
pub fn paths() -> Vec<(Method, String)> {
    ways()
        .into_iter()
        .map(|way| (way.method, way.path))
        .collect()
}

/// One way in: routes and [`paths`] are made of these alone, so that no path is one that nobody
/// counted.
struct Way {
    method: Method,
    path: String,
    handler: MethodRouter<Arc<World>>,
}

impl Way {
    fn new(method: Method, path: String, handler: MethodRouter<Arc<World>>) -> Self {
        Self {
            method,
            path,
            handler,
        }
    }
}

fn ways() -> Vec<Way> {
    let below = |path: &str| format!("/kedge/v1/{path}");
    let read = |path: String, handler| Way::new(Method::GET, path, handler);
    let ask = |path: String, handler| Way::new(Method::POST, path, handler);
    let put_at = |path: String, handler| Way::new(Method::PUT, path, handler);
    let mut all = vec![
        ask(below("enrol"), post(enrol::by_token)),
        ask(below("tenants/{scope}/hosts"), post(enrol::host)),
        ask(below("gateways/{scope}/instances"), post(enrol::instance)),
    ];
    for own in [
        "tenants/{scope}/hosts/{name}",
        "gateways/{scope}/instances/{name}",
    ] {
        let own = below(own);
        all.extend([
            Way::new(Method::PATCH, own.clone(), patch(report::report)),
            Way::new(Method::DELETE, own.clone(), delete(record::leave)),
            read(format!("{own}/config"), get(desired::config)),
            ask(format!("{own}/certificate"), post(renew::renew)),
            ask(format!("{own}/recover"), post(renew::recover)),
        ]);
    }
    let exposures = below("tenants/{scope}/exposures");
    let one = format!("{exposures}/{{kind}}/{{name}}");
    all.extend([
        read(exposures.clone(), get(exposures::list)),
        put_at(exposures.clone(), put(exposures::replace)),
        ask(format!("{exposures}/epoch"), post(exposures::speak)),
        put_at(one.clone(), put(exposures::put)),
        Way::new(Method::DELETE, one, delete(exposures::delete)),
    ]);
    all
}

/// Lets requests through while this manager leads: who is alive and who is a clone is seen in one
/// place, and nothing that could not be written down is answered.
async fn led(State(world): State<Arc<World>>, request: Request, next: Next) -> Response {
    match world.store.leadership() {
        Leadership::Me => next.run(request).await,
        Leadership::Other(_) => ApiError::no_leader().into_response(),
    }
}
