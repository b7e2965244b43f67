//! Thousands of services, as the manager would tell a gateway of them: each its port, and two back ends on this
//! node, of which one is alive.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU16,
};

use kedge_control::frontend::{ClientIp, Frontend, Health, Offer, Pool, PoolMember, Protocol};
use kedge_gateway_xds::{Here, Life};

/// A back end: what its host is called, and where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    A,
    B,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The byte it answers.
    pub(super) const fn byte(self) -> u8 {
        match self {
            Self::A => b'a',
            Self::B => b'b',
        }
    }

    pub(super) const fn port(self) -> u16 {
        match self {
            Self::A => 9_001,
            Self::B => 9_002,
        }
    }

    pub(super) const fn at(self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port())
    }

    fn host(self, of: &str) -> String {
        format!("{of}/{}", char::from(self.byte()))
    }
}

/// Where the service of a number listens.
pub(super) fn at(number: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + number))
}

/// The services of these numbers.
pub(super) fn offer(numbers: std::ops::Range<u16>, health: Option<Health>) -> Offer {
    let mut offer = Offer::default();
    for number in numbers {
        let Some(port) = NonZeroU16::new(FIRST + number) else {
            continue;
        };
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let ends = End::BOTH.into_iter().filter_map(|end| {
            let port = NonZeroU16::new(end.port())?;
            Some(member(end.host(hosts(number)), here, port))
        });
        let name = format!("service-{number}");
        add(&mut offer, name, (here, port), ends.collect(), health);
    }
    offer
}

/// Adds a service over TCP.
pub(super) fn add(
    offer: &mut Offer,
    name: String,
    (address, port): (IpAddr, NonZeroU16),
    members: Vec<PoolMember>,
    health: Option<Health>,
) {
    offer.frontends.push(Frontend {
        name: format!("{TENANT}/{name}"),
        tenant: TENANT.to_owned(),
        address,
        port,
        protocol: Protocol::Tcp,
        pool: name.clone(),
        client_ip: ClientIp::Hidden,
        source_ranges: Vec::new(),
    });
    offer.pools.push(Pool {
        name,
        tenant: TENANT.to_owned(),
        members,
        health,
        ..Pool::default()
    });
}

/// A back end of one.
pub(super) const fn member(host: String, address: IpAddr, port: NonZeroU16) -> PoolMember {
    PoolMember {
        host,
        address,
        port,
        weight: 1,
        draining: false,
    }
}

/// Only the probed service has hosts of its own: what becomes of them concerns nobody else.
const fn hosts(number: u16) -> &'static str {
    if number == PROBED { "probed" } else { "others" }
}

/// The hosts that are alive: of every service the first, of the probed one this one.
pub(super) fn here(probed: End) -> Here {
    let mut here = Here::default();
    for (hosts, alive) in [("probed", probed), ("others", End::A)] {
        here.lives.insert(alive.host(hosts), Life::Alive);
        here.lives.insert(alive.other().host(hosts), Life::Dead);
    }
    here
}

/// A host of the probed service.
pub(super) fn probed_host(end: End) -> String {
    end.host(hosts(PROBED))
}

/// The service whose back ends change.
pub(super) const PROBED: u16 = 0;
const TENANT: &str = "bench";
/// The port of the first service.
const FIRST: u16 = 10_000;
