//! The configuration protocol that every WireGuard tool speaks to a userspace device, without the
//! socket: <https://www.wireguard.com/xplatform/>.
//!
//! ```text
//!   bytes ─► Parser ─► Request::Set ─► Configuration::apply ─► peers() ─► Directory::plan
//!                   └► Request::Get ─► answer::get  ─► text
//! ```
//!
//! A request is read as a whole before anything of it is applied, so a refused one changes nothing.

pub mod answer;
mod configuration;
mod errno;
mod parser;
mod request;

pub use self::{
    configuration::{Configuration, PeerConfiguration},
    errno::Errno,
    parser::{MAX_LINE, MAX_REQUEST, Parser},
    request::{AllowedIp, PeerSet, Request, Set},
};

#[cfg(test)]
mod tests;
