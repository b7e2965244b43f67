//! A device that WireGuard's own tools configure: `wg`, `wg-quick` and whatever else speaks the
//! cross-platform protocol on a unix socket.
//!
//! ```text
//!   wg ──► socket ──► connection: parse ──► Plain::set ──► worker, between two packets
//!                                       └─► Plain::get ◄── counters
//!   netlink: link up, down, MTU, gone ────► Plain::follow
//! ```

mod connection;
mod declared;
mod plain;
mod serving;
mod socket;

use std::time::UNIX_EPOCH;

use kedge_tunnel_proto::{
    directory::Directory,
    keys::PublicKey,
    uapi::{Errno, Set, answer::Traffic},
};
use zeroize::Zeroizing;

pub use self::{
    declared::Declared,
    plain::{MTU, Plain, PlainConfig},
    serving::{End, ServeError, Signals, serve},
    socket::{Socket, SocketError},
};
use crate::handshakes::Handshakes;

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

/// What a peer has counted.
fn traffic(directory: &Directory, handshakes: &mut Handshakes, key: &PublicKey) -> Traffic {
    let reading = directory.get(key).map(|entry| entry.counters.read());
    let reading = reading.unwrap_or_default();
    let last = handshakes.wall(key, reading.last_handshake);
    let last = last.and_then(|last| last.duration_since(UNIX_EPOCH).ok());
    Traffic {
        last_handshake: last.unwrap_or_default(),
        rx_bytes: reading.rx_bytes,
        tx_bytes: reading.tx_bytes,
    }
}
