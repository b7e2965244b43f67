//! Agents that tell a router of their VIPs, and BIRD as that router: what it knows, and who answers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod announces;
mod changes;
mod drains;
mod host;
mod site;
