//! The kernel's side of a tunnel's device, of a TUN device or one of the kernel's own: MTU, state,
//! addresses, routes.
//!
//! Addresses and routes are compared with the kernel; only what carries our protocol number and
//! belongs to this interface is changed.
//!
//! Beside each route into the tunnel stands an `unreachable` route with a worse metric. It does
//! not depend on the interface, so when the process dies and its TUN goes, packets for the tunnel
//! are refused instead of leaving unencrypted by the default route.

mod route;

use std::{collections::BTreeSet, io};

use ipnet::IpNet;
use kedge_core::{Code, Coded, Problem};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::{
    RouteNetlinkMessage as Message,
    address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage},
    link::{AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage},
};
use rustix::{io::Errno, net::netdevice::name_to_index};

pub use self::route::Lead;
use self::route::{Kind, metric};
use super::Tun;
use crate::{
    PROTOCOL,
    monitor::{Address, Link},
    privilege,
    rtnl::{Requests, family},
};

/// The kernel's side of a [`Tun`] or a link, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Interface {
    name: String,
    index: u32,
    mtu: u16,
    requests: Requests,
    /// The metric of the `unreachable` routes, which also says that they are this interface's.
    metric: u32,
    /// Whether its packets are ours to split.
    is_tun: bool,
    /// Whether super packets may be larger than a run of datagrams.
    takes_any_size: bool,
}

/// The kernel refused something about the interface.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct InterfaceError {
    what: String,
    source: io::Error,
}

impl InterfaceError {
    /// Whether the interface is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ENODEV)
    }

    /// Whether the port of an interface that the kernel serves is taken.
    #[must_use]
    pub fn is_port_taken(&self) -> bool {
        self.source.raw_os_error() == Some(libc::EADDRINUSE)
    }
}

