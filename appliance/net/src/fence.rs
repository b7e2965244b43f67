//! The fence of an interface: nftables rules that let it answer for a VIP only while the VIP's own
//! adverts leave by it.
//!
//! Each virtual router has a *lease* there, an element of a dynamic set that the kernel renews when
//! one of its adverts passes the egress hook, and forgets a while after the last. Without the lease
//! nothing leaves the VIP and nothing reaches it, so that an owner that hangs, or is stopped, is
//! silent before any Backup can act, and nothing of user space is needed for that. Gratuitous
//! ARP and Neighbor Advertisements of others always pass: a Backup must learn where the VIP went.
//!
//! Needs the netdev egress hook (Linux 5.16).

use std::{
    cell::RefCell,
    fmt::Write as _,
    io,
    net::{IpAddr, Ipv4Addr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use kedge_core::{Code, Coded, Fix, Problem};
use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};

use crate::{
    monitor::MacText,
    nft::{self, NftError},
    sys::packet::Mac,
    udp::Family,
};

/// The fence of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The interface.
    pub interface: String,
    /// Its index, which names the table.
    pub ifindex: u32,
    /// The virtual routers on it, in any order; of two with one identity the first counts.
    pub leases: Vec<Lease>,
}

/// What one virtual router holds while it advertises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The virtual router.
    pub vrid: u8,
    /// The family it advertises over.
    pub family: Family,
    /// How long the addresses outlive its last advert; whole milliseconds.
    pub lasts: Duration,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether packets to the addresses are for this host (RFC 9568 section 6.1, `Accept_Mode`).
    /// Otherwise it answers ARP and Neighbor Discovery for them, and nothing else.
    pub accept: bool,
    /// Where the addresses have the hardware addresses of the virtual router.
    pub virtual_mac: Option<VirtualMac>,
}

/// The hardware addresses of a virtual router, beside the interface's own.
///
/// The addresses stand on [virtual links](crate::virtual_link), whose frames pass the hooks of the
/// interface below. By itself the kernel would answer ARP for them at the interface, too, and ask in
/// their name from there, which draws every neighbour's entry to the interface's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualMac {
    /// That of IPv4 addresses.
    pub v4: Mac,
    /// That of IPv6 addresses.
    pub v6: Mac,
    /// Who asks instead: an IPv4 address of the interface itself.
    pub asks: Option<Ipv4Addr>,
}

/// Why a fence does not stand.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// A name that cannot be written into a ruleset.
    #[error("the name of the interface {0:?} cannot be written into a ruleset")]
    Name(String),
    /// nftables refused.
    #[error("the fence of {interface} cannot be put up")]
    Nft {
        /// The interface.
        interface: String,
        /// Why.
        #[source]
        source: NftError,
    },
    /// Who removes tables is not told.
    #[error("cannot watch for removed tables")]
    Watch(#[source] io::Error),
}

impl Fence {
    /// Makes the kernel's fence of this interface this one, in one transaction. Leases that stay
    /// go on; new ones begin with one full time, which harms nobody who holds nothing.
    ///
    /// `before` is what stands there already.
    ///
    /// # Errors
    ///
    /// `nft` is missing or refuses; what stood before still stands.
    pub fn install(&self, before: Option<&Self>) -> Result<(), FenceError> {
        let text = self.ruleset(before)?;
        nft::apply_text(&text).map_err(|source| FenceError::Nft {
            interface: self.interface.clone(),
            source,
        })
    }

    /// Takes the fence down. One that is not there is down.
    ///
    /// # Errors
    ///
    /// `nft` is missing or refuses.
    pub fn remove(&self) -> Result<(), FenceError> {
        let table = self.table();
        // Adding what may be there makes deleting it no error.
        let text = format!("add table netdev {table}\ndelete table netdev {table}\n");
        nft::apply_text(&text).map_err(|source| FenceError::Nft {
            interface: self.interface.clone(),
            source,
        })
    }

    fn table(&self) -> String {
        format!("{TABLE}{}", self.ifindex)
    }

