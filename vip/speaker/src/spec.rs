//! What a VIP is configured with.

use std::{net::IpAddr, time::Duration};

use kedge_core::{
    Code, Coded, Fix, Name, Problem,
    vip::{AdvertInterval, Priority, Vrid},
};
use kedge_net::udp::Family;
use kedge_vip_proto::{
    auth,
    vrrp::{ChecksumPolicy, Config, ConfigError, Members, Peers},
    wire::{Addresses, addresses::BadAddresses, vrrp::Version},
};

/// One VIP as the agent wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipSpec {
    /// Its name.
    pub name: Name,
    /// Its addresses; all of them stand on one interface. Those of the family of the first are
    /// advertised, the others go along.
    pub addresses: Vec<IpAddr>,
    /// Addresses that go along without being advertised, of either family.
    pub excluded: Vec<IpAddr>,
    /// The protocol version.
    pub version: Version,
    /// The keys, where adverts are signed; not beside a password.
    pub auth: Option<auth::Config>,
    /// The other routers, where adverts are sent to each of them and not to the group.
    pub unicast_peers: Vec<IpAddr>,
    /// The lowest TTL accepted from them.
    pub min_ttl: u8,
    /// The source of adverts; without one the interface's address on the VIP's prefix, for IPv6
    /// its link-local one.
    pub source: Option<IpAddr>,
    /// The virtual router; another one is another router.
    pub vrid: Vrid,
    /// The priority while healthy.
    pub priority: Priority,
    /// Whether the addresses are the interface's own (then `priority` is 255).
    pub owner: bool,
    /// The advertisement interval.
    pub interval: AdvertInterval,
    /// The interface; without one it is chosen by on-link prefix.
    pub interface: Option<String>,
    /// Whether a Backup takes over from an Active of lower priority.
    pub preempt: bool,
    /// How long after start or link-up `preempt` begins to count.
    pub preempt_delay: Duration,
    /// Who else takes part.
    pub members: Members,
    /// Whether the kernel silences this host when its adverts cease; not asked of the owner of the
    /// addresses.
    pub fence: bool,
    /// Whether packets to the addresses are for this host; not asked of their owner (RFC 9568
    /// section 6.1, `Accept_Mode`).
    pub accept: bool,
    /// Whether the addresses are at the hardware address of the virtual router, on links of their
    /// own (RFC 9568 section 7.3).
    pub virtual_mac: bool,
    /// Which checksum to send.
    pub checksum: ChecksumPolicy,
    /// Whether health decides about the priority.
    pub gated: bool,
    /// Whether it waits for [`Speaker::tracks`](crate::Speaker::tracks) before it takes part, and
    /// heeds what that says.
    pub tracked: bool,
    /// The VIPs it moves together with: those of the same group.
    pub sync_group: Option<Name>,
    /// Whether another one of its group elects for it;
    /// [`Speaker::apply`](crate::Speaker::apply) says so.
    pub follows: bool,
    /// Whether nobody on this host ever held it: look for a foreign owner first.
    pub first_claim: bool,
    /// How long a first claim waits at most for a frame from another station after start; without
    /// one as long as the speaker's settings say.
    pub startup_delay: Option<Duration>,
    /// The same after the link came up.
    pub link_up_delay: Option<Duration>,
    /// Whether nothing but a fault may move it.
    pub frozen: bool,
    /// Whether this host holds it only while nobody else does.
    pub drained: bool,
}

/// A VIP that cannot be run as it is configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No address, or more than an advertisement carries.
    #[error("the VIP {name} cannot be advertised")]
    Count {
        /// The VIP.
        name: Name,
        /// Why.
        #[source]
        source: BadAddresses,
    },
    /// Settings that contradict each other.
    #[error("the VIP {name} contradicts itself")]
    Config {
        /// The VIP.
        name: Name,
        /// How.
        #[source]
        source: ConfigError,
    },
}

