//! The host: where Kedge's files are ([`Root`]), layered configuration ([`layers`]), state that
//! survives ([`state`]), who the host is ([`identity`]), the way to the manager ([`enrol`], kept up
//! by [`link`]), the service manager ([`notify`], [`orders`], [`mod@unit`]), the system
//! bus ([`bus`]) and what logind ([`login`]) and systemd ([`units`]) say on it, the agent
//! itself ([`api`]), names
//! that are asked about through a link ([`resolve`]), what the host is like ([`inspect`]), programs that are run
//! ([`script`]) and the local control socket ([`local`]).
//!
//! It reads and applies; it decides nothing.

pub mod account;
pub mod api;
pub mod bus;
pub mod changes;
pub mod credential;
pub mod download;
pub mod elemental;
pub mod enrol;
pub mod hardware;
pub mod identity;
pub mod inspect;
pub mod layers;
pub mod link;
pub mod local;
pub mod login;
pub mod notify;
pub mod orders;
pub mod peer;
pub mod resolve;
pub mod root;
pub mod saver;
pub mod script;
pub mod small_file;
pub mod state;
pub mod tunnel_keys;
pub mod unit;
pub mod units;
pub mod wall;

pub use root::{Role, Root};
