//! The manager role: decides what hosts and gateways do, and fills blank control-plane endpoints.
//!
//! ```text
//!  DIR/**/*.yaml ──► store ──► Snapshot ──► plan (pure) ──► writes ──► DIR/owned, DIR/status
//!                                  ▲           └──► desired state ──► agent API (long poll)
//!  hosts, gateways ──► agent API ──┘                └──► control socket (people)
//! ```
//!
//! A plan sees neither files nor a clock; a store sees no decision. The user's files are never
//! written.

pub mod access;
pub mod api;
mod calm;
#[cfg(test)]
mod cases;
pub mod certificates;
pub mod clock;
pub mod events;
pub mod fleet;
mod health;
pub mod ipam;
pub mod live;
pub mod managers;
pub mod metrics;
pub mod pki;
pub mod plan;
pub mod resolver;
mod run;
pub mod sampled;
pub mod snapshot;
pub mod socket;
pub mod store;
pub mod token;
pub mod uninstall;
pub mod world;

pub use run::{Lifecycle, Manager, ManagerOptions, Observed, Place, run};
