//! A BGP neighbour (RFC 4271 section 8): who it is told of our routes, and when it is called.
//!
//! ```text
//!         started            connected             OPEN              KEEPALIVE
//!  Idle ─────────► Connect ────────────► OpenSent ──────► OpenConfirm ──────────► Established
//!   ▲  │             │  ▲                   ▲
//!   │  │   refused   ▼  │ after a while     │ the peer called
//!   │  └─ passive ─► Active ────────────────┘
//!   └── what went wrong repeatedly; for a while. Or taken down: until that ends
//! ```
//!
//! A neighbour has up to two connections at a time, one that we made and one that it made; each has
//! its own state until one is kept ([`collision`]). What a session shows is the furthest of both.
//!
//! Nothing that a peer announces is ever taken: it is read, counted, and the last of it can be
//! looked at. What it is sent is what this host offers ([`Offer`]), as the policies of the VIP and
//! of the peer have it ([`Policy`]), and nothing that the peer's export list does not hold.
//!
//! # What the shell does
//!
//! 1. It takes [`Output::Dial`] and answers with [`Input::Connected`] or [`Input::DialFailed`].
//! 2. It takes calls from the addresses of its neighbours alone, and says [`Input::Accepted`].
//! 3. It cuts what it reads into frames, reads each with [`Session::read`], and hands it over before
//!    it reads the next: what was agreed on decides how the next one reads.
//! 4. After it wrote, it says whether all is gone ([`Input::Written`]): to a peer that takes nothing
//!    nothing is said that can wait.
//! 5. After every call it drains the outputs in order, until [`Output::Ended`]. After
//!    [`Output::Close`] it tells nothing more of that connection.

mod caller;
mod collision;
mod config;
mod event;
mod input;
mod leave;
mod link;
mod liveness;
mod negotiate;
mod policy;
mod receive;
mod received;
mod rib;
mod session;
mod view;

pub use collision::{Keep, collision};
pub use config::Config;
pub use event::{Because, DialError, Event};
pub use input::{Command, Farewell, Input, Output, Place, Reject, Side};
pub use negotiate::{Agreed, capabilities, negotiate};
pub use policy::{Offer, Offers, Policy, next_hop};
pub use received::{Heard, What};
pub use rib::Path;
pub use session::Session;
pub use view::{Counts, Peer, View};

#[cfg(test)]
mod tests;
