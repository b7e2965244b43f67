//! What a virtual router is configured with.

use std::{net::IpAddr, sync::Arc, time::Duration};

use kedge_core::vip::{AdvertInterval, Priority, Vrid};

use super::{ChecksumPolicy, Peers};
use crate::{
    claim::Place,
    wire::{Addresses, Mac, vrrp::Version},
};

/// The configuration of one virtual router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The virtual router identifier; another one is another router.
    pub vrid: Vrid,
    /// The protocol version, the same on all members.
    pub version: Version,
    /// The addresses, in the order in which they are advertised.
    pub addresses: Addresses,
    /// Addresses of any family that go with them and are not advertised (keepalived's
    /// `virtual_ipaddress_excluded`).
    pub excluded: Arc<[IpAddr]>,
    /// Where adverts go, and whose count.
    pub peers: Peers,
    /// The priority while healthy; 255 exactly when `owner`.
    pub priority: Priority,
    /// Whether the addresses are the interface's own (RFC 9568 "Address Owner").
    pub owner: bool,
    /// The advertisement interval while Active.
    pub interval: AdvertInterval,
    /// Whether a Backup takes over from an Active of lower priority.
    pub preempt: bool,
    /// How long after start or link-up `preempt` begins to count.
    pub preempt_delay: Duration,
    /// Who the other members are, which decides the meaning of low priorities.
    pub members: Members,
    /// Whether a health gate decides between the base priority and the unhealthy one.
    pub gated: bool,
    /// Whether another router of this host elects for it: then it does what [`Input::Lead`] says.
    ///
    /// [`Input::Lead`]: super::Input::Lead
    pub follows: bool,
    /// Whether the addresses are at the hardware address of the virtual router, which every member
    /// that is Active uses, and not at the interface's own (RFC 9568 section 7.3).
    pub virtual_mac: bool,
    /// Which checksum to send.
    pub checksum: ChecksumPolicy,
    /// Whether nobody on this host ever held the VIP: probe for a foreign owner first.
    pub first_claim: bool,
    /// Whether packets for the addresses are looked for after each take-over.
    pub proves: bool,
    /// After start, how long to wait at most for a frame from another station before claiming:
    /// behind a switch port that does not forward yet a deaf host would be a second owner.
    pub startup_wait: Duration,
    /// The same after the link came up.
    pub link_up_wait: Duration,
    /// Whether nothing but a fault may move the VIP: no health, no preemption, no operator.
    pub frozen: bool,
    /// Whether this host takes the VIP only when nobody else does, at the lowest priority there is.
    pub drained: bool,
}

impl Config {
    /// Thirty seconds, twice the forward delay of the spanning tree protocol.
    pub const LINK_UP_WAIT: Duration = Duration::from_secs(30);

    /// A configuration with every default: version 3 to the group, members are Kedge, no health
    /// gate, no preemption, 100 ms adverts, checksum learned, no first-claim probes, no proof.
    #[must_use]
    pub fn new(vrid: Vrid, addresses: Addresses, priority: Priority) -> Self {
        Self {
            vrid,
            version: Version::Three,
            addresses,
            excluded: Arc::default(),
            peers: Peers::Group,
            priority,
            owner: false,
            interval: AdvertInterval::DEFAULT,
            preempt: false,
            preempt_delay: Duration::ZERO,
            members: Members::Kedge,
            gated: false,
            follows: false,
            virtual_mac: false,
            checksum: ChecksumPolicy::Auto,
            first_claim: false,
            proves: false,
            startup_wait: Self::LINK_UP_WAIT,
            link_up_wait: Self::LINK_UP_WAIT,
            frozen: false,
            drained: false,
        }
    }

