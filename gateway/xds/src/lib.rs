//! Envoy's configuration over the incremental variant of xDS's aggregated stream (delta ADS).
//!
//! ```text
//! Offer ── render ──► Wanted ◄── outcomes ── session (one per stream) ◄──► Envoy
//!                        └── what changed ────►  └─ delta::Stream, the protocol as a machine
//! ```
//!
//! The gateway is the only server of the Envoy beside it, over a unix socket ([`Ads`]).

mod bootstrap;
pub mod delta;
pub mod kind;
#[cfg(feature = "peer")]
pub mod peer;
mod render;
mod resource;
mod server;
mod session;
mod socket;
mod wanted;

pub use bootstrap::Bootstrap;
pub use kind::Kind;
pub use render::{Here, Life, Lives, Members, Reason, Refused, Rendered, Told, names, render};
pub use resource::Resource;
pub use server::Ads;
pub use socket::Error;
pub use wanted::{Key, Wanted};
