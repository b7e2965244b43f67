//! Addresses: our manager as the provider of VIPPools to anybody's claims, and as a consumer of
//! the real in-cluster provider.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod consumer;
mod provider;
mod site;
mod takeover;
