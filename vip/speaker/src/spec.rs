//! What a VIP is configured with.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use kedge_core::{
    Code, Coded, Fix, Name, Problem,
    vip::{AdvertInterval, Priority, Vrid},
};
use kedge_vip_proto::{
    vrrp::{ChecksumPolicy, Config, ConfigError, Members},
    wire::{Addresses, addresses::BadCount},
};

/// One VIP as the agent wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipSpec {
    /// Its name.
    pub name: Name,
    /// Its addresses; all of them stand on the interface of the first.
    pub addresses: Vec<IpAddr>,
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
    /// Who else takes part.
    pub members: Members,
    /// Which checksum to send.
    pub checksum: ChecksumPolicy,
    /// Whether health decides about the priority.
    pub gated: bool,
    /// Whether nobody on this host ever held it: look for a foreign owner first.
    pub first_claim: bool,
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
        source: BadCount,
    },
    /// An IPv6 address.
    #[error("the VIP {name} has the IPv6 address {address}, and only IPv4 is spoken")]
    Ipv6 {
        /// The VIP.
        name: Name,
        /// The address.
        address: IpAddr,
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
    /// Whether it can be run, wherever its interface is.
    ///
    /// # Errors
    ///
    /// See [`SpecError`].
    pub fn check(&self) -> Result<(), SpecError> {
        self.config(Config::LINK_UP_WAIT).map(drop)
    }

    /// Its addresses, if all are IPv4.
    pub(crate) fn ipv4(&self) -> Result<Vec<Ipv4Addr>, SpecError> {
        self.addresses
            .iter()
            .map(|address| match address {
                IpAddr::V4(v4) => Ok(*v4),
                IpAddr::V6(_) => Err(SpecError::Ipv6 {
                    name: self.name.clone(),
                    address: *address,
                }),
            })
            .collect()
    }

    pub(crate) fn config(&self, link_up_wait: Duration) -> Result<Config, SpecError> {
        let name = || self.name.clone();
        let addresses = Addresses::new(&self.ipv4()?).map_err(|source| SpecError::Count {
            name: name(),
            source,
        })?;
        let config = Config {
            owner: self.owner,
            interval: self.interval,
            preempt: self.preempt,
            members: self.members,
            gated: self.gated,
            checksum: self.checksum,
            first_claim: self.first_claim,
            link_up_wait,
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
        self.vrid == other.vrid && self.interface == other.interface && self.owner == other.owner
    }
}

impl Coded for SpecError {
    fn problem(&self) -> Problem {
        let (code, name) = match self {
            Self::Count { name, .. } | Self::Ipv6 { name, .. } => (Code::ConfigOutOfRange, name),
            Self::Config { name, source } => match source {
                ConfigError::Owner => (Code::VipNotOwner, name),
                ConfigError::LowPriority(_) => (Code::ConfigOutOfRange, name),
                ConfigError::Unhealthy { .. } | ConfigError::VridChanged { .. } => {
                    (Code::ConfigRule, name)
                }
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
        VipSpec {
            name: name.parse().unwrap(),
            addresses: vec![address],
            vrid: Vrid::derive(address),
            priority: Priority::new(254).unwrap(),
            owner: false,
            interval: AdvertInterval::DEFAULT,
            interface: None,
            preempt: false,
            members: Members::Kedge,
            checksum: ChecksumPolicy::Auto,
            gated: false,
            first_claim: false,
        }
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
        let v6 = "fd00::1".parse().unwrap();
        assert_eq!(code(&|bad| bad.addresses.push(v6)), Code::ConfigOutOfRange);
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
}
