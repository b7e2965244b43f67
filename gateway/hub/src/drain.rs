//! The order to send hosts to other gateways while this one still forwards, kept over restarts.

use std::time::SystemTime;

use kedge_control::local::GatewayDrain;
use kedge_host::{saver::Saver, state::Store, wall};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::hub::Hub;

/// The order.
pub(crate) struct Drain {
    order: Order,
    saver: Saver<Order>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    /// Since when, RFC 3339; absent without an order.
    since: Option<String>,
}

impl Drain {
    /// The order as the disk remembers it.
    pub fn remembered(store: &Store) -> Self {
        Self {
            // What cannot be read was no order; the state file is moved aside and told by its reader.
            order: store.load::<Order>(DRAIN).value.unwrap_or_default(),
            saver: Saver::start(store.clone(), DRAIN),
        }
    }

    /// Whether hosts are to go.
    pub const fn is_ordered(&self) -> bool {
        self.order.since.is_some()
    }

    /// Writes what is still to be written.
    pub async fn finish(self) {
        self.saver.finish().await;
    }

    fn give(&mut self, drain: bool) {
        if self.is_ordered() != drain {
            self.order.since = drain.then(|| wall::rfc3339(SystemTime::now()));
            self.saver.save(self.order.clone());
        }
    }
}

impl Hub {
    /// Sends hosts elsewhere, or lets them come again.
    pub fn order(&mut self, drain: bool) -> GatewayDrain {
        if self.drain.is_ordered() != drain {
            let to = if drain { "draining" } else { "serving" };
            info!(to, because = "ordered", "gateway");
        }
        self.drain.give(drain);
        self.want_sessions();
        self.draining()
    }

    /// How far it is.
    pub fn draining(&self) -> GatewayDrain {
        let told = self.sessions.told();
        GatewayDrain {
            draining: self.drain.is_ordered(),
            since: self.drain.order.since.clone(),
            hosts: told.hosts,
            waiting: if self.drain.is_ordered() {
                told.waiting
            } else {
                0
            },
        }
    }
}

/// The name of the order among the gateway's state.
const DRAIN: &str = "drain";
