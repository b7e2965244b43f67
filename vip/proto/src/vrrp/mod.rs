//! The virtual router of RFC 9568 (and of RFC 3768, version 2), with Kedge's hand-over, health and
//! conflict rules.
//!
//! ```text
//!          link, no conflict                down_at due
//!   Fault ───────────────────► Backup ─────────────────► Active ──┐ Stop · HandOver
//!     ▲                        ▲ ▲ ▲                       │      ▼
//!     │                        │ │ └──── better advert ────┘   Releasing (still answering)
//!     │                        │ └── HandOver: successor heard ──┤
//!     └ link down, address in  │                                 ├──► Initialize (Stop)
//!       use, address refused,  └ Start (from Initialize)         │
//!       critical track lost ◄────────────────────────────────────┘ critical track lost
//! ```
//!
//! # What the shell does
//!
//! 1. After each wake-up it first hands over what its sockets hold, then calls
//!    [`Router::handle_timeout`](kedge_core::Machine::handle_timeout): adverts that waited out a
//!    stall count.
//! 2. After every call it drains the outputs in order.
//! 3. Before each [`Output::Announce`] it drains its sockets once more and sends only while
//!    [`Router::announcing`] still holds: the last announcement on the wire decides where the
//!    clients go.
//! 4. It answers each [`Output::Own`] with `hold: true` by an [`Input::Owned`] with its ticket.

mod active;
mod backup;
mod checksum;
mod config;
mod damping;
mod emit;
mod event;
mod fault;
mod group;
mod health;
mod input;
mod notice;
mod notices;
mod orders;
mod orphan;
mod output;
mod peer_link;
mod peers;
mod proof;
mod receive;
mod reconfigure;
mod releasing;
mod router;
mod slots;
mod state;
mod timing;
mod tracked;
mod unverified;
mod view;

pub use checksum::ChecksumPolicy;
pub use config::{Config, ConfigError, Members};
pub use event::{Because, Event, Waiting};
pub use group::Lead;
pub use health::Verdict;
pub use input::{AddressRefused, Command, Input, Link, LinkLoss, Reject, Ticket};
pub use notice::Notice;
pub use orphan::Orphan;
pub use output::{Output, Transmit};
pub use peer_link::SUCCESSION;
pub use peers::Peers;
pub use proof::{Evidence, Proof};
pub use router::Router;
pub use slots::{automatic_priority, slot_of, slots, spacing};
pub use timing::{ADVERTS_LOST, active_down, skew};
pub use tracked::Tracked;
pub use view::{Peer, Stats, View};

#[cfg(test)]
mod tests;
