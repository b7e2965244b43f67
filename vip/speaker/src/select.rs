//! Which interface a VIP belongs to, and why not the others.

use std::net::IpAddr;

use ipnet::IpNet;
use kedge_core::{Code, Fix, Problem, vip::Vrid};
use kedge_net::{
    Mac, PROTOCOL,
    monitor::{Address, Link},
};

use kedge_vip_proto::wire::Mac as Hardware;

use crate::{spec::is_link_local, virtual_links::OwnLinks};

/// What an interface is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The address of the VIP that must be on-link.
    pub vip: IpAddr,
    /// The configured interface, if there is one.
    pub interface: Option<&'a str>,
    /// The configured source of adverts, an address of that interface.
    pub source: Option<IpAddr>,
    /// Whether the VIP is to be the interface's own address.
    pub owner: bool,
}

/// The interface of a VIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its own address there, the source of adverts; for IPv6 a link-local one.
    pub address: IpAddr,
    /// The length of the prefix that contains the VIP.
    pub prefix_len: u8,
    /// Its on-link prefixes.
    pub prefixes: Vec<IpNet>,
    /// Its hardware address.
    pub mac: Mac,
    /// Whether frames can pass.
    pub running: bool,
    /// Why it was chosen.
    pub because: String,
    /// The links on which the addresses stand, beside the interface itself.
    pub own_links: OwnLinks,
    /// The others.
    pub rejected: Vec<Rejected>,
}

/// An interface that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its name.
    pub interface: String,
    /// Why not.
    pub because: String,
}

/// Why no interface can carry a VIP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// No on-link prefix contains it.
    #[error("no interface has a prefix that contains {vip}")]
    NoOnLinkPrefix {
        /// The VIP.
        vip: IpAddr,
        /// What there is.
        rejected: Vec<Rejected>,
    },
    /// One does, and cannot carry it.
    #[error("{}", cannot(*vip, *source_address))]
    CannotCarry {
        /// The VIP.
        vip: IpAddr,
        /// The configured source of adverts, if that is what is missing.
        source_address: Option<IpAddr>,
        /// What there is.
        rejected: Vec<Rejected>,
    },
    /// The configured interface does not exist.
    #[error("the configured interface {name} does not exist")]
    InterfaceMissing {
        /// Its name.
        name: String,
        /// What there is.
        existing: Vec<String>,
    },
    /// Priority 255 was asked for an address that is not the interface's own.
    #[error("priority 255 was asked for {vip}, and no interface has it as its own address")]
    NotOwner {
        /// The VIP.
        vip: IpAddr,
        /// What there is.
        rejected: Vec<Rejected>,
    },
    /// The VIP is an address that somebody else put on the interface.
    #[error("{vip} is already an address of {interface}, and Kedge did not put it there")]
    OwnAddress {
        /// The VIP.
        vip: IpAddr,
        /// The interface.
        interface: String,
    },
}

