//! The manager beside Cluster API's own managers: endpoints fill themselves, load balancers mean
//! what the proposal says, and Elemental's hosts are found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod balancer;
mod elemental;
mod fill;
mod fleet;
mod names;
mod neighbours;
mod refuse;
mod site;
mod targets;
