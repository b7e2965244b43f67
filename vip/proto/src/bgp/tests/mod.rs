//! One neighbour by rules and by tables, and two on a network that loses connections.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects"
)]

mod agreement;
mod bench;
mod endings;
mod laws;
mod pair;
mod routes;
mod rules;
mod table;