/// Chooses the interface whose on-link prefix contains the VIP: the longest prefix wins, then an
/// interface that runs, then the lowest index.
///
/// # Errors
///
/// None fits; the answer names what there is.
pub fn select<'a>(
    links: impl IntoIterator<Item = &'a Link>,
    wanted: Wanted<'_>,
) -> Result<Chosen, WhyNot> {
    let (mut fitting, mut rejected, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut on_link = false;
    for link in links {
        names.push(link.name.clone());
        match judge(link, wanted) {
            Judged::Fits(fit) => fitting.push((link, fit)),
            Judged::Unfit(because) => rejected.push(Rejected {
                interface: link.name.clone(),
                because,
            }),
            Judged::CannotCarry(because) => {
                on_link = true;
                rejected.push(Rejected {
                    interface: link.name.clone(),
                    because,
                });
            }
            // A host of containers has hundreds of these, and nobody looks for a VIP there.
            Judged::Port => {}
            Judged::OwnAddress => {
                let interface = link.name.clone();
                return Err(WhyNot::OwnAddress {
                    vip: wanted.vip,
                    interface,
                });
            }
        }
    }
    if let Some(name) = wanted.interface
        && !names.iter().any(|existing| existing == name)
    {
        let name = name.to_owned();
        return Err(WhyNot::InterfaceMissing {
            name,
            existing: names,
        });
    }
    fitting.sort_by_key(|(link, fit)| {
        (
            std::cmp::Reverse(fit.net.prefix_len()),
            !link.is_running(),
            link.index,
        )
    });
    let mut fitting = fitting.into_iter();
    let Some((link, fit)) = fitting.next() else {
        let vip = wanted.vip;
        return Err(if wanted.owner {
            WhyNot::NotOwner { vip, rejected }
        } else if on_link {
            WhyNot::CannotCarry {
                vip,
                source_address: wanted.source,
                rejected,
            }
        } else {
            WhyNot::NoOnLinkPrefix { vip, rejected }
        });
    };
    rejected.extend(fitting.map(|(loser, lost)| Rejected {
        interface: loser.name.clone(),
        because: outdone(&lost, &fit, link),
    }));
    rejected.sort_by(|a, b| a.interface.cmp(&b.interface));
    Ok(Chosen {
        ifindex: link.index,
        name: link.name.clone(),
        address: fit.source,
        prefix_len: fit.net.prefix_len(),
        prefixes: own_nets(link).map(|net| net.trunc()).collect(),
        mac: fit.mac,
        running: link.is_running(),
        because: because(link, &fit, wanted),
        own_links: OwnLinks::default(),
        rejected,
    })
}

impl WhyNot {
    /// The interfaces that were looked at.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        match self {
            Self::NoOnLinkPrefix { rejected, .. }
            | Self::CannotCarry { rejected, .. }
            | Self::NotOwner { rejected, .. } => rejected,
            Self::InterfaceMissing { .. } | Self::OwnAddress { .. } => &[],
        }
    }

    /// The problem as people see it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let code = match self {
            Self::NoOnLinkPrefix { .. } => Code::VipNoOnLinkPrefix,
            Self::CannotCarry { .. } => Code::VipCannotCarry,
            Self::InterfaceMissing { .. } => Code::VipInterfaceMissing,
            Self::NotOwner { .. } => Code::VipNotOwner,
            Self::OwnAddress { .. } => Code::ConfigRule,
        };
        let mut problem = Problem::new(code, self.to_string())
            .consequence("this VIP is not served by this host until that changes");
        for Rejected { interface, because } in self.rejected() {
            problem = problem.evidence(format!("{interface}: {because}"));
        }
        match self {
            Self::NoOnLinkPrefix { vip, .. } => problem.fix(Fix::text(format!(
                "give an interface an address in the subnet of {vip}, or choose a VIP in a subnet \
                 this host is on"
            ))),
            Self::CannotCarry {
                source_address: Some(source),
                ..
            } => problem.fix(
                Fix::text("correct `source`, or remove it to let Kedge choose")
                    .command(format!("ip address show to {source}")),
            ),
            Self::CannotCarry { .. } => problem.fix(Fix::text(
                "give the interface what it lacks, or choose a VIP in the subnet of another one",
            )),
            Self::InterfaceMissing { existing, .. } => problem
                .evidence(format!("there is {}", list(existing)))
                .fix(Fix::text(
                    "correct `interface`, or remove it to let Kedge choose",
                )),
            Self::NotOwner { vip, .. } => problem.fix(Fix::text(format!(
                "put {vip} on the interface, or set `priority: auto`"
            ))),
            Self::OwnAddress { vip, interface } => problem.fix(
                Fix::text(format!(
                    "remove it from the host's own network configuration, or set `priority: 255` \
                     if this host owns {vip}"
                ))
                .command(format!("ip address show dev {interface}")),
            ),
        }
    }
}

struct Fit {
    net: IpNet,
    source: IpAddr,
    mac: Mac,
}

enum Judged {
    Fits(Fit),
    Unfit(String),
    /// It has the prefix.
    CannotCarry(String),
    OwnAddress,
    Port,
}

