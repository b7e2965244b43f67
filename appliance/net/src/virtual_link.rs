//! Links with the hardware address of a virtual router (RFC 9568 section 7.3): a macvlan in bridge
//! mode on top of the interface, for one VRID and family.
//!
//! It is down except while its router is Active: a host that is not must neither send from that
//! address, which moves the switches' ports, nor take frames to it. Its [`GROUP`] says whose it is,
//! and nothing that does not carry it is touched.
//!
//! Bridge mode, because in private mode the interface itself would not see the adverts of peers with
//! the same hardware address. No IPv6 address of its own, because two hosts would have the same one.

use std::{fs, io};

use kedge_core::{Code, Coded, Fix, Problem};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    RouteNetlinkMessage as Message,
    link::{LinkMessage, MacVlanMode},
};
use rtnetlink::{LinkMacVlan, LinkMessageBuilder, LinkUnspec};

use crate::{
    PROTOCOL,
    monitor::{Link, MacText},
    privilege,
    rtnl::Requests,
    sys::packet::Mac,
    udp::Family,
};

/// The link group (`ip link show group 107`) of every virtual link.
pub const GROUP: u32 = PROTOCOL as u32;

/// The virtual links of a network namespace.
#[derive(Debug)]
pub struct VirtualLinks {
    requests: Requests,
}

/// What a virtual link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Purpose {
    /// The interface below it.
    pub parent: u32,
    /// The virtual router.
    pub vrid: u8,
    /// The family of the addresses on it.
    pub family: Family,
    /// The hardware address of the virtual router in that family.
    pub mac: Mac,
}

