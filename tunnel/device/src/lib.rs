//! The packet engine: TUN and UDP workers around the peers.
//!
//! ```text
//!   apply(peers) ──► plan ──► bounded queue ──► worker (own thread): poll(TUN, UDP4, UDP6, bell)
//!        │                                        Shard: peers, prefix table, timers
//!        └─► routes, addresses (netlink)          counters ──► stats()
//! ```
//!
//! [`Device`] is one WireGuard interface of Kedge's own engine, [`kernel::Kernel`] one of the kernel's;
//! both are a [`backend::Backend`]. A `Device` blocks on nothing but netlink, so it can be used from
//! async code; the worker knows no runtime. [`echo`] asks and answers through the tunnel, on tokio.
//! [`uapi`] is a device that WireGuard's own tools configure.

pub mod backend;
pub mod bench;
mod clamper;
mod config;
mod crew;
mod device;
pub mod direct;
pub mod echo;
mod error;
mod from_host;
mod handle;
mod handshakes;
pub mod keeper;
pub mod kernel;
pub mod lanes;
pub mod mtu;
mod network;
mod noise;
pub mod offload;
mod outbox;
pub mod paths;
mod ports;
mod post;
mod seed;
mod shelf;
mod stats;
mod to_host;
mod tuns;
pub mod uapi;
mod worker;
mod workers;

pub use kedge_tunnel_proto::{
    counters::State,
    directory::{PeerSpec, PlanError},
    drops::DropReason,
};

pub use self::{
    config::DeviceConfig,
    device::Device,
    error::{ApplyError, OpenError, RehandshakeError},
    handle::Handle,
    stats::{DeviceStats, PeerStats},
    workers::Workers,
};
