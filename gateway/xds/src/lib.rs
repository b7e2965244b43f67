//! Envoy's configuration over the incremental variant of xDS's aggregated stream (delta ADS).
//!
//! [`delta`] is the protocol as a machine: what Envoy asked for, what it holds, what it is told next
//! and in which order. It knows resources by kind, name and version, not by content.

pub mod delta;
pub mod kind;

pub use kind::Kind;
