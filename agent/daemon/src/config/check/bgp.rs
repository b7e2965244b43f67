//! BGP neighbours of the configuration, and the VIPs that they are told of.

mod path;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::{
    Fix, Name, Problem,
    bgp::{Asn, Community, ExtendedCommunity, LargeCommunity, PeerAs, RouterId},
};
use kedge_host::layers::closest;
use kedge_vip_speaker::{
    bfd::BfdSpec,
    bgp::{AoAlgorithm, BgpSpec, Config, HoldTime, Offer, PORT, Policy, Prefix, Text},
};

pub(crate) use self::path::own_session;
use super::{range, rule, vip::is_host};
use crate::config::{
    AoConfig, BgpConfig, BgpDefaultsFile, BgpFile, BgpMode, BgpModeFile, BgpNeighborFile,
    FamilyFile, GracefulSpan, NeighborConfig, Prepend, RetrySpan, RouteTable, SilenceSpan,
    TcpAoAlgorithmFile, VipConfig,
};

/// Checks the neighbours; the BFD sessions that are theirs alone are added to `sessions`.
pub(super) fn check(
    file: Option<&BgpFile>,
    sessions: &mut Vec<BfdSpec>,
    problems: &mut Vec<Problem>,
) -> Option<BgpConfig> {
    let file = file?;
    let entries = || file.neighbors.iter().flatten();
    let mode = file.mode.unwrap_or_default();
    let mode = match (mode, file.table) {
        (BgpModeFile::Own, None) => BgpMode::Own,
        (BgpModeFile::Own, Some(_)) => {
            let what = "a table is for the routing daemon of `mode: route_table_only`";
            let fix = "leave it out: neighbours of the agent are told without one";
            problems.push(rule("bgp.table", what).fix(Fix::text(fix)));
            return None;
        }
        (BgpModeFile::RouteTableOnly, table) => {
            if entries().next().is_some() {
                let what = "with `route_table_only` the agent has no neighbours";
                let fix = "configure them at the routing daemon of this host";
                problems.push(rule("bgp.neighbors", what).fix(Fix::text(fix)));
                return None;
            }
            BgpMode::Table(table.unwrap_or(RouteTable::DEFAULT).get())
        }
    };
    let mut neighbors: Vec<NeighborConfig> = Vec::new();
    if mode == BgpMode::Own && entries().next().is_some() {
        let ours = names(file, problems)?;
        let defaults = file.defaults.clone().unwrap_or_default();
        check_said("bgp.defaults", &Said::of_defaults(&defaults), problems);
        for (name, neighbor) in entries() {
            let key = format!("bgp.neighbors.{name}");
            let checked = Neighbor {
                key: &key,
                name,
                file: neighbor,
                defaults: &defaults,
                ours,
            };
            let Some(mut checked) = checked.check(problems) else {
                continue;
            };
            let same = |other: &&NeighborConfig| {
                (other.spec.peer, &other.spec.interface)
                    == (checked.spec.peer, &checked.spec.interface)
            };
            if let Some(other) = neighbors.iter().find(same) {
                let part = match checked.spec.peer {
                    Some(_) => "address",
                    None => "interface",
                };
                let what = format!("{} and {name} are the same neighbour", other.spec.name);
                let fix = Fix::text("keep one of the two");
                problems.push(rule(&format!("{key}.{part}"), what).fix(fix));
            }
            checked.bfd = path::path(&key, neighbor, &checked.spec, sessions, problems);
            neighbors.push(checked);
        }
    }
    Some(BgpConfig { mode, neighbors })
}

