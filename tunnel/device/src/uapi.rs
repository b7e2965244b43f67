//! A device that WireGuard's own tools configure: `wg`, `wg-quick` and whatever else speaks the
//! cross-platform protocol on a unix socket.
//!
//! ```text
//!   wg ──► socket ──► connection: parse ──► Plain::set ──► worker, between two packets
//!                                       └─► Plain::get ◄── counters
//!   netlink: link up, down, MTU, gone ────► Plain::follow
//! ```

mod connection;
mod plain;
mod serving;
mod socket;

use kedge_tunnel_proto::uapi::{Errno, Set};
use zeroize::Zeroizing;

pub use self::{
    plain::{MTU, Plain, PlainConfig},
    serving::{End, ServeError, Signals, serve},
    socket::{Socket, SocketError},
};

/// What answers requests.
pub trait Tool: Send + Sync + 'static {
    /// Everything there is to know, as the protocol says it.
    fn get(&self) -> Zeroizing<String>;

    /// Makes changes, all or none of them.
    ///
    /// # Errors
    ///
    /// They cannot be made; nothing changed.
    fn set(&self, set: Set) -> Result<(), Errno>;
}
