//! The gateway role: tunnel hub, member liveness, listeners.
//!
//! ```text
//!  manager ── desired ──► Hub ──► Keeper (WireGuard device, echo responder)
//!     ▲                    │ ◄── stats, four times a second ─┘
//!     └── report ──────────┤──► Plane (listeners; members follow the hosts' liveness)
//!  control socket ◄────────┘
//! ```
//!
//! One loop decides; nothing in it waits for a network. Without the manager it serves the last
//! desired state.

mod bootstrap;
mod bounds;
mod builtin;
mod checks;
mod claims;
mod config;
mod drain;
#[cfg(feature = "envoy")]
mod envoy;
mod fallback;
mod hub;
mod keys;
mod leaving;
mod liveness;
mod meeting;
mod offered;
mod places;
mod plane;
mod run;
mod sessions;
mod socket;
#[cfg(feature = "envoy")]
mod split;
mod status;
mod tenants;
mod ways;

pub use bootstrap::{bootstrap, write_bootstrap};
pub use config::{
    Engine, GatewayConfig, GatewayFile, Isolation, ManagerConfig, ManagerFile, NeighborConfig,
    NeighborFile, ProxyConfig, ProxyFile, TenantsConfig, TenantsFile, TunnelConfig, TunnelFile,
};
pub use run::{run, serve};
