//! A BFD session (RFC 5880): whether the path to a peer works, in both directions.
//!
//! ```text
//!            peer: Down                    peer: Init, Up
//!   ┌────┐ ─────────────────────► ┌────┐ ────────────────► ┌────┐
//!   │Down│                        │Init│                   │ Up │
//!   └────┘ ◄───────────────────── └────┘                   └────┘
//!     │ ▲   silence, peer: AdminDown                         │ │
//!     │ └──── silence, peer: Down, AdminDown ────────────────┘ │
//!     └──────────────────── peer: Init ───────────────────► Up │
//!   AdminDown ◄── by order, from any state; back to Down
//! ```
//!
//! Between neighbours (RFC 5881) and over routers (RFC 5883) the machine is the same; only the TTL
//! it accepts differs. Whoever acts on a session looks at [`Liveness`](kedge_core::bfd::Liveness)
//! and not at its state (RFC 5882 section 3.2): a session that was never up, or that somebody took
//! down, says nothing about the path.
//!
//! # What the shell does
//!
//! 1. It finds the session of a packet: by `your` discriminator, or where that is absent by who
//!    sent it, and where to.
//! 2. After each wake-up it first hands over what its sockets hold, then calls
//!    [`Session::handle_timeout`](kedge_core::Machine::handle_timeout): what waited out a stall was
//!    not lost on the way.
//! 3. After every call it drains the outputs in order, until [`Output::Ended`].

mod config;
mod event;
mod input;
mod poll;
mod receive;
mod session;
mod timing;
mod view;

pub use config::{Config, MinTtl};
pub use event::{Because, Event};
pub use input::{Command, Input, Output, Received, Reject};
pub use session::Session;
pub use timing::{Window, detection_time};
pub use view::{Remote, Stats, View};

#[cfg(test)]
mod tests;
