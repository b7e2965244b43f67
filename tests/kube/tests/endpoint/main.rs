//! The manager beside Cluster API's own managers: endpoints fill themselves, load balancers mean
//! what the proposal says, and Elemental's hosts are found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod fill;
mod refuse;
mod site;
