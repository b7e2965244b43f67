//! `GET /healthz` and `/readyz`, without TLS, for the probes of a kubelet: they learn no secret here.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use kedge_core::{Code, Fix, Problem};
use tokio::net::TcpListener;
use tracing::warn;

use crate::seen::Seen;

/// What probes are answered with.
#[derive(Debug)]
pub struct Health {
    seen: Arc<Seen>,
    /// How long a turn may take, and since when one goes on.
    limit: Duration,
    turn: Mutex<Option<Instant>>,
}

type Answer = (StatusCode, &'static str);

impl Health {
    /// Of an agent that sees this, and of which no turn takes longer than `limit`.
    pub fn new(seen: Arc<Seen>, limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            seen,
            limit,
            turn: Mutex::default(),
        })
    }

    /// A turn begins.
    pub fn begins(&self) {
        self.set(Some(Instant::now()));
    }

    /// It has ended.
    pub fn ends(&self) {
        self.set(None);
    }

    fn set(&self, turn: Option<Instant>) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }

    /// Alive: a turn that takes too long is ended, unless it holds the thread it is on.
    fn alive(&self) -> Answer {
        let turn = *self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match turn {
            Some(since) if since.elapsed() > self.limit * 2 => {
                (StatusCode::SERVICE_UNAVAILABLE, "a turn hangs\n")
            }
            _ => (StatusCode::OK, "ok\n"),
        }
    }

    /// Ready: it has seen the cluster, and can speak for it as soon as it holds the Lease.
    fn ready(&self) -> Answer {
        match self.seen.is_whole() {
            true => self.alive(),
            false => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the cluster was not seen whole yet\n",
            ),
        }
    }
}

/// Binds the listener, where one is asked for.
///
/// # Errors
///
/// The port cannot be used.
pub async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, Problem> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Problem::new(
            Code::HostSocketInUse,
            format!("health cannot be served at {address}"),
        )
        .caused_by(&error)
        .consequence("the agent does not start")
        .fix(Fix::text(
            "free the port, or give --health-listen another address",
        ))
    });
    listener.map(Some)
}

/// Serves for good.
pub async fn serve(listener: Option<TcpListener>, health: Arc<Health>) {
    if let Some(listener) = listener {
        let routes = Router::new()
            .route(
                "/healthz",
                get(async |health: State<Arc<Health>>| health.alive()),
            )
            .route(
                "/readyz",
                get(async |health: State<Arc<Health>>| health.ready()),
            )
            .with_state(health);
        if let Err(error) = axum::serve(listener, routes).await {
            let error = &error as &dyn std::error::Error;
            warn!(error, "health is not served any more");
        }
    }
    pending().await
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    #[test]
    fn it_is_alive_unless_a_turn_hangs_and_not_ready_before_it_has_seen_the_cluster() {
        let seen = Arc::new(Seen::new(Arc::new(Notify::new())));
        let health = Health::new(seen, Duration::ZERO);
        assert_eq!(health.alive().0, StatusCode::OK);
        assert_eq!(health.ready().0, StatusCode::SERVICE_UNAVAILABLE);
        health.begins();
        assert_eq!(health.alive().0, StatusCode::SERVICE_UNAVAILABLE);
        health.ends();
        assert_eq!(health.alive().0, StatusCode::OK);
    }
}
