//! What a neighbour is asked to be.

use std::{fmt, net::IpAddr};

use kedge_core::Name;
pub use kedge_net::tcp_ao::AoAlgorithm;
use kedge_net::{
    bgp::{Guard, Way},
    tcp_ao::AoKey,
};
use kedge_vip_proto::bgp::Config;
use zeroize::Zeroizing;

/// A BGP neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpSpec {
    /// Its name.
    pub name: Name,
    /// Its address; `None`: whichever router there is on `interface`, by the address of the link that it
    /// advertises (RFC 4861).
    pub peer: Option<IpAddr>,
    /// The port it takes calls at.
    pub port: u16,
    /// The interface it is on; needed for link-local neighbours.
    pub interface: Option<String>,
    /// Our address; without one the kernel chooses it.
    pub source: Option<IpAddr>,
    /// How many routers may be in between; `None`: none, it is on a link of this host.
    pub multihop: Option<u8>,
    /// Whether what has crossed a router is dropped (RFC 5082): the neighbour has to send with TTL
    /// 255.
    pub ttl_security: bool,
    /// The key that segments are signed with (RFC 2385).
    pub password: Option<Password>,
    /// The key of TCP-AO (RFC 5925), in place of a password.
    pub tcp_ao: Option<TcpAo>,
    /// The session.
    pub config: Config,
}

/// A key of TCP-AO, and the numbers by which segments name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpAo {
    /// The key.
    pub key: Password,
    /// The number in segments that are sent.
    pub send_id: u8,
    /// The number in those of the neighbour.
    pub receive_id: u8,
    /// How they are signed.
    pub algorithm: AoAlgorithm,
}

/// A key of TCP-MD5 or TCP-AO: 1 to 80 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// The key, if the kernel takes one of that length.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        (1..=80)
            .contains(&key.len())
            .then(|| Self(Zeroizing::new(key.to_vec())))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl TcpAo {
    fn key(&self) -> AoKey<'_> {
        AoKey {
            key: self.key.bytes(),
            send_id: self.send_id,
            receive_id: self.receive_id,
            algorithm: self.algorithm,
        }
    }
}

impl BgpSpec {
    /// Whether calls need a key.
    pub(super) const fn is_locked(&self) -> bool {
        self.password.is_some() || self.tcp_ao.is_some()
    }

    /// Whether another one is reached the same way, perhaps with another session.
    pub(super) fn is_same_way(&self, other: &Self) -> bool {
        let Self {
            name,
            peer,
            port,
            interface,
            source,
            multihop,
            ttl_security,
            password,
            tcp_ao,
            config: _,
        } = self;
        name == &other.name
            && *peer == other.peer
            && *port == other.port
            && interface == &other.interface
            && *source == other.source
            && *multihop == other.multihop
            && *ttl_security == other.ttl_security
            && password == &other.password
            && tcp_ao == &other.tcp_ao
    }

    /// What keeps others out.
    pub(super) fn guard(&self) -> Guard<'_> {
        // Over a known number of routers a packet has lost so much at most.
        let crossed = self.multihop.unwrap_or(0);
        Guard {
            ttl: u8::MAX,
            least_ttl: if self.ttl_security {
                u8::MAX.saturating_sub(crossed)
            } else {
                1
            },
            md5: self.password.as_ref().map(Password::bytes),
            ao: self.tcp_ao.as_ref().map(TcpAo::key),
        }
    }

    /// How it is called, at that address.
    pub(super) fn way(&self, peer: IpAddr) -> Way<'_> {
        Way {
            peer,
            port: self.port,
            interface: self.interface.as_deref(),
            source: self.source,
            guard: self.guard(),
        }
    }
}
