//! The manager role: stores, plans, agent API.

pub mod clock;
pub mod ipam;
pub mod managers;
pub mod pki;
pub mod plan;
pub mod snapshot;
pub mod store;
pub mod token;
