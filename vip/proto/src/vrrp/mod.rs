//! The virtual router of RFC 9568 (and of RFC 3768, version 2), with Kedge's hand-over, health and
//! conflict rules.
//!
//! ```text
//!          link, no conflict                down_at due
//!   Fault ───────────────────► Backup ─────────────────► Active ──┐ Stop · HandOver
//!     ▲                        ▲ ▲ ▲                       │      ▼
//!     │                        │ │ └──── better advert ────┘   Releasing (still answering)
//!     │                        │ └── HandOver: successor heard ──┤
//!     └ link down, address in  │                                 └──► Initialize (Stop)
//!       use, address refused   └ Start (from Initialize)
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
mod health;
mod input;
mod notices;
mod output;
mod peers;
mod receive;
mod reconfigure;
mod releasing;
mod router;
mod slots;
mod state;
mod timing;
mod view;

pub use checksum::ChecksumPolicy;
pub use config::{Config, ConfigError, Members};
pub use event::{Because, Event, Notice, Waiting};
pub use health::Verdict;
pub use input::{AddressRefused, Command, Input, Link, LinkLoss, Reject, Ticket};
pub use output::{Output, Transmit};
pub use peers::Peers;
pub use router::Router;
pub use slots::{automatic_priority, slot_of, slots, spacing};
pub use timing::{active_down, skew};
pub use view::{Peer, Stats, View};

#[cfg(test)]
mod tests;