impl Interface {
    /// Finds the interface of `tun` and sets it up with `mtu`.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn set_up(tun: &Tun, mtu: u16) -> Result<Self, InterfaceError> {
        Self::configure(tun, mtu, LinkFlags::Up)
    }

    /// Finds the interface called `name`, which the kernel serves itself. It stays as it is until it is
    /// [raised](Self::raise).
    ///
    /// # Errors
    ///
    /// There is none, or the kernel refused.
    pub fn of_link(name: &str, mtu: u16) -> Result<Self, InterfaceError> {
        let failed = |source| InterfaceError {
            what: format!("find {name}"),
            source,
        };
        let mut interface = Self {
            metric: metric(name),
            is_tun: false,
            takes_any_size: false,
            name: name.to_owned(),
            index: index(name).map_err(failed)?,
            mtu,
            requests: Requests::open().map_err(failed)?,
        };
        interface.be_quiet();
        Ok(interface)
    }

    /// Sets the interface up, with its MTU; whether it was not.
    ///
    /// # Errors
    ///
    /// The kernel refused, `ENODEV` if it is gone, `EADDRINUSE` if the kernel serves it and its port
    /// is taken.
    pub fn raise(&mut self) -> Result<bool, InterfaceError> {
        if self.is_raised()? {
            return Ok(false);
        }
        let mut message = link(self.index);
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        let mtu = LinkAttribute::Mtu(u32::from(self.mtu));
        message.attributes.push(mtu);
        self.change(Message::SetLink(message), 0, &[], || "set it up".to_owned())?;
        Ok(true)
    }

    /// Whether the interface is up and has its MTU.
    ///
    /// # Errors
    ///
    /// The kernel did not answer, `ENODEV` if it is gone.
    pub fn is_raised(&mut self) -> Result<bool, InterfaceError> {
        let answer = self.requests.get(Message::GetLink(link(self.index)));
        let answer = answer.map_err(|source| InterfaceError {
            what: format!("read the state of {}", self.name),
            source,
        })?;
        let Message::NewLink(message) = answer else {
            return Ok(false);
        };
        let seen = Link::read(&message);
        Ok(seen.is_some_and(|link| link.up && link.mtu == u32::from(self.mtu)))
    }

    /// The same without setting it up, for whoever does that later.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn prepare(tun: &Tun, mtu: u16) -> Result<Self, InterfaceError> {
        Self::configure(tun, mtu, LinkFlags::empty())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's number for it.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    fn configure(tun: &Tun, mtu: u16, up: LinkFlags) -> Result<Self, InterfaceError> {
        let name = tun.name().to_owned();
        let failed = |source| InterfaceError {
            what: format!("set up {name}"),
            source,
        };
        let mut interface = Self {
            metric: metric(&name),
            is_tun: true,
            takes_any_size: false,
            index: index(&name).map_err(failed)?,
            mtu,
            requests: Requests::open().map_err(failed)?,
            name: name.clone(),
        };
        interface.be_quiet();
        let (index, requests) = (interface.index, &mut interface.requests);
        let mut message = link(index);
        message.header.flags = up;
        message.header.change_mask = up;
        message.attributes.push(LinkAttribute::Mtu(u32::from(mtu)));
        message.attributes.push(LinkAttribute::TxQueueLen(QUEUE));
        requests
            .change(Message::SetLink(message), 0)
            .map_err(failed)?;
        interface.limit_super_packets();
        Ok(interface)
    }

    /// Takes super packets of any size from here on. Those of an interface on top of this one, such as
    /// VXLAN's, are as large as it allows, and what is too large here the kernel cuts before.
    pub fn take_any_size(&mut self) {
        self.takes_any_size = true;
        self.limit_super_packets();
    }

    /// A larger one is split all the same, only less well.
    fn limit_super_packets(&mut self) {
        let mut message = link(self.index);
        let largest = if self.takes_any_size {
            ANY_SIZE
        } else {
            largest_super_packet(self.mtu)
        };
        message.attributes.push(LinkAttribute::GsoMaxSize(largest));
        let _ = self.requests.change(Message::SetLink(message), 0);
    }

    /// No link-local address and so no router solicitations into the tunnel. Without IPv6 in the kernel
    /// there is nothing to switch off.
    fn be_quiet(&mut self) {
        let quiet = AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)]);
        let mut message = link(self.index);
        message
            .attributes
            .push(LinkAttribute::AfSpecUnspec(vec![quiet]));
        let _ = self.requests.change(Message::SetLink(message), 0);
    }

    /// Makes the interface carry exactly `desired`, as far as addresses of ours go, and tells how many
    /// came and went.
    ///
    /// # Errors
    ///
    /// The kernel refused; what was done before stays.
    pub fn set_addresses(&mut self, desired: &[IpNet]) -> Result<usize, InterfaceError> {
        let desired: BTreeSet<IpNet> = desired.iter().copied().collect();
        let observed = self.addresses()?;
        let changes = observed.symmetric_difference(&desired).count();
        for net in observed.difference(&desired) {
            let message = Message::DelAddress(self.address(*net));
            self.change(message, 0, &[Errno::ADDRNOTAVAIL], || {
                format!("remove {net}")
            })?;
        }
        for net in desired.difference(&observed) {
            let message = Message::NewAddress(self.address(*net));
            let flags = NLM_F_CREATE | NLM_F_REPLACE;
            self.change(message, flags, &[], || format!("add the address {net}"))?;
        }
        Ok(changes)
    }

    /// Whether the addresses and routes of ours are these: what somebody else took away is missed.
    ///
    /// # Errors
    ///
    /// The kernel did not answer.
    pub fn has(&mut self, addresses: &[IpNet], leads: &[Lead]) -> Result<bool, InterfaceError> {
        let addresses: BTreeSet<IpNet> = addresses.iter().copied().collect();
        Ok(self.addresses()? == addresses && self.leads(leads)?)
    }

    /// Has another MTU, and super packets that fit it; whether it had another one before.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn set_mtu(&mut self, mtu: u16) -> Result<bool, InterfaceError> {
        if self.mtu == mtu {
            return Ok(false);
        }
        let mut message = link(self.index);
        message.attributes.push(LinkAttribute::Mtu(u32::from(mtu)));
        self.change(Message::SetLink(message), 0, &[], || {
            format!("set the MTU {mtu}")
        })?;
        self.mtu = mtu;
        if self.is_tun {
            self.limit_super_packets();
        }
        Ok(true)
    }

    /// The MTU it is to have.
    #[must_use]
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    fn change(
        &mut self,
        message: Message,
        flags: u16,
        fine: &[Errno],
        what: impl FnOnce() -> String,
    ) -> Result<(), InterfaceError> {
        match self.requests.change(message, flags) {
            Err(source)
                if !fine
                    .iter()
                    .any(|errno| source.raw_os_error() == Some(errno.raw_os_error())) =>
            {
                Err(InterfaceError {
                    what: format!("{} on {}", what(), self.name),
                    source,
                })
            }
            _ => Ok(()),
        }
    }

    fn addresses(&mut self) -> Result<BTreeSet<IpNet>, InterfaceError> {
        let mut found = BTreeSet::new();
        let mut message = AddressMessage::default();
        message.header.index = self.index;
        let (index, name) = (self.index, &self.name);
        self.requests
            .dump(Message::GetAddress(message), |object| {
                if let Message::NewAddress(message) = object
                    && message.header.index == index
                {
                    found.extend(own_address(&message));
                }
            })
            .map_err(|source| InterfaceError {
                what: format!("read addresses of {name}"),
                source,
            })?;
        Ok(found)
    }

    fn address(&self, net: IpNet) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.family = family(net.addr());
        message.header.prefix_len = net.prefix_len();
        message.header.index = self.index;
        // Nobody else is on the link: there is no duplicate to look for.
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes = vec![
            AddressAttribute::Address(net.addr()),
            AddressAttribute::Local(net.addr()),
            AddressAttribute::Flags(AddressFlags::Nodad),
            AddressAttribute::Protocol(PROTOCOL.into()),
        ];
        message
    }
}