/// VIPs are told to neighbours that are there, or to nobody.
pub(super) fn check_vips(
    vips: &BTreeMap<Name, VipConfig>,
    file: Option<&BgpFile>,
    problems: &mut Vec<Problem>,
) {
    let neighbors = || {
        file.into_iter()
            .flat_map(|file| file.neighbors.iter().flatten())
    };
    let is_table = file.is_some_and(|file| file.mode == Some(BgpModeFile::RouteTableOnly));
    for (vip, config) in vips.iter().filter(|(_, config)| config.via.is_told()) {
        let key = format!("vips.{vip}");
        if file.is_none() {
            let what = format!("{vip} is told by BGP, and nothing says to whom");
            let fix = Fix::text("say who this host and its neighbours are").command(
                "bgp: {asn: 65001, router_id: 10.20.14.11, neighbors: {tor: {address: 10.20.14.1, \
                 asn: 65000}}}",
            );
            problems.push(rule(&format!("{key}.via"), what).fix(fix));
        }
        for name in config.announced.neighbors.iter().flatten() {
            if neighbors().any(|(known, _)| known == name) {
                continue;
            }
            let known = neighbors().map(|(known, _)| known.as_str());
            let fix = match closest(name.as_str(), known) {
                Some(meant) => Fix::text(format!("did you mean `{meant}`?")),
                None => Fix::text("take one of `bgp.neighbors`, or leave the list out"),
            };
            let what = format!("there is no BGP neighbour {name}");
            problems.push(rule(&format!("{key}.bgp.neighbors"), what).fix(fix));
        }
        if is_table && config.announced.offer != Offer::default() {
            let what = "with `route_table_only` a route of the kernel says nothing of itself";
            let fix = "have the routing daemon say it, by a filter";
            problems.push(rule(&format!("{key}.bgp"), what).fix(Fix::text(fix)));
        }
    }
}

/// Who this host is.
fn names(file: &BgpFile, problems: &mut Vec<Problem>) -> Option<(Asn, RouterId)> {
    if file.asn.is_none() {
        let fix = Fix::text("say which autonomous system this host is of").command("asn: 65001");
        problems.push(rule("bgp.asn", "neighbours have to know an asn").fix(fix));
    }
    if file.router_id.is_none() {
        let fix =
            Fix::text("take an address of IPv4 of this host").command("router_id: 10.20.14.11");
        problems.push(rule("bgp.router_id", "neighbours have to know a router_id").fix(fix));
    }
    file.asn.zip(file.router_id)
}

/// One neighbour, and what it falls back to.
struct Neighbor<'a> {
    key: &'a str,
    name: &'a Name,
    file: &'a BgpNeighborFile,
    defaults: &'a BgpDefaultsFile,
    ours: (Asn, RouterId),
}

