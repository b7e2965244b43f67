//! The host: where Kedge's files are ([`Root`]), layered configuration ([`layers`]), state that
//! survives ([`state`]), who the host is ([`identity`]), the way to the manager ([`enrol`]), the
//! service manager ([`notify`]) and the local control socket ([`local`]).
//!
//! It reads and applies; it decides nothing.

pub mod enrol;
pub mod identity;
pub mod layers;
pub mod local;
pub mod notify;
pub mod root;
pub mod state;

pub use root::{Role, Root};
