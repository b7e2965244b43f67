//! `GET /healthz`, `/readyz` and `/metrics`, without TLS, on a listener of their own: for probes and
//! scrapers, which have no certificate and learn no secret here.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use kedge_core::{Code, Fix, Problem};
use tokio::{net::TcpListener, time::timeout};
use tracing::warn;

use crate::{metrics::PATIENCE, world::World};

/// Binds the listener.
///
/// # Errors
///
/// The port cannot be used.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|error| {
        Problem::new(
            Code::HostSocketInUse,
            format!("health and metrics cannot be served at {address}"),
        )
        .caused_by(&error)
        .consequence("the manager does not start")
        .fix(Fix::text(
            "free the port, or set metrics.listen to another address",
        ))
    })
}

/// Serves for good.
pub async fn serve(listener: TcpListener, world: Arc<World>) {
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(world);
    if let Err(error) = axum::serve(listener, routes).await {
        let error = &error as &dyn std::error::Error;
        warn!(error, "health and metrics are not served any more");
    }
}

/// Alive: a planner that hangs holds its state, and then this does not answer in time.
async fn healthz(State(world): State<Arc<World>>) -> (StatusCode, &'static str) {
    match timeout(PATIENCE, world.state()).await {
        Ok(_) => (StatusCode::OK, "ok\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the planner hangs\n"),
    }
}

/// Ready: the store was read whole, and hosts can be answered; a manager that does not lead answers
/// them as well as the one that does.
async fn readyz(State(world): State<Arc<World>>) -> (StatusCode, &'static str) {
    if world.store.is_closed() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the manager is leaving\n");
    }
    healthz(State(world)).await
}

async fn metrics(State(world): State<Arc<World>>) -> Response {
    match timeout(PATIENCE, world.metrics.text(&world)).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Ok(Err(problem)) => (StatusCode::INTERNAL_SERVER_ERROR, problem.what).into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the planner hangs\n").into_response(),
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
