//! One stream of incremental ADS, seen from the server (xDS protocol, "Incremental xDS").
//!
//! ```text
//!  what is wanted ── Changed ──►┌────────────────────────────┐
//!                               │ per kind: wanted, known,   │── Send(response) ──► Envoy
//!  Envoy ── Request ───────────►│ refused; one response that │
//!        (ask, ACK, NACK)       │ waits for its ACK          │── Settled ──► who reports
//!                               └────────────────────────────┘
//! ```
//!
//! **Order.** What is new is told from the ground up: clusters, their members, then the listeners and
//! routes that name them; a listener waits until the members of every new cluster are acknowledged, at
//! most [`WARMING`]: Envoy itself says nothing of clusters while one waits for its members. What is gone goes from the top down: a cluster stays until no listener and no
//! route waits for anything. A listener that takes the place of another goes in one response with the
//! removal of that.
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
