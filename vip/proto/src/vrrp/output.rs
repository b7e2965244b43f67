//! What a virtual router wants done.

use std::net::IpAddr;

use super::{Event, Ticket};
use crate::auth::{Identity, Trailer};
use crate::wire::{
    Neighbor,
    checksum::Form,
    vrrp::{Advert, MAX_LEN},
};

/// What the shell must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send an advertisement.
    Send(Transmit),
    /// Want, or no longer want, the addresses that [`Config::held`](super::Config::held) gives on
    /// the interface. While wanted they are kept, whoever removes them.
    Own {
        /// Whether the addresses are wanted.
        hold: bool,
        /// To be repeated in the [`Input::Owned`](super::Input::Owned) that answers `hold: true`.
        ticket: Ticket,
    },
    /// Tell everybody where an address is, if [`Router::announcing`](super::Router::announcing)
    /// still holds after the sockets were drained.
    Announce(Neighbor),
    /// Ask everybody whether an address is in use.
    ProbeAddress(Neighbor),
    /// Probe this host's own service now and answer with
    /// [`Input::Probed`](super::Input::Probed).
    ProbeHealth,
    /// Look, or stop looking, for packets to the addresses that are sent to this host's hardware
    /// address, and at each `look: true` ask the link's router who it is, from the first of them
    /// ([`Neighbor::question`]). The first packet is [`Evidence::Arrived`](super::Evidence::Arrived).
    Prove {
        /// Whether to look.
        look: bool,
    },
    /// Tell people.
    Event(Event),
}

/// An advertisement to be sent with TTL 255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The source address, the interface's primary one.
    pub src: IpAddr,
    /// The destination: the group of the family, or a unicast peer.
    pub dst: IpAddr,
    /// The checksum to send.
    pub form: Form,
    /// The advertisement.
    pub advert: Advert,
}

impl Transmit {
    /// Writes the VRRP message, without IP header, and returns its length.
    #[must_use]
    pub fn emit(&self, buffer: &mut [u8; MAX_LEN]) -> usize {
        self.advert.emit(self.form, self.src, self.dst, buffer)
    }

    /// Whom its trailer is about.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        Identity {
            source: self.src,
            version: self.advert.version.number(),
            vrid: self.advert.vrid,
        }
    }

    /// Appends a trailer to the message of `length` bytes in `buffer` and returns the new length.
    #[must_use]
    pub fn seal(
        &self,
        buffer: &mut [u8; MAX_LEN],
        length: usize,
        trailer: &[u8; Trailer::LEN],
    ) -> usize {
        Advert::seal(buffer, length, trailer, self.src, self.dst)
    }
}
