//! The built-in L4 proxy: listeners, members, splice; sessions of datagrams; TLS by name, passed through.
//!
//! ```text
//! DataPlane ── apply(set) ──► listener task ── accept ──► connection task
//!     ▲                         │  binds, retries           │ choose a live member, connect
//!     └── alive(host, …) ──────►│  probes refused members   │ splice both ways
//!                               └── Pool: who lives, who is next (pure)
//! ```

mod connection;
mod counters;
mod datagrams;
mod door;
mod gather;
mod hello;
mod listener;
mod means;
mod offer;
mod pipes;
mod plane;
mod pool;
mod proxied;
mod proxy_protocol;
mod ranges;
mod relay;
mod sessions;

pub use listener::Limits;
pub use offer::{Carries, Place, Verdict, place, served, unserved_sites};
pub use plane::DataPlane;
pub use pool::{LEFT, UNHEARD};
