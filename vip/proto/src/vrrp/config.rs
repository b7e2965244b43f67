//! What a virtual router is configured with.

use std::time::Duration;

use kedge_core::vip::{AdvertInterval, Priority, Vrid};

use super::ChecksumPolicy;
use crate::wire::Addresses;

/// The configuration of one virtual router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The virtual router identifier; another one is another router.
    pub vrid: Vrid,
    /// The addresses, in the order in which they are advertised.
    pub addresses: Addresses,
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
    /// Which checksum to send.
    pub checksum: ChecksumPolicy,
    /// Whether nobody on this host ever held the VIP: probe for a foreign owner first.
    pub first_claim: bool,
    /// After start or link-up, how long to wait at most for a frame from another station before
    /// claiming: behind a switch port that does not forward yet a deaf host would be a second
    /// owner.
    pub link_up_wait: Duration,
}

impl Config {
    /// Thirty seconds, twice the forward delay of the spanning tree protocol.
    pub const LINK_UP_WAIT: Duration = Duration::from_secs(30);

    /// A configuration with every default: members are Kedge, no health gate, no preemption,
    /// 100 ms adverts, checksum learned, no first-claim probes.
    #[must_use]
    pub const fn new(vrid: Vrid, addresses: Addresses, priority: Priority) -> Self {
        Self {
            vrid,
            addresses,
            priority,
            owner: false,
            interval: AdvertInterval::DEFAULT,
            preempt: false,
            preempt_delay: Duration::ZERO,
            members: Members::Kedge,
            gated: false,
            checksum: ChecksumPolicy::Auto,
            first_claim: false,
            link_up_wait: Self::LINK_UP_WAIT,
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
    /// Another VRID is another router.
    #[error("a running router cannot change its VRID from {from} to {to}")]
    VridChanged {
        /// The running router's.
        from: Vrid,
        /// The one that was asked for.
        to: Vrid,
    },
}

/// The lowest base priority among Kedge members; what lies below is unhealthy.
pub(super) const LOWEST_BASE: u8 = 192;