impl Neighbor<'_> {
    fn check(&self, problems: &mut Vec<Problem>) -> Option<NeighborConfig> {
        let Self { key, file, .. } = self;
        let is_found = file.address.is_some() || file.interface.is_some();
        let Some(peer_as) = file.asn.filter(|_| is_found) else {
            let (part, what, command) = match is_found {
                false => (
                    "address",
                    "a neighbour needs its address, or the interface that its router is on",
                    "address: 10.20.14.1",
                ),
                true => ("asn", "a neighbour needs its asn", "asn: 65000"),
            };
            let fix = Fix::text("say who it is").command(command);
            problems.push(rule(&format!("{key}.{part}"), what).fix(fix));
            return None;
        };
        let before = problems.len();
        match file.address {
            Some(peer) => self.check_place(peer, problems),
            None => self.check_link(problems),
        }
        if file.bfd_strict == Some(true) && file.bfd.is_none() {
            let what = "nothing tells whether the neighbour is seen";
            let fix = Fix::text("say which BFD session it is").command("bfd: auto");
            problems.push(rule(&format!("{key}.bfd_strict"), what).fix(fix));
        }
        let tcp_ao = self.check_key(problems);
        let said = Said::of_neighbor(file);
        check_said(key, &said, problems);
        if !peer_as.is_internal(self.ours.0) && file.local_pref.is_some() {
            let what = "LOCAL_PREF is not told to another autonomous system";
            let fix = Fix::text("leave it out, or take `med` or `prepend`");
            problems.push(rule(&format!("{key}.local_pref"), what).fix(fix));
        }
        (problems.len() == before).then(|| NeighborConfig {
            spec: BgpSpec {
                name: self.name.clone(),
                peer: file.address,
                port: file.port.map_or(PORT, |port| port.get()),
                interface: file.interface.as_ref().map(ToString::to_string),
                source: file.source,
                multihop: file.multihop.map(|crossed| crossed.get()),
                ttl_security: file
                    .ttl_security
                    .or(self.defaults.ttl_security)
                    .unwrap_or(false),
                password: None,
                tcp_ao: None,
                config: self.session(peer_as, &said),
            },
            password_file: file.password_file.clone(),
            tcp_ao,
            bfd: None,
        })
    }

    /// The key of TCP-AO.
    fn check_key(&self, problems: &mut Vec<Problem>) -> Option<AoConfig> {
        let Self { key, file, .. } = self;
        let ao = file.tcp_ao.as_ref()?;
        let key = format!("{key}.tcp_ao");
        if file.password_file.is_some() {
            let what = "segments are signed with TCP-MD5 or with TCP-AO, not with both";
            let fix = Fix::text("keep `tcp_ao` if the neighbour has it, or `password_file`");
            problems.push(rule(&key, what).fix(fix));
        }
        let (Some(path), Some(send), Some(receive)) = (&ao.key_file, ao.send_id, ao.receive_id)
        else {
            let what = "TCP-AO needs a key and the numbers by which both sides name it";
            let fix = Fix::text("say them as the neighbour has them, the other way round");
            let command = "tcp_ao: {key_file: /etc/kedge/tor.key, send_id: 1, receive_id: 1}";
            problems.push(rule(&key, what).fix(fix.command(command)));
            return None;
        };
        Some(AoConfig {
            file: path.clone(),
            ids: [send, receive],
            algorithm: match ao.algorithm.unwrap_or_default() {
                TcpAoAlgorithmFile::HmacSha1 => AoAlgorithm::HmacSha1,
                TcpAoAlgorithmFile::AesCmac => AoAlgorithm::AesCmac,
            },
        })
    }

    /// One that is whichever router there is on an interface.
    fn check_link(&self, problems: &mut Vec<Problem>) {
        let Self { key, file, .. } = self;
        let mut wrong = |part: &str, what: &str, fix: &str| {
            problems.push(rule(&format!("{key}.{part}"), what).fix(Fix::text(fix)));
        };
        if file.multihop.is_some() {
            let what = "the router on an interface is on its link, with none in between";
            wrong(
                "multihop",
                what,
                "leave `multihop` out, or say its `address`",
            );
        }
        let on_link = |it: IpAddr| matches!(it, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if file.source.is_some_and(|source| !on_link(source)) {
            let what = "the router on an interface is called from an address of the link";
            wrong("source", what, "leave `source` out");
        }
    }

    fn check_place(&self, peer: IpAddr, problems: &mut Vec<Problem>) {
        let Self { key, file, .. } = self;
        let mut wrong = |part: &str, what: String, fix: &str| {
            problems.push(rule(&format!("{key}.{part}"), what).fix(Fix::text(fix)));
        };
        let on_link = matches!(peer, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if on_link && file.multihop.is_some() {
            let what = format!("{peer} is on a link, and no router leads there");
            wrong("multihop", what, "leave `multihop` out");
        } else if on_link && file.interface.is_none() {
            let what = format!("{peer} is on every link: nothing says on which");
            wrong("interface", what, "name the interface");
        }
        if let Some(source) = file.source
            && source.is_ipv4() != peer.is_ipv4()
        {
            let what = format!("{source} is of another family than {peer}");
            wrong("source", what, "take a source of the neighbour's family");
        }
        let hops = file.next_hop.as_ref();
        let places = [
            ("address", Some(peer)),
            ("source", file.source),
            ("next_hop.ipv4", hops.and_then(|it| it.ipv4).map(IpAddr::V4)),
            ("next_hop.ipv6", hops.and_then(|it| it.ipv6).map(IpAddr::V6)),
        ];
        for (part, address) in places {
            if let Some(address) = address.filter(|it| !is_host(*it) && !it.is_loopback()) {
                let what = format!("{address} is not the address of a host");
                problems.push(range(&format!("{key}.{part}"), what));
            }
        }
    }

    fn session(&self, peer_as: PeerAs, said: &Said<'_>) -> Config {
        let Self {
            file,
            defaults,
            ours: (local_as, router_id),
            ..
        } = self;
        let hold_time = file.hold_time.as_ref().or(defaults.hold_time.as_ref());
        let retry = file
            .connect_retry
            .as_ref()
            .or(defaults.connect_retry.as_ref());
        let graceful = file
            .graceful_shutdown
            .as_ref()
            .or(defaults.graceful_shutdown.as_ref());
        let families = file.families.as_ref().or(defaults.families.as_ref());
        let speaks = |family| families.is_none_or(|all| all.contains(&family));
        let hops = file.next_hop.as_ref();
        let max_prefixes = file.max_prefixes.or(defaults.max_prefixes);
        Config {
            hold_time: hold_time.map_or(HoldTime::DEFAULT, SilenceSpan::hold_time),
            connect_retry: retry.map_or(Config::CONNECT_RETRY, RetrySpan::duration),
            passive: file.passive.unwrap_or(false),
            families: [speaks(FamilyFile::Ipv4), speaks(FamilyFile::Ipv6)],
            // Over a link there is no other way for routes of IPv4.
            extended_next_hop: file.extended_next_hop.unwrap_or_else(|| {
                file.address.is_none() || defaults.extended_next_hop.unwrap_or(false)
            }),
            max_prefixes: max_prefixes.map(|most| most.get()),
            graceful: graceful.map_or(Duration::ZERO, GracefulSpan::duration),
            policy: Policy {
                offer: said.over(&Said::of_defaults(defaults)),
                export: file
                    .export
                    .as_ref()
                    .or(defaults.export.as_ref())
                    .map(|all| prefixes(all)),
            },
            next_hops: [
                hops.and_then(|it| it.ipv4).map(IpAddr::V4),
                hops.and_then(|it| it.ipv6).map(IpAddr::V6),
            ],
            strict_bfd: file.bfd_strict == Some(true),
            shutdown: (file.shutdown == Some(true)).then(|| Text::new("kept down here")),
            peer_as,
            ..Config::new(*local_as, *local_as, *router_id)
        }
    }
}

/// What is said of routes, wherever it stands.
#[derive(Default)]
pub(super) struct Said<'a> {
    pub med: Option<u32>,
    pub local_pref: Option<u32>,
    pub prepend: Option<Prepend>,
    pub communities: Option<&'a Vec<Community>>,
    pub extended: Option<&'a Vec<ExtendedCommunity>>,
    pub large: Option<&'a Vec<LargeCommunity>>,
    pub families: Option<&'a Vec<FamilyFile>>,
}

