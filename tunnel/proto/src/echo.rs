//! The in-tunnel echo: proof that the other end's *session* is alive.
//!
//! A restarted gateway has no keys; WireGuard notices after 15 s at the earliest and, with nothing
//! but keepalives, after minutes. A probe each second through the tunnel notices within three.
//!
//! [`Message`] is what travels over UDP on the overlay addresses, [`Prober`] is the asking side.
//! The answering side is [`Message::answer`].

mod message;
mod ping;
mod prober;

pub use message::{LENGTH, Message, ParseError};
pub use ping::{Ping, PingError};
pub use prober::{Config, Input, Output, Prober, Reject, Report};

/// The UDP port, on overlay addresses only.
pub const PORT: u16 = 51821;