    /// The rules that span several fields.
    ///
    /// # Errors
    ///
    /// See [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let priority = self.priority.get();
        if self.owner != (self.priority == Priority::OWNER) {
            return Err(ConfigError::Owner);
        }
        if self.owner && self.follows {
            return Err(ConfigError::OwnerFollows);
        }
        if self.owner && self.virtual_mac {
            return Err(ConfigError::OwnerVirtual);
        }
        self.check_version()?;
        self.peers.check(&self.addresses)?;
        match self.members {
            Members::Kedge if !self.owner && priority < LOWEST_BASE => {
                Err(ConfigError::LowPriority(self.priority))
            }
            Members::Mixed { unhealthy } if unhealthy >= self.priority => {
                Err(ConfigError::Unhealthy {
                    unhealthy,
                    priority: self.priority,
                })
            }
            Members::Kedge | Members::Mixed { .. } => Ok(()),
        }
    }

    fn check_version(&self) -> Result<(), ConfigError> {
        let ipv6 = self.addresses.is_ipv6();
        if ipv6 && usize::from(self.addresses.count()) > MOST_IPV6 {
            return Err(ConfigError::TooLong);
        }
        match self.version {
            Version::Three => Ok(()),
            Version::Two { .. } if ipv6 => Err(ConfigError::VersionTwoIpv6),
            Version::Two { .. } if !self.interval.centis().is_multiple_of(100) => {
                Err(ConfigError::VersionTwoInterval)
            }
            Version::Two { .. } => Ok(()),
        }
    }

    /// Where its addresses are announced, on an interface with the hardware address `own`.
    pub(super) const fn place(&self, own: Mac) -> Place {
        if self.virtual_mac {
            Place::Virtual(self.vrid)
        } else {
            Place::Interface(own)
        }
    }

    /// Every address that this router holds while Active: those that are advertised, then the
    /// others.
    pub fn held(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let beside = self.excluded.iter().copied();
        self.addresses.iter().chain(beside)
    }

    /// Whether `address` is one of those.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        self.addresses.contains(address) || self.excluded.contains(&address)
    }
}

/// Who else is a member of the virtual router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// Kedge only: base priorities are 192 to 254 and 1 to 63 are the same routers unhealthy.
    Kedge,
    /// Other implementations too: any priority, and this one while unhealthy.
    Mixed {
        /// The priority while not healthy.
        unhealthy: Priority,
    },
}

/// A configuration that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Priority 255 and ownership of the address come together (RFC 9568 section 5.2.4).
    #[error("priority 255 is for the owner of the address, and the owner has no other")]
    Owner,
    /// The owner of the address elects nobody and follows nobody.
    #[error("the owner of the address moves with no other VIP")]
    OwnerFollows,
    /// The owner's address is the interface's own, and so is its hardware address.
    #[error("the owner of the address has it at the interface's own hardware address")]
    OwnerVirtual,
    /// Among Kedge members 192 is the lowest base priority.
    #[error("priority {0} is below 192; with `members: mixed` it may be 1 to 254")]
    LowPriority(Priority),
    /// An unhealthy router must not beat itself healthy.
    #[error("the unhealthy priority {unhealthy} is not below the priority {priority}")]
    Unhealthy {
        /// The priority while unhealthy.
        unhealthy: Priority,
        /// The priority while healthy.
        priority: Priority,
    },
    /// Version 2 is for IPv4 (RFC 3768 section 5.3.9).
    #[error("VRRP version 2 has IPv4 addresses only")]
    VersionTwoIpv6,
    /// Version 2 counts whole seconds (RFC 3768 section 5.3.7).
    #[error("the advertisement interval of VRRP version 2 is whole seconds, 1s to 40s")]
    VersionTwoInterval,
    /// An IPv6 packet is not fragmented on its way out.
    #[error(
        "an advertisement has room for {MOST_IPV6} IPv6 addresses; the others can go with it \
         without being advertised"
    )]
    TooLong,
    /// Unicast without anybody to send to.
    #[error("unicast needs at least one peer")]
    NoPeer,
    /// An address nobody can be reached at, or of the other family.
    #[error("the unicast peer {0} is no address of a router in the family of the VIP")]
    BadPeer(IpAddr),
    /// Another VRID, version, family or kind of hardware address is another router.
    #[error(
        "a running router cannot change its VRID, version, address family or kind of hardware address"
    )]
    OtherRouter,
}

/// The lowest base priority among Kedge members; what lies below is unhealthy.
pub(super) const LOWEST_BASE: u8 = 192;
/// What fits 1500 bytes beside the IPv6 header, the VRRP header and an authentication trailer.
const MOST_IPV6: usize = (1500 - 40 - 8 - 28) / 16;
