//! The manager role: stores, plans, agent API.

/// Objects, their layers, and the directory that holds them.
pub mod store;