    /// The transaction.
    fn ruleset(&self, before: Option<&Self>) -> Result<String, FenceError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if self.interface.is_empty() || !self.interface.chars().all(plain) {
            return Err(FenceError::Name(self.interface.clone()));
        }
        let (table, interface) = (self.table(), &self.interface);
        let mut text = String::new();
        let mut line = |it: std::fmt::Arguments<'_>| {
            // A String takes everything.
            let _ = text.write_fmt(it);
            text.push('\n');
        };
        // A chain stays with the name it was made with.
        let before = before.filter(|before| before.interface == self.interface);
        line(format_args!("add table netdev {table}"));
        if before.is_none() {
            line(format_args!("delete table netdev {table}"));
            line(format_args!("add table netdev {table}"));
        }
        for hook in ["egress", "ingress"] {
            line(format_args!(
                "add chain netdev {table} {hook} {{ type filter hook {hook} device \"{interface}\" \
                 priority 0; }}"
            ));
            line(format_args!("flush chain netdev {table} {hook}"));
        }
        for lease in &self.leases {
            let set = lease.set();
            let lasts = lease.lasts.as_millis();
            line(format_args!(
                "add set netdev {table} {set} {{ type iface_index; flags timeout,dynamic; }}"
            ));
            line(format_args!(
                "add element netdev {table} {set} {{ \"{interface}\" timeout {lasts}ms }}"
            ));
            for (hook, rule) in lease.rules() {
                line(format_args!("add rule netdev {table} {hook} {rule}"));
            }
        }
        let gone = before.iter().flat_map(|before| &before.leases);
        for gone in gone.filter(|gone| !self.leases.iter().any(|lease| lease.set() == gone.set())) {
            line(format_args!("delete set netdev {table} {}", gone.set()));
        }
        Ok(text)
    }
}

impl Lease {
    fn set(&self) -> String {
        let family = match self.family {
            Family::V4 => 4,
            Family::V6 => 6,
        };
        format!("lease{family}_{}", self.vrid)
    }

    /// The rules and their chains.
    fn rules(&self) -> Vec<(&'static str, String)> {
        let (set, vrid, lasts) = (self.set(), self.vrid, self.lasts.as_millis());
        let adverts = match self.family {
            Family::V4 => "ip protocol 112",
            Family::V6 => "ip6 nexthdr 112",
        };
        // The VRID is the second byte of an advert of any version.
        // What renews it is fenced by nothing, and what only passes by need not be asked everything:
        // adverts are the packets that each host of the LAN sees all the time.
        let renewed =
            format!("{adverts} @th,8,8 {vrid} update @{set} {{ oif timeout {lasts}ms }} accept");
        let passes = match self.family {
            Family::V4 => "ip daddr 224.0.0.18 accept",
            Family::V6 => "ip6 daddr ff02::12 accept",
        };
        let rules = RefCell::new(vec![("egress", renewed), ("ingress", passes.to_owned())]);
        let fenced = |hook: &'static str, what: String| {
            let side = if hook == "egress" { "oif" } else { "iif" };
            let rule = format!("{what} {side} != @{set} counter drop");
            rules.borrow_mut().push((hook, rule));
        };
        let refused = |hook: &'static str, what: String| {
            if !self.accept {
                rules
                    .borrow_mut()
                    .push((hook, format!("{what} counter drop")));
            }
        };
        for mac in self.virtual_mac.iter().flat_map(|it| [it.v4, it.v6]) {
            // A switch learns the port of whoever sends from it.
            fenced("egress", format!("ether saddr {}", MacText(mac)));
            fenced("ingress", format!("ether daddr {}", MacText(mac)));
        }
        for address in &self.addresses {
            if let (IpAddr::V4(v4), Some(virtual_mac)) = (address, self.virtual_mac) {
                rules.borrow_mut().extend(virtual_mac.rules(*v4));
            }
            match address {
                IpAddr::V4(v4) => {
                    fenced("egress", format!("ip saddr {v4}"));
                    fenced("egress", format!("arp saddr ip {v4}"));
                    fenced("ingress", format!("ip daddr {v4}"));
                    refused("ingress", format!("ip daddr {v4}"));
                    // A question; a gratuitous one asks for its sender's own address.
                    fenced(
                        "ingress",
                        format!("arp operation request arp daddr ip {v4} arp saddr ip != {v4}"),
                    );
                }
                IpAddr::V6(v6) => {
                    let target = format!("@th,64,128 {:#x}", v6.to_bits());
                    fenced("egress", format!("ip6 saddr {v6}"));
                    fenced("egress", format!("icmpv6 type nd-neighbor-advert {target}"));
                    fenced("ingress", format!("ip6 daddr {v6}"));
                    let discovery = "icmpv6 type != { nd-neighbor-solicit, nd-neighbor-advert }";
                    refused("ingress", format!("ip6 daddr {v6} {discovery}"));
                    refused("ingress", format!("ip6 daddr {v6} ip6 nexthdr != icmpv6"));
                    fenced(
                        "ingress",
                        format!("icmpv6 type nd-neighbor-solicit {target}"),
                    );
                }
            }
        }
        rules.into_inner()
    }
}

