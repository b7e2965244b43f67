//! The agent API end to end: a manager on loopback, the real client of hosts and gateways, and
//! requests a real client would never send.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

mod attack;
mod certificates;
mod exposures;
mod flow;
mod identity;
mod matrix;
mod race;
mod rotation;
mod site;
mod start;
mod takeover;
mod tokens;
mod unserved;
mod wire;
