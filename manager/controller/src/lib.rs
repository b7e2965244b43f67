//! The manager role: stores, plans, agent API.

pub mod ipam;
pub mod managers;
pub mod plan;
pub mod snapshot;
pub mod store;
