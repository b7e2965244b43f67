//! The agent in a tenant's own cluster: its Services become load balancers at the gateway.
//!
//! ```text
//!  user cluster                                      load-balancing cluster
//!  Services, Nodes, EndpointSlices ─► plan ─► agent API ─► manager ─► TCPLoadBalancer ─► gateway
//!  status, conditions, events      ◄─ plan ◄─ what is offered ◄──────────────┘
//! ```
//!
//! [`plan`] is pure. Around it one task watches the cluster, asks the manager and carries the plan
//! out; one agent of several does so, by a Lease, and the manager's epoch fences the others.

pub mod apply;
mod beside;
pub mod certificates;
pub mod gateway_api;
mod hands;
mod health;
pub mod identity;
pub mod names;
mod place;
pub mod plan;
mod run;
mod seen;
pub mod snapshot;
mod speaker;
pub mod survey;

pub use place::{Place, connect};
pub use run::{LEASE, Options, Poll, run};
