//! BGP: who the neighbours are, and what they are told.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU16,
    path::PathBuf,
};

use ipnet::IpNet;
use kedge_core::{
    Name,
    bgp::{Asn, Community, ExtendedCommunity, LargeCommunity, PeerAs, RouterId},
};
use kedge_host::{layers::Auto, section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::{
    GracefulSpan, InterfaceName, MaxPrefixes, Prepend, RetrySpan, RouteTable, RoutersBetween,
    SilenceSpan,
};

section! {
    /// BGP (RFC 4271): routers are told of the VIPs whose `via` names it.
    BgpFile {
        /// The number of this host's autonomous system: 1 to 4294967295.
        asn: Asn,
        /// What this host calls itself: an address of IPv4 that no other speaker of its autonomous system
        /// has, such as the host's own.
        router_id: RouterId,
        /// Who speaks: `own`, this agent; or `route_table_only`, where a routing daemon of this host does:
        /// the routes stand in a table of the kernel, from which it takes them.
        mode: BgpModeFile,
        /// With `route_table_only` the table: 1 to 4294967295, but none of the kernel's own (253 to 255).
        table: RouteTable,
        /// What neighbours have that say nothing else.
        defaults: BgpDefaultsFile,
        /// The neighbours, by name.
        neighbors: BTreeMap<Name, BgpNeighborFile>,
    }
}

section! {
    /// What neighbours have that say nothing else.
    BgpDefaultsFile {
        /// After how much silence a session is lost: 3s to 65535s, or 0s for never. The shorter one of both
        /// sides counts.
        hold_time: SilenceSpan,
        /// How long a call may take, and how long to wait before the next one: 1s to 5m.
        connect_retry: RetrySpan,
        /// The kinds of routes: `ipv4`, `ipv6`.
        families: Vec<FamilyFile>,
        /// Whether routes of IPv4 may go over IPv6 where the neighbour agrees (RFC 8950).
        extended_next_hop: bool,
        /// Whether what has crossed a router is dropped (RFC 5082): the neighbour has to send with TTL 255,
        /// and most do not unless told to.
        ttl_security: bool,
        /// How many destinations the neighbour may announce before its session ends; left out there is no
        /// bound, as nothing of them is kept.
        max_prefixes: MaxPrefixes,
        /// How long routes say that they go away soon (RFC 8326) before they do, when the agent leaves or
        /// the host is drained: 0s to 5s.
        graceful_shutdown: GracefulSpan,
        /// MULTI_EXIT_DISC of routes that say nothing else.
        med: u32,
        /// LOCAL_PREF of routes that say nothing else, within the autonomous system.
        local_pref: u32,
        /// How often the autonomous system's number is put in front of the path once more: 0 to 16.
        prepend: Prepend,
        /// Communities that are added, such as `65001:7` or `no-export`.
        communities: Vec<Community>,
        /// Extended communities that are added, such as `rt:65001:7`.
        extended_communities: Vec<ExtendedCommunity>,
        /// Large communities that are added, such as `65001:1:2`.
        large_communities: Vec<LargeCommunity>,
        /// Where routes may lead to: these prefixes and what is within them. Left out every VIP is told.
        #[schemars(with = "Option<Vec<String>>")]
        export: Vec<IpNet>,
    }
}

section! {
    /// A BGP neighbour. What is left out is as `bgp.defaults` has it.
    BgpNeighborFile {
        /// Its address; left out it is whichever router there is on `interface`, by the address of the link
        /// that it advertises (RFC 4861): an unnumbered neighbour.
        address: IpAddr,
        /// Its autonomous system: the number, where the same as `bgp.asn` is internal BGP; `external`, any other
        /// one; or `internal`, the same.
        asn: PeerAs,
        /// The TCP port it takes calls at.
        port: NonZeroU16,
        /// The interface it is on; link-local and unnumbered neighbours need it. Of an unnumbered one this host
        /// sends router advertisements there, with a lifetime of zero: it is nobody's default router.
        interface: InterfaceName,
        /// The address to call from, one of this host; left out the kernel chooses it.
        source: IpAddr,
        /// How many routers may be in between, 1 to 254; left out the neighbour is on a link of this host.
        multihop: RoutersBetween,
        /// Whether what has crossed more than these routers is dropped (RFC 5082): the neighbour has to send
        /// with TTL 255, and most do not unless told to.
        ttl_security: bool,
        /// The file with the key that segments are signed with (TCP-MD5, RFC 2385): 1 to 80 bytes.
        password_file: PathBuf,
        /// The key that segments are signed with by TCP-AO (RFC 5925), in place of `password_file`, where the
        /// kernel has it.
        tcp_ao: TcpAoFile,
        /// Whether to wait for its call.
        passive: bool,
        /// Whether the session is kept down, and the neighbour told so.
        shutdown: bool,
        /// The BFD session that ends this one as soon as it loses the neighbour: `auto`, one of its own with
        /// the usual times, or the name of one of `bfd.sessions`.
        bfd: Auto<Name>,
        /// Whether the session waits for BFD to see the neighbour. Without it a neighbour that never spoke BFD
        /// has its session all the same; one that BFD lost is waited for in any case.
        bfd_strict: bool,
        /// Where packets to routes go, where that is not this end of the session.
        next_hop: NextHopFile,
        /// After how much silence the session is lost: 3s to 65535s, or 0s for never.
        hold_time: SilenceSpan,
        /// How long a call may take, and how long to wait before the next one: 1s to 5m.
        connect_retry: RetrySpan,
        /// The kinds of routes: `ipv4`, `ipv6`.
        families: Vec<FamilyFile>,
        /// Whether routes of IPv4 may go over IPv6 where it agrees (RFC 8950); to an unnumbered neighbour they
        /// do unless this says no.
        extended_next_hop: bool,
        /// How many destinations it may announce before the session ends.
        max_prefixes: MaxPrefixes,
        /// How long routes say that they go away soon (RFC 8326) before they do: 0s to 5s.
        graceful_shutdown: GracefulSpan,
        /// MULTI_EXIT_DISC of routes that say nothing else.
        med: u32,
        /// LOCAL_PREF of routes that say nothing else, within the autonomous system.
        local_pref: u32,
        /// How often the autonomous system's number is put in front of the path once more: 0 to 16.
        prepend: Prepend,
        /// Communities that are added.
        communities: Vec<Community>,
        /// Extended communities that are added.
        extended_communities: Vec<ExtendedCommunity>,
        /// Large communities that are added.
        large_communities: Vec<LargeCommunity>,
        /// Where routes may lead to: these prefixes and what is within them.
        #[schemars(with = "Option<Vec<String>>")]
        export: Vec<IpNet>,
    }
}

section! {
    /// A key of TCP-AO, as both sides have it.
    TcpAoFile {
        /// The file with the key: 1 to 80 bytes.
        key_file: PathBuf,
        /// The number by which segments that are sent name the key: 0 to 255, the neighbour's `receive_id`.
        send_id: u8,
        /// The number by which those of the neighbour name it: 0 to 255.
        receive_id: u8,
        /// How segments are signed (RFC 5926): `hmac_sha1`, which is HMAC-SHA-1-96, where it is left out; or
        /// `aes_cmac`, AES-128-CMAC-96.
        algorithm: TcpAoAlgorithmFile,
    }
}

section! {
    /// Where packets to routes go.
    NextHopFile {
        /// Those to routes of IPv4.
        ipv4: Ipv4Addr,
        /// Those to routes of IPv6.
        ipv6: Ipv6Addr,
    }
}

section! {
    /// What is said of a VIP's routes. Communities and `prepend` are added to those of the neighbour.
    VipBgpFile {
        /// The neighbours that are told; left out all of them.
        neighbors: Vec<Name>,
        /// MULTI_EXIT_DISC.
        med: u32,
        /// LOCAL_PREF, within the autonomous system.
        local_pref: u32,
        /// How often the autonomous system's number is put in front of the path once more: 0 to 16.
        prepend: Prepend,
        /// Communities, such as `65001:7` or `no-export`.
        communities: Vec<Community>,
        /// Extended communities, such as `rt:65001:7`.
        extended_communities: Vec<ExtendedCommunity>,
        /// Large communities, such as `65001:1:2`.
        large_communities: Vec<LargeCommunity>,
    }
}

/// Who speaks BGP for this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BgpModeFile {
    /// The agent.
    #[default]
    Own,
    /// Another daemon, which takes the routes from a table of the kernel.
    RouteTableOnly,
}

/// How segments are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TcpAoAlgorithmFile {
    /// HMAC-SHA-1-96.
    #[default]
    HmacSha1,
    /// AES-128-CMAC-96.
    AesCmac,
}

/// A kind of routes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FamilyFile {
    /// To addresses of IPv4.
    Ipv4,
    /// To addresses of IPv6.
    Ipv6,
}

/// How the network learns where a VIP is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ViaFile {
    /// By VRRP and ARP: one host holds it.
    Vrrp,
    /// By BGP: routers are told of it.
    Bgp,
}