fn judge(link: &Link, wanted: Wanted<'_>) -> Judged {
    let Wanted {
        vip,
        interface,
        source,
        owner,
    } = wanted;
    let unfit = |because: &str| Judged::Unfit(because.to_owned());
    if interface.is_some_and(|name| name != link.name) {
        return Judged::Unfit(format!("{} is configured", interface.unwrap_or_default()));
    }
    if link.is_virtual() {
        return Judged::Port;
    }
    if link.loopback {
        return unfit("it is the loopback device");
    }
    let of_family = |net: &IpNet| net.addr().is_ipv6() == vip.is_ipv6();
    let own: Vec<IpNet> = own_nets(link).filter(of_family).collect();
    if own.is_empty() && interface.is_none() && link.master.is_some() {
        return Judged::Port;
    }
    let is_vip = |net: &&IpNet| net.addr() == vip;
    let containing = own
        .iter()
        .filter(|net| net.contains(&vip) && (owner || !is_vip(net)));
    let best = match (owner, own.iter().find(is_vip)) {
        (true, Some(net)) => Some(net),
        (true, None) => return unfit("it does not have the address"),
        (false, Some(_)) => return Judged::OwnAddress,
        (false, None) => containing.max_by_key(|net| net.prefix_len()),
    };
    let family = if vip.is_ipv6() { "IPv6" } else { "IPv4" };
    let Some(net) = best else {
        let ours = |address: &Address| of_family(&address.net) && address.protocol == PROTOCOL;
        return match own.as_slice() {
            [] if link.addresses.iter().any(ours) => {
                Judged::Unfit(format!("Kedge put its {family} addresses there itself"))
            }
            [] => Judged::Unfit(format!("it has no {family} address")),
            own => {
                let nets: Vec<String> = own.iter().map(IpNet::to_string).collect();
                Judged::Unfit(format!("{} does not contain {vip}", nets.join(", ")))
            }
        };
    };
    let source = match (source, vip) {
        (Some(source), _) => own.iter().find(|net| net.addr() == source),
        (None, IpAddr::V4(_)) => Some(net),
        (None, IpAddr::V6(_)) => own.iter().find(|net| is_link_local(&net.addr())),
    };
    let cannot = |because: String| match owner {
        true => Judged::Unfit(because),
        false => Judged::CannotCarry(because),
    };
    match (source, link.mac) {
        (Some(source), Some(mac)) => Judged::Fits(Fit {
            net: *net,
            source: source.addr(),
            mac,
        }),
        (Some(_), None) => cannot("it has no Ethernet address".to_owned()),
        (None, _) => cannot(match wanted.source {
            Some(source) => format!("it does not have {source}, the source"),
            None => "it has no link-local address to advertise from".to_owned(),
        }),
    }
}

/// The addresses that are the host's own: not ours, not the end of a point-to-point link, and not
/// while somebody else may have them.
fn own_nets(link: &Link) -> impl Iterator<Item = IpNet> + '_ {
    let own = link.addresses.iter().filter(|address| {
        address.peer.is_none() && address.protocol != PROTOCOL && !address.tentative
    });
    own.map(|address| address.net)
}

fn because(link: &Link, fit: &Fit, wanted: Wanted<'_>) -> String {
    let vip = wanted.vip;
    let how = if wanted.owner {
        format!("{vip} is its own address")
    } else {
        format!("{} contains {vip}", fit.net)
    };
    if wanted.interface.is_some() {
        format!("{} is configured, and {how}", link.name)
    } else {
        format!("{}: {how}", link.name)
    }
}

fn outdone(lost: &Fit, won: &Fit, winner: &Link) -> String {
    if lost.net.prefix_len() < won.net.prefix_len() {
        format!(
            "{} contains it too, but {} on {} is closer",
            lost.net, won.net, winner.name
        )
    } else {
        format!(
            "{} contains it too, but {} comes first",
            lost.net, winner.name
        )
    }
}

fn cannot(vip: IpAddr, source: Option<IpAddr>) -> String {
    match source {
        Some(source) => {
            format!("no interface with a prefix that contains {vip} has its source {source}")
        }
        None => format!("no interface with a prefix that contains {vip} can carry it"),
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "no interface at all".to_owned()
    } else {
        names.join(", ")
    }
}

impl Chosen {
    /// The same with the addresses on links of their own, those of the virtual router `vrid`.
    pub(crate) fn on(mut self, own_links: OwnLinks, vrid: Vrid) -> Self {
        self.own_links = own_links;
        for (link, ipv6) in [(own_links.v4, false), (own_links.v6, true)] {
            if link.is_some() {
                let family = if ipv6 { "IPv6" } else { "IPv4" };
                let mac = Hardware::virtual_router(vrid, ipv6);
                self.because
                    .push_str(&format!("; {family} addresses are at {mac}"));
            }
        }
        self
    }

    /// The index of the link on which an address stands.
    #[must_use]
    pub fn device(&self, address: IpAddr) -> u32 {
        self.own_links.of(address).unwrap_or(self.ifindex)
    }

    /// The VIP's address with the length of the on-link prefix, as people read it.
    #[must_use]
    pub fn with_prefix(&self, vip: IpAddr) -> String {
        let containing = self.prefixes.iter().filter(|net| net.contains(&vip));
        let longest = containing.map(IpNet::prefix_len).max();
        let host = IpNet::from(vip).prefix_len();
        format!("{vip}/{}", longest.unwrap_or(host))
    }
}

#[cfg(test)]
mod tests;