impl VipSpec {
    /// A VIP with every default: version 3 to the group, 100 ms adverts, no preemption, no health
    /// gate, among Kedge members, on the interface that fits, claimed before.
    #[must_use]
    pub const fn new(name: Name, addresses: Vec<IpAddr>, vrid: Vrid, priority: Priority) -> Self {
        Self {
            name,
            addresses,
            excluded: Vec::new(),
            version: Version::Three,
            auth: None,
            unicast_peers: Vec::new(),
            min_ttl: u8::MAX,
            source: None,
            vrid,
            priority,
            owner: false,
            interval: AdvertInterval::DEFAULT,
            interface: None,
            preempt: false,
            preempt_delay: Duration::ZERO,
            members: Members::Kedge,
            fence: true,
            accept: true,
            virtual_mac: false,
            checksum: ChecksumPolicy::Auto,
            gated: false,
            tracked: false,
            sync_group: None,
            follows: false,
            first_claim: false,
            startup_delay: None,
            link_up_delay: None,
            frozen: false,
            drained: false,
        }
    }

    /// Whether it can be run, wherever its interface is.
    ///
    /// # Errors
    ///
    /// See [`SpecError`].
    pub fn check(&self) -> Result<(), SpecError> {
        self.config(Config::LINK_UP_WAIT).map(drop)
    }

    /// Every address it holds.
    pub fn held(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().chain(&self.excluded).copied()
    }

    /// Whether its adverts go over IPv6: as its first address is.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.addresses.first().is_some_and(IpAddr::is_ipv6)
    }

    /// Whether it needs a link with the virtual hardware address of that family.
    pub(crate) fn has_virtual(&self, family: Family) -> bool {
        self.virtual_mac && self.held().any(|address| Family::of(address) == family)
    }

    /// The address that decides on which interface it stands: the first that is on-link on one
    /// interface only, as link-local ones are not.
    #[must_use]
    pub fn on_link(&self) -> Option<IpAddr> {
        let ipv6 = self.is_ipv6();
        let mut of_family = self.addresses.iter().filter(|it| it.is_ipv6() == ipv6);
        let first = of_family.clone().next();
        of_family.find(|it| !is_link_local(it)).or(first).copied()
    }

    pub(crate) fn config(&self, link_up_wait: Duration) -> Result<Config, SpecError> {
        let name = || self.name.clone();
        let ipv6 = self.is_ipv6();
        let of_family = |address: &&IpAddr| address.is_ipv6() == ipv6;
        let mut advertised: Vec<IpAddr> =
            self.addresses.iter().filter(of_family).copied().collect();
        // A link-local address comes first (RFC 9568 section 5.2.9).
        advertised.sort_by_key(|address| !is_link_local(address));
        let beside = self.addresses.iter().filter(|it| !of_family(it));
        let excluded = beside.chain(&self.excluded).copied().collect();
        let addresses = Addresses::new(&advertised).map_err(|source| SpecError::Count {
            name: name(),
            source,
        })?;
        let peers = if self.unicast_peers.is_empty() {
            Peers::Group
        } else {
            Peers::Unicast {
                routers: self.unicast_peers.as_slice().into(),
                min_ttl: self.min_ttl,
            }
        };
        let config = Config {
            version: self.version,
            excluded,
            peers,
            owner: self.owner,
            interval: self.interval,
            preempt: self.preempt,
            preempt_delay: self.preempt_delay,
            members: self.members,
            gated: self.gated,
            follows: self.follows,
            virtual_mac: self.virtual_mac,
            checksum: self.checksum,
            first_claim: self.first_claim,
            proves: true,
            startup_wait: self.startup_delay.unwrap_or(link_up_wait),
            link_up_wait: self.link_up_delay.unwrap_or(link_up_wait),
            frozen: self.frozen,
            drained: self.drained,
            ..Config::new(self.vrid, addresses, self.priority)
        };
        match config.check() {
            Ok(()) => Ok(config),
            Err(source) => Err(SpecError::Config {
                name: name(),
                source,
            }),
        }
    }

    /// Whether a running router can become this one: same identity, only settings differ.
    pub(crate) fn is_same_router(&self, other: &Self) -> bool {
        let two = |spec: &Self| spec.version != Version::Three;
        self.vrid == other.vrid
            && self.is_ipv6() == other.is_ipv6()
            && two(self) == two(other)
            && self.interface == other.interface
            && self.owner == other.owner
            && self.virtual_mac == other.virtual_mac
    }
}

