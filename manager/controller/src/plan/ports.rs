//! Ports of gateways: nothing is given twice.
//!
//! A port is a place on a gateway ([`Seat`]): on its own addresses, or on an address that only one
//! load balancer has. One that was given back rests: clients of who had it may still come, and
//! connections outlive the listener, so for as long nobody of another namespace gets it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU16,
};

use kedge_crd::{
    gateway::{DEFAULT_PORTS, PortRange},
    traffic::Transport,
};

use super::because::Because;
use crate::store::Name;

/// A place at a gateway where one listener fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// The protocol.
    pub protocol: Transport,
    /// The port.
    pub port: NonZeroU16,
    /// The address; `None` where it is the gateway's own, whichever those are.
    pub at: Option<IpAddr>,
}

/// Who has a seat.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// What it is.
    pub kind: OwnerKind,
    /// Its name.
    pub name: Name,
    /// The name of the port there; nothing where it only rests.
    pub port: String,
}

/// What has a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// A LoadBalancer.
    Balancer,
    /// A TCPLoadBalancer.
    Tcp,
    /// A TCPLoadBalancer had it, and it rests.
    Rests,
    /// The HTTPLoadBalancers of a gateway share it.
    Http,
    /// HTTPLoadBalancers with an address that is theirs alone share it.
    Address,
}

/// A seat, and who has it.
pub type Port = (Seat, Owner);

/// The seats of every gateway that are given.
#[derive(Debug, Default)]
pub struct Ports {
    given: BTreeMap<Name, BTreeMap<Seat, Owner>>,
    resting: BTreeMap<Name, BTreeMap<Seat, Owner>>,
    /// The gateways that listen on every address there is: no port is on two addresses there.
    anywhere: BTreeSet<Name>,
}

impl Seat {
    /// A TCP port on the gateway's own addresses.
    #[must_use]
    pub const fn own_tcp(port: NonZeroU16) -> Self {
        Self {
            at: None,
            protocol: Transport::Tcp,
            port,
        }
    }

    /// The same at an address that is not the gateway's own.
    #[must_use]
    pub const fn at(self, address: IpAddr) -> Self {
        Self {
            at: Some(address),
            ..self
        }
    }
}

impl Owner {
    /// A LoadBalancer's port.
    #[must_use]
    pub fn balancer(name: &Name, port: &str) -> Self {
        Self {
            kind: OwnerKind::Balancer,
            name: name.clone(),
            port: port.to_owned(),
        }
    }

    /// A TCPLoadBalancer's port.
    #[must_use]
    pub fn tcp(name: &Name, port: &str) -> Self {
        Self {
            kind: OwnerKind::Tcp,
            name: name.clone(),
            port: port.to_owned(),
        }
    }

    /// A TCPLoadBalancer that had it.
    #[must_use]
    pub fn rests(name: &Name) -> Self {
        Self {
            kind: OwnerKind::Rests,
            name: name.clone(),
            port: String::new(),
        }
    }

    /// The HTTPLoadBalancers of that gateway.
    #[must_use]
    pub fn http(gateway: &Name) -> Self {
        Self {
            kind: OwnerKind::Http,
            name: gateway.clone(),
            port: String::new(),
        }
    }

    /// HTTPLoadBalancers that share an address, by what they share it as.
    #[must_use]
    pub fn address(name: &Name) -> Self {
        Self {
            kind: OwnerKind::Address,
            name: name.clone(),
            port: String::new(),
        }
    }

    /// Who it is, for the people of that namespace: others' names are none of their business.
    #[must_use]
    pub fn told_to(&self, namespace: &str) -> String {
        if self.name.namespace == namespace || self.kind == OwnerKind::Http {
            self.to_string()
        } else {
            match self.kind {
                OwnerKind::Rests => "another tenant's load balancer had it a moment ago".to_owned(),
                OwnerKind::Balancer | OwnerKind::Tcp | OwnerKind::Http | OwnerKind::Address => {
                    "another tenant has it".to_owned()
                }
            }
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OwnerKind::Balancer => write!(f, "LoadBalancer {} has it", self.name),
            OwnerKind::Tcp => write!(f, "TCPLoadBalancer {} has it", self.name),
            OwnerKind::Rests => write!(f, "TCPLoadBalancer {} had it a moment ago", self.name),
            OwnerKind::Http => {
                f.write_str("HTTPLoadBalancers share it (spec.http of the EdgeGateway)")
            }
            OwnerKind::Address => write!(f, "HTTPLoadBalancers of {} share it", self.name),
        }
    }
}

impl Ports {
    /// A gateway that listens on every address.
    pub fn is_anywhere(&mut self, gateway: &Name) {
        self.anywhere.insert(gateway.clone());
    }

