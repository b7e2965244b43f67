//! One stream of incremental ADS, seen from the server (xDS protocol, "Incremental xDS").
//!
//! ```text
//!  what is wanted ── Changed ──►┌────────────────────────────┐
//!                               │ per kind: wanted, known,   │── Send(response) ──► Envoy
//!  Envoy ── Request ───────────►│ refused; responses that    │
//!        (ask, ACK, NACK)       │ wait for their ACK         │── Settled ──► who reports
//!                               └────────────────────────────┘
//! ```
//!
//! **Order.** What is new is told from the ground up: clusters, their members, then the listeners and
//! routes that name them; a listener waits until the members of every new cluster are acknowledged, at
//! most [`WARMING`]. What is gone goes from the top down: a cluster stays until no listener and no
//! route waits for anything. A listener that takes the place of another goes in one response with the
//! removal of that.
//!
//! **Answers.** One response of a kind is under way, and changes meanwhile become one. Of clusters there
//! may be several, each of other names: Envoy answers nothing about any while one of them waits for its
//! members and for their first checks.
//!
//! **Refusals.** Envoy refuses a response as a whole for one resource that breaks a constraint. Nothing
//! of it counts as told then; it is told again in halves until the resource that is refused stands
//! alone. That one waits until it changes, or until a resource of its kind is removed (which frees an
//! address that two listeners wanted). What Envoy had of it before stays.
//!
//! **A changed cluster** waits inside Envoy for its members to be told again, and Envoy does not ask for
//! them: they follow each change of their cluster.

mod channel;
mod message;
mod stream;

pub use message::{Change, Input, Name, Outcome, Output, Reject, Request, Response, Revision};
pub use message::{Settled, Version};
pub use stream::{Stream, WARMING};

#[cfg(test)]
mod tests;
