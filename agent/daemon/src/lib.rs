//! The agent role: composes VIPs, tunnel, report and control socket.
//!
//! ```text
//!  files, KEDGE_SET_* ─► config ─┐
//!  manager ─► link ──────────────┼─► desired (pure) ─► Speaker (own thread): VRRP, ARP, addresses
//!  kernel ─► facts ──────────────┘        │     └────► Tunnel: WireGuard device, echo
//!                                         ├──────────► Neighbors: routers, told of VIPs by BGP
//!                                         ├──────────► Shortcuts: endpoints, answered for while no gateway is reached
//!                                         ├──────────► Gates: who asks /readyz
//!                                         └──────────► Tracks: who watches links, processes, files, paths
//!  speaker events, verdicts, signals, control socket ─► Agent: one loop, one owner
//! ```
//!
//! The VIPs come first: they need neither manager nor tunnel nor disk, and the loop never waits
//! for the speaker.

mod agent;
mod announce;
mod anycast;
mod api;
mod bfd;
mod bgp;
mod boot;
pub mod config;
mod departure;
mod desired;
mod dns;
mod explain;
mod facts;
mod health;
mod history;
mod keys;
mod operate;
mod orders;
mod ownership;
mod paths;
mod peers;
mod power;
mod pulse;
mod replace;
mod report;
mod run;
mod secrets;
mod shortcut;
mod socket;
mod status;
mod succession;
mod timeline;
mod tracks;
mod tunnel;
mod units;

pub use config::{AgentConfig, AgentFile};
pub use kedge_vip_speaker::guardian;
pub use replace::{Ended, Executable};
pub use run::{run, serve};
