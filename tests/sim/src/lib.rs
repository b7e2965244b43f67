//! Deterministic simulation of the protocol machines on a virtual network.
//!
//! Real routers, virtual everything else: frames are bytes that are parsed on delivery, kernels
//! answer a little later and sometimes refuse, the network loses, delays, reorders, damages and
//! partitions, hosts crash, stall, lose their link and their health. One seed decides all of it,
//! so a failure is reproduced by its seed alone.
//!
//! [`check::Checker`] asserts safety at every step and bounds on time; [`mutant`] holds routers
//! that are broken on purpose and prove that the checker can fail.
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code"
)]

pub mod check;
pub mod client;
pub mod digest;
pub mod faults;
pub mod frame;
pub mod host;
mod inject;
pub mod mutant;
pub mod network;
pub mod random;
pub mod setup;
mod step;
pub mod subject;
pub mod world;
