//! Metrics at an address beside the control socket, where the configuration names one.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use kedge_core::Code;
use tokio::{net::TcpListener, task::JoinHandle};
use tracing::{info, warn};

use super::super::{Answers, Asks, ready::readyz};
use crate::section;

section! {
    /// Metrics, for scrapers.
    MetricsFile {
        /// Where `/metrics` is told beside the control socket, and `/readyz`, without TLS: `address:port`.
        /// Left out, metrics are at the control socket alone.
        #[schemars(with = "Option<String>")]
        listen: SocketAddr,
    }
}

/// Tells metrics wherever it is wanted, for as long as it lives.
pub struct Exposed<T: Answers> {
    asks: Asks<T>,
    serving: Option<(SocketAddr, JoinHandle<()>)>,
}

impl<T: Answers> Exposed<T> {
    /// Nowhere yet.
    #[must_use]
    pub const fn new(asks: Asks<T>) -> Self {
        Self {
            asks,
            serving: None,
        }
    }

    /// Tells them at `address` from here on, or nowhere. One that cannot be used is warned of: metrics are
    /// nothing to stop for.
    pub async fn follow(&mut self, address: Option<SocketAddr>) {
        if self.serving.as_ref().map(|(at, _)| *at) == address {
            return;
        }
        self.end();
        let Some(address) = address else { return };
        let routes = Router::new()
            .route("/metrics", get(super::metrics::<T>))
            .route("/readyz", get(readyz::<T>))
            .with_state(self.asks.clone());
        match TcpListener::bind(address).await {
            Ok(listener) => {
                info!(%address, because = "configured", "metrics");
                let serving = async move {
                    if let Err(error) = axum::serve(listener, routes).await {
                        let error = &error as &dyn std::error::Error;
                        warn!(error, "metrics are not told any more");
                    }
                };
                self.serving = Some((address, tokio::spawn(serving)));
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(KEDGE_CODE = %Code::HostSocketInUse, %address, error, "metrics cannot be told there");
            }
        }
    }

    fn end(&mut self) {
        if let Some((_, serving)) = self.serving.take() {
            serving.abort();
        }
    }
}

impl<T: Answers> Drop for Exposed<T> {
    fn drop(&mut self) {
        self.end();
    }
}
