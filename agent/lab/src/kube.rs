//! A real API server with a store of its own on loopback: what the manager is measured against, and
//! what `tests/kube` starts.
//!
//! The programs are Kubernetes' own, found by [`Programs::find`]; they are built in `tests/kube`.

pub mod keys;
pub mod kinds;
pub mod process;
pub mod programs;
pub mod server;
pub mod witness;

pub use process::Process;
pub use programs::Programs;
pub use server::{ApiServer, free_ports};
