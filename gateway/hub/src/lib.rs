//! The gateway role: tunnel hub, member liveness, listeners.
//!
//! ```text
//!  manager ── desired ──► Hub ──► Keeper (WireGuard device, echo responder)
//!     ▲                    │ ◄── stats, four times a second ─┘
//!     └── report ──────────┤──► DataPlane (listeners; members follow the hosts' liveness)
//!  control socket ◄────────┘
//! ```
//!
//! One loop decides; nothing in it waits for a network. Without the manager it serves the last
//! desired state.

mod bounds;
mod claims;
mod config;
mod drain;
mod fallback;
mod hub;
mod keys;
mod liveness;
mod meeting;
mod places;
mod run;
mod sessions;
mod socket;
mod status;
mod ways;

pub use config::{
    GatewayConfig, GatewayFile, ManagerConfig, ManagerFile, NeighborConfig, NeighborFile,
    TunnelConfig, TunnelFile,
};
pub use run::{run, serve};
