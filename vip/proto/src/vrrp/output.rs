//! What a virtual router wants done.

use std::net::Ipv4Addr;

use super::{Event, Ticket};
use crate::wire::{
    arp,
    checksum::Form,
    ipv4,
    vrrp::{Advert, MAX_LEN},
};

/// What the shell must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send an advertisement.
    Send(Transmit),
    /// Want, or no longer want, the addresses of [`Router::config`](super::Router::config) on
    /// the interface. While wanted they are kept, whoever removes them.
    Own {
        /// Whether the addresses are wanted.
        hold: bool,
        /// To be repeated in the [`Input::Owned`](super::Input::Owned) that answers `hold: true`.
        ticket: Ticket,
    },
    /// Broadcast a gratuitous ARP, if [`Router::announcing`](super::Router::announcing) still
    /// holds after the sockets were drained.
    Announce(arp::Packet),
    /// Broadcast an RFC 5227 probe.
    ProbeAddress(arp::Packet),
    /// Probe this host's own service now and answer with
    /// [`Input::Probed`](super::Input::Probed).
    ProbeHealth,
    /// Tell people.
    Event(Event),
}

/// An advertisement to be sent to 224.0.0.18 with TTL 255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The source address, the interface's primary one.
    pub src: Ipv4Addr,
    /// The checksum to send.
    pub form: Form,
    /// The advertisement.
    pub advert: Advert,
}

impl Transmit {
    /// Writes the VRRP message, without IPv4 header, and returns its length.
    #[must_use]
    pub fn emit(&self, buffer: &mut [u8; MAX_LEN]) -> usize {
        self.advert.emit(self.form, self.src, ipv4::GROUP, buffer)
    }
}
