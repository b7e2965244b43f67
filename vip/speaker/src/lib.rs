//! The shell that drives VRRP routers on a thread of their own.
//!
//! ```text
//!  agent ── apply · health · release ──► desired set, commands      (arc-swap, bounded queue)
//!                                              │ doorbell
//!                                              ▼
//!              sockets ──► Shell: one real-time thread, every Router ──► sockets, addresses
//!                                              │
//!  agent ◄── snapshot (arc-swap) ◄─────────────┤
//!  agent ◄── events ◄── Reporter: logs ◄───────┘                    (bounded queue)
//! ```
//!
//! The thread never waits for anybody: what it has to say goes into bounded queues whose losses
//! are counted and told, and logging is another thread's work. Only the state a VIP is in is never
//! lost: the last change waits until there is room.

pub mod bfd;
pub mod bgp;
mod event;
mod fences;
mod group;
pub mod guardian;
mod late;
mod reporter;
pub mod select;
mod selftest;
mod shell;
mod snapshot;
mod speaker;
mod spec;
mod takeover;
mod tracks;
mod virtual_links;

pub use event::VipEvent;
pub use kedge_vip_proto::{
    auth,
    vrrp::{ChecksumPolicy, Members, Proof, Reject, Tracked, Verdict},
    wire::{Password, vrrp::Version},
};
pub use select::{Chosen, Rejected, WhyNot, select};
pub use snapshot::{ActivePeer, Duplicate, Ordered, Transition, VipSnapshot};
pub use speaker::{Order, Settings, Speaker, StartError};
pub use spec::{SpecError, VipSpec};
pub use takeover::Takeover;
pub use tracks::Tracks;
pub use virtual_links::OwnLinks;