    /// What was given earlier. Who was entered first keeps it.
    pub fn enter(&mut self, gateway: &Name, seat: Seat, owner: Owner) {
        let seats = match owner.kind {
            OwnerKind::Rests => &mut self.resting,
            OwnerKind::Balancer | OwnerKind::Tcp | OwnerKind::Http | OwnerKind::Address => {
                &mut self.given
            }
        };
        let seats = seats.entry(gateway.clone()).or_default();
        seats.entry(seat).or_insert(owner);
    }

    /// As [`enter`](Self::enter), by another namespace: what rests there is nobody's here.
    pub fn enter_other(&mut self, gateway: &Name, (seat, owner): &Port) {
        let seats = self.given.entry(gateway.clone()).or_default();
        seats.entry(*seat).or_insert_with(|| owner.clone());
    }

    /// Takes a seat, if nobody else has it.
    ///
    /// # Errors
    ///
    /// Who has it.
    pub fn take(&mut self, gateway: &Name, seat: Seat, owner: &Owner) -> Result<(), Owner> {
        if let Some(other) = self.other(gateway, seat, owner) {
            return Err(other.clone());
        }
        let seats = self.given.entry(gateway.clone()).or_default();
        seats.insert(seat, owner.clone());
        Ok(())
    }

    /// Gives the LoadBalancer's port a port of the gateway: the wish if it is free, else the
    /// lowest free one.
    ///
    /// # Errors
    ///
    /// Every port of the range is taken.
    pub fn claim(
        &mut self,
        (gateway, range): (&Name, Option<PortRange>),
        (name, port_name): (&Name, &str),
        wish: Option<NonZeroU16>,
    ) -> Result<NonZeroU16, Because> {
        let range = range.unwrap_or(DEFAULT_PORTS);
        let owner = Owner::balancer(name, port_name);
        let given = self.given.get(gateway).into_iter().flatten();
        let mut given = given.filter(|(_, other)| **other == owner);
        if let Some((seat, _)) = given.next() {
            return Ok(seat.port);
        }
        let is_free =
            |port: &NonZeroU16| self.other(gateway, Seat::own_tcp(*port), &owner).is_none();
        let mut range_ports = (range.from.get()..=range.to.get()).filter_map(NonZeroU16::new);
        let port = wish
            .filter(is_free)
            .or_else(|| range_ports.find(is_free))
            .ok_or_else(|| Because::PortsExhausted {
                gateway: gateway.clone(),
                from: range.from.get(),
                to: range.to.get(),
            })?;
        let seats = self.given.entry(gateway.clone()).or_default();
        seats.insert(Seat::own_tcp(port), owner);
        Ok(port)
    }

    /// What a namespace has, and what of it rests; of everything, where none is named.
    #[must_use]
    pub fn of_space(&self, space: &str) -> BTreeMap<Name, BTreeSet<Port>> {
        let mut found: BTreeMap<Name, BTreeSet<Port>> = BTreeMap::new();
        for (gateway, seats) in self.given.iter().chain(&self.resting) {
            for (seat, owner) in seats {
                if space.is_empty() || owner.name.namespace == space {
                    let own = found.entry(gateway.clone()).or_default();
                    own.insert((*seat, owner.clone()));
                }
            }
        }
        found
    }

    /// Who else has the seat, or one that excludes it, or had it a moment ago.
    #[must_use]
    pub fn other(&self, gateway: &Name, seat: Seat, owner: &Owner) -> Option<&Owner> {
        let is_anywhere = self.anywhere.contains(gateway);
        let excludes = |other: &Seat| {
            let apart = is_anywhere && (other.at.is_none() || seat.at.is_none());
            other.at == seat.at || apart
        };
        let given = same_port(self.given.get(gateway), seat);
        let given = given.filter(|(other, by)| excludes(other) && *by != owner);
        let resting = same_port(self.resting.get(gateway), seat);
        let resting = resting
            .filter(|(other, by)| excludes(other) && by.name.namespace != owner.name.namespace);
        given.chain(resting).map(|(_, by)| by).next()
    }
}

/// The seats with that protocol and port, on whatever address.
fn same_port(
    seats: Option<&BTreeMap<Seat, Owner>>,
    seat: Seat,
) -> impl Iterator<Item = (&Seat, &Owner)> {
    let first = Seat { at: None, ..seat };
    let last = Seat {
        at: Some(IpAddr::V6(Ipv6Addr::from_bits(u128::MAX))),
        ..seat
    };
    seats
        .into_iter()
        .flat_map(move |seats| seats.range(first..=last))
}
