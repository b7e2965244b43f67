//! The store of a Kubernetes cluster: what of it needs no cluster.
//!
//! ```text
//! object, managedFields ─► layers ─► plan ─► write ─► steps ─► server-side apply, patch, delete
//! Lease ─► lease: who of several managers writes
//! ```

pub mod fields;
pub mod layers;
pub mod lease;
pub mod steps;