/// Removes the `unreachable` routes that a killed process left for the interface `name`, and tells
/// how many. While there is an interface of that name they are in use and stay.
///
/// # Errors
///
/// The kernel refused; what was removed before stays removed.
pub fn clear_leftovers(name: &str) -> Result<usize, InterfaceError> {
    let failed = |source| InterfaceError {
        what: format!("look for routes that {name} left"),
        source,
    };
    match index(name) {
        Ok(_) => return Ok(0),
        Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {}
        Err(error) => return Err(failed(error)),
    }
    let mut gone = Interface {
        name: name.to_owned(),
        index: 0,
        mtu: 0,
        requests: Requests::open().map_err(failed)?,
        metric: metric(name),
        is_tun: false,
        takes_any_size: false,
    };
    let left: BTreeSet<IpNet> = gone
        .routes()?
        .into_iter()
        .filter(|(kind, ..)| *kind == Kind::Unreachable)
        .map(|(_, prefix, _)| prefix)
        .collect();
    gone.remove_routes(Kind::Unreachable, left.iter())?;
    Ok(left.len())
}

impl Coded for InterfaceError {
    fn problem(&self) -> Problem {
        privilege::problem(
            Code::NetKernel,
            format!("the kernel refused to {}", self.what),
            &self.source,
        )
    }
}

/// The address of a message, if it carries our protocol number.
fn own_address(message: &AddressMessage) -> Option<IpNet> {
    let address = Address::read(message)?;
    (address.protocol == PROTOCOL).then_some(address.net)
}

fn link(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

pub(crate) fn index(name: &str) -> io::Result<u32> {
    let any = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    Ok(name_to_index(&any, name)?)
}

/// The largest super packet whose segments, sealed, go into one run of datagrams.
fn largest_super_packet(mtu: u16) -> u32 {
    let segments = LARGEST_RUN / (u32::from(mtu) + SEALED);
    segments * (u32::from(mtu) - HEADERS) + HEADERS
}

/// Runs of VXLAN packets overflow the default of 500 and also 1000.
const QUEUE: u32 = 2_000;

/// The most bytes in a run of datagrams: an IPv4 packet without its headers.
const LARGEST_RUN: u32 = 65_507;

/// What the kernel sets by itself (`GSO_LEGACY_MAX_SIZE`).
const ANY_SIZE: u32 = 65_536;

/// What sealing adds to a packet.
const SEALED: u32 = 32;

/// The headers that each segment repeats: IPv6, TCP, timestamps. With shorter ones a segment carries
/// more, so that there are fewer.
const HEADERS: u32 = 72;
