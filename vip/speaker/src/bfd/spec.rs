//! What a session is asked to be.

use std::{net::IpAddr, path::Path, sync::Arc};

use kedge_core::Name;
use kedge_net::udp::Family;
use kedge_vip_proto::{
    bfd::{Config, MinTtl},
    wire::bfd::{Interval, MULTIHOP_PORT, Multiplier, PORT},
};

/// A BFD session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BfdSpec {
    /// Its name.
    pub name: Name,
    /// Whom it watches.
    pub peer: IpAddr,
    /// The interface the peer is on; needed for link-local peers.
    pub interface: Option<String>,
    /// The source of its packets; without one the kernel chooses it.
    pub source: Option<IpAddr>,
    /// The network namespace it is in, as a path; this process's own without one.
    pub inside: Option<Arc<Path>>,
    /// Whether there are routers in between.
    pub multihop: bool,
    /// Its timers, its role, and what packets must have.
    pub config: Config,
    /// Whether it is there for the other end to ask for: that nobody does, or stops to, is no problem here.
    pub on_request: bool,
}

impl BfdSpec {
    /// A session between two addresses in a tunnel: active, with the same interval both ways. It is on the
    /// port of RFC 5883, which other programs leave free; nobody stands in between.
    #[must_use]
    pub fn in_tunnel(name: Name, [local, remote]: [IpAddr; 2], interval: Interval) -> Self {
        Self {
            name,
            peer: remote,
            interface: None,
            source: Some(local),
            inside: None,
            multihop: true,
            config: Config {
                desired_min_tx: interval,
                required_min_rx: interval,
                multiplier: Multiplier::DEFAULT,
                passive: false,
                shutdown: false,
                min_ttl: MinTtl::NEIGHBOR,
            },
            on_request: false,
        }
    }

    /// The same, but for the other end to begin (RFC 5880 section 6.1): it says nothing until it is asked.
    #[must_use]
    pub const fn asked_for(mut self) -> Self {
        self.config.passive = true;
        self.on_request = true;
        self
    }

    /// Whether another one is the same session, perhaps with other timers.
    pub(super) fn is_same_session(&self, other: &Self) -> bool {
        let Self {
            name,
            peer,
            interface,
            source,
            inside,
            multihop,
            config: _,
            on_request: _,
        } = self;
        name == &other.name
            && *peer == other.peer
            && interface == &other.interface
            && *source == other.source
            && *inside == other.inside
            && *multihop == other.multihop
    }

    /// Where its packets go, and come in.
    #[must_use]
    pub const fn port(&self) -> u16 {
        if self.multihop { MULTIHOP_PORT } else { PORT }
    }

    /// The family of its packets.
    pub(super) const fn family(&self) -> Family {
        Family::of(self.peer)
    }
}
