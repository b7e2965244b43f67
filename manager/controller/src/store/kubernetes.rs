//! A Kubernetes cluster as a store.
//!
//! ```text
//! watches ─► cache (layers by managedFields) ─► plan ─► writes ─► steps ─► apply, patch, delete
//!              ▲                                                               │
//!              └──────────────── answers: we read what we wrote ◄──────────────┘
//! leader ─► lease: who of several managers writes, and until when
//! ```

mod blind;
pub mod cache;
mod catchup;
mod certificates;
pub mod cluster;
mod dial;
mod events;
pub mod fields;
mod follow;
mod items;
pub mod kinds;
mod kubeconfig;
pub mod layers;
mod leader;
mod lists;
mod open;
mod over;
pub(crate) mod problems;
pub mod raw;
mod referred;
mod send;
pub mod steps;
mod watches;

pub use cluster::{Access, Cluster, LEASE};
pub use kedge_core::lease;
pub use leader::Leader;
pub use open::{client, open};
pub use watches::ALL as WATCHED;