/// A virtual link cannot be made, changed or read.
#[derive(Debug, thiserror::Error)]
pub enum VirtualLinkError {
    /// No socket for requests.
    #[error("cannot open a netlink socket")]
    Open(#[source] io::Error),
    /// The kernel did not tell which links there are.
    #[error("cannot read the links of the host")]
    Read(#[source] io::Error),
    /// The kernel refused to make it.
    #[error("the kernel refused a link with the hardware address {} on interface {parent}", MacText(*.mac))]
    Make {
        /// The interface below it.
        parent: u32,
        /// Its hardware address.
        mac: Mac,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// It would answer for what is not on it.
    #[error("{name} cannot be kept from answering for other addresses: {key} cannot be set")]
    Setting {
        /// Its name.
        name: String,
        /// The key below `/proc/sys/net`.
        key: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel refused to change or remove it.
    #[error("the kernel refused to change the virtual link {ifindex}")]
    Change {
        /// Its index.
        ifindex: u32,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl VirtualLinks {
    /// Opens the socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket.
    pub fn open() -> Result<Self, VirtualLinkError> {
        let requests = Requests::open().map_err(VirtualLinkError::Open)?;
        Ok(Self { requests })
    }

    /// Every virtual link there is.
    ///
    /// # Errors
    ///
    /// The kernel did not answer.
    pub fn list(&mut self) -> Result<Vec<Link>, VirtualLinkError> {
        let mut links = self.all()?;
        links.retain(Link::is_virtual);
        Ok(links)
    }

    /// The index of the link for this purpose, which is made if there is none. A new one is down.
    ///
    /// Must be called on a thread of the same network namespace: its settings are files.
    ///
    /// # Errors
    ///
    /// The kernel refused; there is no such link then.
    pub fn ensure(&mut self, purpose: Purpose) -> Result<u32, VirtualLinkError> {
        let links = self.all()?;
        let found = links.iter().find(|link| {
            link.is_virtual() && link.below == Some(purpose.parent) && link.mac == Some(purpose.mac)
        });
        let (name, ifindex) = match found {
            Some(link) => (link.name.clone(), link.index),
            None => self.make(purpose, &links)?,
        };
        match settle(&name, purpose.family) {
            Ok(()) => Ok(ifindex),
            Err(error) => {
                // A link without them would do harm as soon as it is up.
                let _ = self.remove(ifindex);
                Err(error)
            }
        }
    }

    /// Sets a virtual link up or down. Down takes some milliseconds.
    ///
    /// # Errors
    ///
    /// The kernel refused, `ENODEV` if it is gone.
    pub fn set(&mut self, ifindex: u32, up: bool) -> Result<(), VirtualLinkError> {
        let link = LinkUnspec::new_with_index(ifindex);
        let link = if up { link.up() } else { link.down() };
        self.change(ifindex, Message::SetLink(link.build()))
    }

    /// Removes a virtual link, with its addresses. One that is gone is removed.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn remove(&mut self, ifindex: u32) -> Result<(), VirtualLinkError> {
        let link = LinkUnspec::new_with_index(ifindex).build();
        match self.change(ifindex, Message::DelLink(link)) {
            Err(VirtualLinkError::Change { source, .. })
                if source.raw_os_error() == Some(libc::ENODEV) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// Sets every virtual link down, whoever made it: those of a process that died.
    ///
    /// # Errors
    ///
    /// The kernel did not answer, or refused for one; the others are down.
    pub fn lower_all(&mut self) -> Result<(), VirtualLinkError> {
        let mut done = Ok(());
        for link in self.list()?.iter().filter(|link| link.up) {
            done = done.and(self.set(link.index, false));
        }
        done
    }

    fn make(
        &mut self,
        purpose: Purpose,
        links: &[Link],
    ) -> Result<(String, u32), VirtualLinkError> {
        let Purpose { parent, mac, .. } = purpose;
        let refused = |source| VirtualLinkError::Make {
            parent,
            mac,
            source,
        };
        let is_free = |name: &String| !links.iter().any(|link| link.name == *name);
        let name = purpose.names().find(is_free);
        let name = name.ok_or_else(|| refused(io::ErrorKind::AlreadyExists.into()))?;
        let link = LinkMessageBuilder::<LinkMacVlan>::new(&name)
            .mode(MacVlanMode::Bridge)
            .link(parent)
            .address(mac.to_vec())
            .link_group(GROUP)
            .build();
        self.requests
            .change(Message::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(refused)?;
        let made = self.all()?.into_iter().find(|link| link.name == name);
        let made = made.ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
        Ok((name, made.index))
    }

    fn all(&mut self) -> Result<Vec<Link>, VirtualLinkError> {
        let mut links = Vec::new();
        let request = Message::GetLink(LinkMessage::default());
        self.requests
            .dump(request, |message| {
                if let Message::NewLink(message) = message {
                    links.extend(Link::read(&message));
                }
            })
            .map_err(VirtualLinkError::Read)?;
        Ok(links)
    }

    fn change(&mut self, ifindex: u32, message: Message) -> Result<(), VirtualLinkError> {
        let refused = |source| VirtualLinkError::Change { ifindex, source };
        self.requests.change(message, 0).map_err(refused)
    }
}

impl Purpose {
    /// The names it may have: the plain one, and others for a VRID that is used on several
    /// interfaces.
    fn names(self) -> impl Iterator<Item = String> {
        let family = match self.family {
            Family::V4 => 4,
            Family::V6 => 6,
        };
        let vrid = self.vrid;
        let suffixes = std::iter::once(String::new()).chain(('b'..='z').map(String::from));
        suffixes.map(move |suffix| format!("{PREFIX}{vrid}-{family}{suffix}"))
    }
}

/// Makes a link answer for the addresses on it, and do nothing else.
fn settle(name: &str, family: Family) -> Result<(), VirtualLinkError> {
    let settings: &[(&str, &str, &str)] = match family {
        Family::V4 => &[
            ("ipv6", "disable_ipv6", "1"),
            ("ipv4", "arp_ignore", "1"),
            // What arrives here is answered through the interface: 2 where the host is strict.
            ("ipv4", "rp_filter", "2"),
        ],
        Family::V6 => &[
            ("ipv6", "disable_ipv6", "0"),
            // No link-local address, and none of a router's prefix.
            ("ipv6", "addr_gen_mode", "1"),
            ("ipv6", "accept_ra", "0"),
            ("ipv6", "autoconf", "0"),
            ("ipv4", "arp_ignore", "8"),
        ],
    };
    for (protocol, key, value) in settings {
        let key = format!("{protocol}/conf/{name}/{key}");
        match fs::write(format!("/proc/sys/net/{key}"), value) {
            Ok(()) => {}
            // A kernel without IPv6 needs none of its settings.
            Err(error) if error.kind() == io::ErrorKind::NotFound && family == Family::V4 => {}
            Err(source) => {
                let name = name.to_owned();
                return Err(VirtualLinkError::Setting { name, key, source });
            }
        }
    }
    Ok(())
}

impl Coded for VirtualLinkError {
    fn problem(&self) -> Problem {
        let (Self::Open(source)
        | Self::Read(source)
        | Self::Make { source, .. }
        | Self::Setting { source, .. }
        | Self::Change { source, .. }) = self;
        let fix = match self {
            Self::Setting { .. } => Fix::text(
                "let the agent write /proc/sys/net: in a systemd unit ProtectKernelTunables=no, in a \
                 container the host's /proc/sys",
            ),
            Self::Make { .. } => Fix::text(
                "an interface that is a port of a bridge, or has an ipvlan, takes no macvlan: put the \
                 host's address and the VIP on the bridge, or leave out `virtual_mac`",
            )
            .command("ip -details link show"),
            Self::Open(_) | Self::Read(_) | Self::Change { .. } => {
                Fix::text("see what the kernel said").command("ip -details link show group 107")
            }
        };
        privilege::problem(Code::VipVirtualMac, self.to_string(), source)
            .consequence("a VIP with `virtual_mac` is not served by this host")
            .fix(fix)
    }
}

/// How the name of each begins.
const PREFIX: &str = "kedge-vr";

#[cfg(test)]
mod tests;
