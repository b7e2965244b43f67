//! The host: where Kedge's files are ([`Root`]), layered configuration ([`layers`]), state that
//! survives ([`state`]), who the host is ([`identity`]), the way to the manager ([`enrol`], kept up
//! by [`link`]), the service manager ([`notify`], [`orders`], [`mod@unit`]), programs that are run
//! ([`script`]) and the local control socket ([`local`]).
//!
//! It reads and applies; it decides nothing.

pub mod account;
pub mod changes;
pub mod elemental;
pub mod enrol;
pub mod hardware;
pub mod identity;
pub mod layers;
pub mod link;
pub mod local;
pub mod notify;
pub mod orders;
pub mod peer;
pub mod root;
pub mod saver;
pub mod script;
pub mod small_file;
pub mod state;
pub mod tunnel_keys;
pub mod unit;
pub mod wall;

pub use root::{Role, Root};
