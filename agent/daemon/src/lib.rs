//! The agent role: composes VIPs, tunnel, report and control socket.
//!
//! ```text
//!  files, KEDGE_SET_* ─► config ─┐
//!  manager ─► link ──────────────┼─► desired (pure) ─► Speaker (own thread): VRRP, ARP, addresses
//!  kernel ─► facts ──────────────┘        │     └────► Tunnel: WireGuard device, echo
//!                                         └──────────► Gates: who asks /readyz
//!  speaker events, verdicts, signals, control socket ─► Agent: one loop, one owner
//! ```
//!
//! The VIPs come first: they need neither manager nor tunnel nor disk, and the loop never waits
//! for the speaker.

mod agent;
pub mod config;
mod desired;
mod explain;
mod facts;
mod health;
mod report;
mod run;
mod secrets;
mod socket;
mod status;
mod tunnel;

pub use config::{AgentConfig, AgentFile};
pub use run::{run, serve};