impl VirtualMac {
    /// What the interface itself says of `address`: no answer, and no question in its name.
    fn rules(self, address: Ipv4Addr) -> impl Iterator<Item = (&'static str, String)> {
        let mac = MacText(self.v4);
        let of_interface = move |operation: &str| {
            format!("arp operation {operation} arp saddr ip {address} arp saddr ether != {mac}")
        };
        let answers = format!("{} counter drop", of_interface("reply"));
        let asks = self.asks;
        let asks = asks.map(|own| format!("{} arp saddr ip set {own}", of_interface("request")));
        [Some(answers), asks]
            .into_iter()
            .flatten()
            .map(|rule| ("egress", rule))
    }
}

/// Takes down every fence in this network namespace: those of a process that died.
///
/// # Errors
///
/// `nft` is missing or refuses.
pub fn remove_all() -> Result<(), NftError> {
    let ours: Vec<String> = nft::tables("netdev")?
        .into_iter()
        .filter(|table| table.starts_with(TABLE))
        .collect();
    if ours.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    for table in ours {
        let _ = writeln!(text, "delete table netdev {table}");
    }
    nft::apply_text(&text)
}

/// Which fences stand in this network namespace, by interface index.
///
/// # Errors
///
/// `nft` is missing or refuses.
pub fn standing() -> Result<Vec<u32>, NftError> {
    let tables = nft::tables("netdev")?;
    let index = |table: &String| table.strip_prefix(TABLE)?.parse().ok();
    Ok(tables.iter().filter_map(index).collect())
}

/// Tells when somebody removes a table, as a firewall does that clears the ruleset.
#[derive(Debug)]
pub struct TableWatch(Socket);

impl TableWatch {
    /// Watches the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket.
    pub fn open() -> Result<Self, FenceError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.bind_auto()?;
            socket.add_membership(NFNLGRP_NFTABLES)?;
            socket.set_non_blocking(true)?;
            Ok(Self(socket))
        };
        open().map_err(FenceError::Watch)
    }

    /// Takes what was told since; whether a table was removed, or it cannot be known. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn removed(&self) -> io::Result<bool> {
        let mut removed = false;
        let mut buffer = [0_u8; BUFFER];
        loop {
            match self.0.recv(&mut &mut buffer[..], 0) {
                Ok(length) => {
                    removed |= deletes_table(buffer.get(..length).unwrap_or(&buffer));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(removed),
                // Something was told that did not fit.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => removed = true,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for TableWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether one of the messages (`struct nlmsghdr`, each padded to 4 bytes) says so.
fn deletes_table(mut messages: &[u8]) -> bool {
    while let Some(([a, b, c, d, e, f, ..], _)) = messages.split_first_chunk::<16>() {
        if u16::from_ne_bytes([*e, *f]) == DELTABLE {
            return true;
        }
        let length = u32::from_ne_bytes([*a, *b, *c, *d]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let next = length.max(16).checked_next_multiple_of(4);
        messages = next.and_then(|next| messages.get(next..)).unwrap_or(&[]);
    }
    false
}

impl Coded for FenceError {
    fn problem(&self) -> Problem {
        let mut problem = Problem::warning(Code::VipFenceWeak, self.to_string()).consequence(
            "a host that hangs answers for its VIPs until their addresses expire, up to 2 s, and \
             not only until its last advert is three intervals old",
        );
        if let Some(source) = std::error::Error::source(self) {
            problem = problem.caused_by(source);
        }
        problem.fix(match self {
            Self::Nft {
                source: NftError::Program(_),
                ..
            } => Fix::text("install nftables").command("apt-get install nftables"),
            Self::Name(_) => Fix::text("give the interface a plain name"),
            Self::Nft { .. } | Self::Watch(_) => {
                Fix::text("the kernel needs nf_tables with the netdev egress hook (Linux 5.16)")
                    .command("nft list ruleset netdev")
            }
        })
    }
}

/// With the index of the interface behind it.
const TABLE: &str = "kedge_vip_";
/// The group that hears of changes of nftables.
const NFNLGRP_NFTABLES: u32 = 7;
/// `NFNL_SUBSYS_NFTABLES` and `NFT_MSG_DELTABLE`.
const DELTABLE: u16 = 10 << 8 | 2;
/// Several messages; what is cut begins with its header all the same.
const BUFFER: usize = 8192;

#[cfg(test)]
mod tests;