/// Whether an address is only on its link: every interface has such a prefix.
pub(crate) fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

impl Coded for SpecError {
    fn problem(&self) -> Problem {
        let (code, name) = match self {
            Self::Count { name, .. } => (Code::ConfigOutOfRange, name),
            Self::Config { name, source } => match source {
                ConfigError::Owner => (Code::VipNotOwner, name),
                ConfigError::LowPriority(_) | ConfigError::TooLong => {
                    (Code::ConfigOutOfRange, name)
                }
                ConfigError::Unhealthy { .. }
                | ConfigError::VersionTwoIpv6
                | ConfigError::VersionTwoInterval
                | ConfigError::OwnerFollows
                | ConfigError::OwnerVirtual
                | ConfigError::NoPeer
                | ConfigError::BadPeer(_)
                | ConfigError::OtherRouter => (Code::ConfigRule, name),
            },
        };
        let mut problem = Problem::new(code, self.to_string())
            .object(format!("vips/{name}"))
            .consequence("this VIP is not served by this host")
            .fix(Fix::text("correct the VIP in the configuration").command("kedge config check"));
        if let Some(source) = std::error::Error::source(self) {
            problem = problem.caused_by(source);
        }
        problem
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spec(name: &str, address: &str) -> VipSpec {
        let address: IpAddr = address.parse().unwrap();
        let (vrid, priority) = (Vrid::derive(address), Priority::new(254).unwrap());
        VipSpec::new(name.parse().unwrap(), vec![address], vrid, priority)
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_a_code() {
        let good = spec("api", "10.20.14.10");
        assert_eq!(good.check(), Ok(()));
        let code = |change: &dyn Fn(&mut VipSpec)| {
            let mut bad = good.clone();
            change(&mut bad);
            let problem = bad.check().unwrap_err().problem();
            assert_eq!(problem.object, "vips/api");
            problem.code
        };
        let two = Version::Two { password: None };
        assert_eq!(code(&|bad| bad.version = two), Code::ConfigRule);
        let v6 = "fd00::1".parse().unwrap();
        assert_eq!(code(&|bad| bad.unicast_peers.push(v6)), Code::ConfigRule);
        assert_eq!(code(&|bad| bad.addresses.clear()), Code::ConfigOutOfRange);
        assert_eq!(code(&|bad| bad.owner = true), Code::VipNotOwner);
        assert_eq!(
            code(&|bad| bad.priority = Priority::OWNER),
            Code::VipNotOwner
        );
        let low = Priority::new(100).unwrap();
        assert_eq!(code(&|bad| bad.priority = low), Code::ConfigOutOfRange);
        let unhealthy = Priority::OWNER;
        assert_eq!(
            code(&|bad| bad.members = Members::Mixed { unhealthy }),
            Code::ConfigRule
        );
    }

    #[test]
    fn the_family_of_the_first_address_is_advertised_and_the_other_goes_along() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let mut dual = spec("api", "10.20.14.10");
        dual.addresses.push(ip("fd00::10"));
        dual.addresses.push(ip("10.20.14.20"));
        dual.excluded.push(ip("10.20.14.30"));
        let config = dual.config(Duration::ZERO).unwrap();
        let advertised = [ip("10.20.14.10"), ip("10.20.14.20")];
        assert_eq!(config.addresses.iter().collect::<Vec<_>>(), advertised);
        assert_eq!(*config.excluded, [ip("fd00::10"), ip("10.20.14.30")]);
        assert_eq!(dual.on_link(), Some(ip("10.20.14.10")));
    }

    #[test]
    fn a_link_local_address_is_advertised_first_and_chooses_no_interface() {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let mut six = spec("api", "fd00::10");
        six.addresses.push(ip("fe80::10"));
        let config = six.config(Duration::ZERO).unwrap();
        let advertised: Vec<IpAddr> = config.addresses.iter().collect();
        assert_eq!(advertised, [ip("fe80::10"), ip("fd00::10")]);
        six.addresses.reverse();
        assert_eq!(six.on_link(), Some(ip("fd00::10")));
    }
}
