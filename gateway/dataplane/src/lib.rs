//! The built-in L4 proxy: listeners, members, splice.
//!
//! ```text
//! DataPlane ── apply(set) ──► listener task ── accept ──► connection task
//!     ▲                         │  binds, retries           │ choose a live member, connect
//!     └── alive(host, …) ──────►│  probes refused members   │ splice both ways
//!                               └── Pool: who lives, who is next (pure)
//! ```

mod connection;
mod listener;
mod pipes;
mod plane;
mod pool;
mod relay;

pub use listener::Limits;
pub use plane::DataPlane;
pub use pool::UNHEARD;
