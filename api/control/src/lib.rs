//! Wire types, versioned: the agent API between edge hosts, gateways and the manager
//! ([`agent`], [`enrol`]), the local control sockets ([`local`]) and the load-balancing model
//! ([`balance`]). No I/O.
//!
//! JSON is camelCase; durations are numbers of seconds whose key ends in `Seconds`. What is sent
//! to people is wrapped in a [`Document`] (`apiVersion`, `kind`). Fields are only ever added.

pub mod agent;
pub mod balance;
pub mod cors;
pub mod document;
pub mod enrol;
pub mod exposure;
pub mod frontend;
pub mod identity;
pub mod local;
pub mod peer;
pub mod report;
pub mod site;
pub mod token;

pub use document::{CLI_VERSION, Document, Kind};