impl<'a> Said<'a> {
    const fn of_defaults(file: &'a BgpDefaultsFile) -> Self {
        Self {
            med: file.med,
            local_pref: file.local_pref,
            prepend: file.prepend,
            communities: file.communities.as_ref(),
            extended: file.extended_communities.as_ref(),
            large: file.large_communities.as_ref(),
            families: file.families.as_ref(),
        }
    }

    const fn of_neighbor(file: &'a BgpNeighborFile) -> Self {
        Self {
            med: file.med,
            local_pref: file.local_pref,
            prepend: file.prepend,
            communities: file.communities.as_ref(),
            extended: file.extended_communities.as_ref(),
            large: file.large_communities.as_ref(),
            families: file.families.as_ref(),
        }
    }

    /// As an offer, with what is not said taken from another one.
    pub fn over(&self, other: &Self) -> Offer {
        Offer {
            med: self.med.or(other.med),
            local_pref: self.local_pref.or(other.local_pref),
            prepend: self.prepend.or(other.prepend).map_or(0, Prepend::get),
            communities: self
                .communities
                .or(other.communities)
                .cloned()
                .unwrap_or_default(),
            extended: self
                .extended
                .or(other.extended)
                .cloned()
                .unwrap_or_default(),
            large: self.large.or(other.large).cloned().unwrap_or_default(),
            leaving: false,
        }
    }
}

/// Lists that are as long as a message takes them, and say nothing twice.
pub(super) fn check_said(key: &str, said: &Said<'_>, problems: &mut Vec<Problem>) {
    let lists = [
        ("communities", said.communities.map(|all| counts(all))),
        ("extended_communities", said.extended.map(|all| counts(all))),
        ("large_communities", said.large.map(|all| counts(all))),
        ("families", said.families.map(|all| counts(all))),
    ];
    for (part, counted) in lists {
        let Some((stand, differ)) = counted else {
            continue;
        };
        let key = format!("{key}.{part}");
        if stand > MOST {
            let what = format!("{part} holds {MOST} at most, not {stand}");
            problems.push(range(&key, what));
        }
        if stand > differ {
            let what = format!("one of the {part} stands there twice");
            problems.push(rule(&key, what).fix(Fix::text("keep one of the two")));
        }
    }
    if said.families.is_some_and(Vec::is_empty) {
        let what = "a session without a kind of routes tells nobody of anything";
        let fix = Fix::text("leave it out for both").command("families: [ipv4]");
        problems.push(rule(&format!("{key}.families"), what).fix(fix));
    }
}

/// How many stand there, and how many of them differ.
fn counts<T: Ord>(all: &[T]) -> (usize, usize) {
    (all.len(), all.iter().collect::<BTreeSet<_>>().len())
}

fn prefixes(all: &[IpNet]) -> Vec<Prefix> {
    let all = all.iter();
    all.filter_map(|net| Prefix::new(net.addr(), net.prefix_len()))
        .collect()
}

/// Far more than anybody uses, and far below what a message holds.
const MOST: usize = 32;
