//! What a virtual router tells people, and why.

use std::{fmt, net::IpAddr, time::Duration};

use kedge_core::{
    Instant,
    vip::{AdvertInterval, Priority, RouterState, Vrid},
};

use super::{LinkLoss, Peer, Verdict, input::AddressRefused};
use crate::{
    auth,
    wire::{Addresses, Mac},
};

/// Something people care about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The state changed.
    State {
        /// The state before.
        from: RouterState,
        /// The state after.
        to: RouterState,
        /// Why.
        because: Because,
    },
    /// The effective priority changed.
    Priority {
        /// The priority before.
        from: Priority,
        /// The priority after.
        to: Priority,
        /// Why.
        because: Because,
    },
    /// Something is wrong or unusual on the LAN; repeated at most once a minute.
    Notice(Notice),
}

/// Why a virtual router did something: renders to a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// The agent started the router.
    Started,
    /// The agent stopped the router while it held nothing.
    Stopped,
    /// The address is the interface's own, so no election is needed.
    OwnsAddress,
    /// The Active was not heard for its whole down interval.
    Silence {
        /// The Active that fell silent.
        peer: Peer,
        /// How long it has not been heard.
        since: Duration,
    },
    /// Nobody was heard at all since this router began to listen.
    NobodyHeard {
        /// How long it listened.
        since: Duration,
    },
    /// The Active said that it leaves.
    Goodbye {
        /// The Active that leaves.
        peer: Peer,
    },
    /// The Active advertises a lower priority and preemption is on.
    Preempted {
        /// The Active that was overruled.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// The Active is not healthy, and this host's service has just answered.
    Unhealthy {
        /// The Active that was overruled.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// Another Active has a better claim.
    Better {
        /// The other Active.
        peer: Peer,
        /// Our priority.
        own: Priority,
    },
    /// This host was not scheduled for so long that another one may have taken over.
    Stalled {
        /// Time since our last advert.
        gap: Duration,
    },
    /// The link cannot be used.
    LinkDown(LinkLoss),
    /// The link can be used again.
    LinkUp,
    /// Another host answers for an address of ours, and it is no VRRP router.
    AddressInUse {
        /// The address.
        address: IpAddr,
        /// Who answers.
        mac: Mac,
    },
    /// Nobody answers for the addresses any more.
    AddressFree,
    /// The host that answered for an address is served by an Active that is heard.
    Served {
        /// The Active.
        peer: Peer,
    },
    /// The kernel did not take an address.
    Refused(AddressRefused),
    /// Time to try again after a refusal by the kernel.
    Retry,
    /// The agent was told to leave.
    Leaving,
    /// The agent was told to give the VIP away.
    HandingOver,
    /// A successor holds the VIP.
    Succeeded {
        /// The successor.
        peer: Peer,
    },
    /// Nobody took the VIP within the time any Backup needs.
    NoSuccessor,
    /// The health gate said so.
    Health(Verdict),
    /// The configuration changed.
    Configured,
}

/// Something wrong or unusual on the LAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Another host claims an address of ours while we hold it.
    ForeignClaim {
        /// The address.
        address: IpAddr,
        /// Who claims it.
        mac: Mac,
        /// How often so far, within this dispute.
        claims: u32,
        /// Whether the claimer goes on after three of our answers.
        persistent: bool,
    },
    /// A peer goes on advertising a lower priority although every advert was answered: it does
    /// not hear us, or refuses our checksum, version or authentication.
    Unheard {
        /// The peer.
        peer: Peer,
        /// How long it has been going on.
        since: Duration,
        /// Whether both checksum forms were tried.
        both_forms: bool,
    },
    /// A router with none of our addresses uses our VRID.
    VridInUse {
        /// The VRID.
        vrid: Vrid,
        /// The stranger's address.
        src: IpAddr,
        /// The stranger's hardware address.
        mac: Mac,
        /// What it advertises.
        addresses: Addresses,
    },
    /// A member advertises another address list than ours.
    AddressesDiffer {
        /// The member.
        src: IpAddr,
        /// What it advertises.
        theirs: Addresses,
        /// What we are configured with.
        ours: Addresses,
    },
    /// A member advertises at another interval than ours; it is learned.
    IntervalDiffers {
        /// The member.
        src: IpAddr,
        /// What it advertises.
        theirs: AdvertInterval,
        /// What we are configured with.
        ours: AdvertInterval,
    },
    /// A router advertises at another interval than ours, which version 2 does not learn.
    IntervalRefused {
        /// The router.
        src: IpAddr,
        /// What it advertises.
        theirs: AdvertInterval,
        /// What we are configured with.
        ours: AdvertInterval,
    },
    /// A router sends to the group where we send to peers, or the other way round.
    OtherDelivery {
        /// The router.
        src: IpAddr,
        /// Whether it sends to the group.
        to_group: bool,
    },
    /// A router that is none of our unicast peers sends us adverts.
    UnknownPeer {
        /// The router.
        src: IpAddr,
    },
    /// A unicast peer's adverts come from further away than `min_ttl` allows.
    TooFar {
        /// The peer.
        src: IpAddr,
        /// The TTL they arrive with.
        ttl: u8,
        /// The lowest we accept.
        min_ttl: u8,
    },
    /// A router speaks another protocol version.
    VersionDiffers {
        /// The router.
        src: IpAddr,
        /// Its version: 2 or 3.
        theirs: u8,
    },
    /// A router of version 2 has another password than ours.
    PasswordDiffers {
        /// The router.
        src: IpAddr,
        /// Whether it has one at all.
        has_one: bool,
    },
    /// An advert for our VRID whose trailer proves nothing.
    Unverified {
        /// Where it says it comes from.
        src: IpAddr,
        /// The station that sent it.
        mac: Mac,
        /// What is wrong with its trailer.
        why: auth::Reject,
    },
    /// Another host advertises with our source address and our priority.
    DuplicateRouter {
        /// The address both use.
        src: IpAddr,
        /// The other's hardware address.
        mac: Mac,
    },
    /// A second router says that it owns the address (priority 255).
    SecondOwner {
        /// The other.
        src: IpAddr,
        /// Its hardware address.
        mac: Mac,
    },
    /// From here on both checksum forms are sent.
    BothChecksums {
        /// The peer that made it necessary.
        peer: IpAddr,
    },
}

/// What a Backup waits for beside the Active's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The first-claim probes of the address.
    FirstClaim {
        /// When they end.
        until: Instant,
    },
    /// A frame from another station.
    Frame {
        /// When the wait ends anyway.
        until: Instant,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("the agent started"),
            Self::Stopped => f.write_str("the agent stopped taking part"),
            Self::OwnsAddress => f.write_str("the address is the interface's own"),
            Self::Silence { peer, since } => {
                write!(f, "{peer} has not been heard for {}", Seconds(*since))
            }
            Self::NobodyHeard { since } => {
                write!(f, "no other router was heard for {}", Seconds(*since))
            }
            Self::Goodbye { peer } => write!(f, "{} said that it leaves", peer.address),
            Self::Preempted { peer, own } => {
                write!(f, "{peer} is below our priority {own} and preemption is on")
            }
            Self::Unhealthy { peer, own } => write!(
                f,
                "{peer} is not healthy, and this host (priority {own}) has just answered its probe"
            ),
            Self::Better { peer, own } => write!(f, "{peer} beats our priority {own}"),
            Self::Stalled { gap } => {
                write!(
                    f,
                    "this host sent no advert for {}, so another may hold it",
                    Seconds(*gap)
                )
            }
            Self::LinkDown(loss) => loss.fmt(f),
            Self::LinkUp => f.write_str("the link is up"),
            Self::AddressInUse { address, mac } => {
                write!(f, "{mac} answers for {address} and is no VRRP router")
            }
            Self::AddressFree => f.write_str("nobody else answers for the address any more"),
            Self::Served { peer } => {
                write!(
                    f,
                    "{peer} is the Active, so its answer for the address was no conflict"
                )
            }
            Self::Refused(refused) => refused.fmt(f),
            Self::Retry => f.write_str("it is time to try again"),
            Self::Leaving => f.write_str("the agent was told to leave"),
            Self::HandingOver => f.write_str("the VIP is being handed over"),
            Self::Succeeded { peer } => write!(f, "{peer} took over"),
            Self::NoSuccessor => f.write_str("no other router took over"),
            Self::Health(verdict) => verdict.fmt(f),
            Self::Configured => f.write_str("the configuration changed"),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignClaim {
                address,
                mac,
                claims,
                persistent,
            } => {
                write!(
                    f,
                    "{mac} claims {address} while we hold it (claim {claims})"
                )?;
                if *persistent {
                    f.write_str(" and does not give in")
                } else {
                    Ok(())
                }
            }
            Self::Unheard {
                peer,
                since,
                both_forms,
            } => {
                write!(
                    f,
                    "{peer} has ignored our adverts for {}: it does not hear us, or refuses our ",
                    Seconds(*since)
                )?;
                f.write_str(if *both_forms {
                    "version"
                } else {
                    "checksum, version"
                })?;
                f.write_str(" or authentication")
            }
            Self::VridInUse {
                vrid,
                src,
                mac,
                addresses,
            } => {
                write!(f, "{src} ({mac}) uses VRID {vrid} for {addresses}")
            }
            Self::AddressesDiffer { src, theirs, ours } => {
                write!(
                    f,
                    "{src} advertises {theirs}, we are configured with {ours}"
                )
            }
            Self::IntervalDiffers { src, theirs, ours } => write!(
                f,
                "{src} advertises every {}, we are configured with {}",
                Seconds(theirs.duration()),
                Seconds(ours.duration())
            ),
            Self::IntervalRefused { src, theirs, ours } => write!(
                f,
                "{src} advertises every {}, we are configured with {}, and version 2 learns no \
                 interval",
                Seconds(theirs.duration()),
                Seconds(ours.duration())
            ),
            Self::OtherDelivery {
                src,
                to_group: true,
            } => {
                write!(
                    f,
                    "{src} advertises to the group, and we take adverts of unicast peers only"
                )
            }
            Self::OtherDelivery {
                src,
                to_group: false,
            } => {
                write!(
                    f,
                    "{src} advertises to this host alone, and we take adverts to the group only"
                )
            }
            Self::UnknownPeer { src } => {
                write!(
                    f,
                    "{src} advertises to this host and is none of its unicast peers"
                )
            }
            Self::TooFar { src, ttl, min_ttl } => {
                write!(
                    f,
                    "{src} advertises with TTL {ttl}, and `min_ttl` is {min_ttl}"
                )
            }
            Self::VersionDiffers { src, theirs } => {
                write!(f, "{src} speaks VRRP version {theirs}, and we do not")
            }
            Self::PasswordDiffers { src, has_one: true } => {
                write!(f, "{src} advertises with a password that is not ours")
            }
            Self::PasswordDiffers {
                src,
                has_one: false,
            } => {
                write!(f, "{src} advertises without a password, and we have one")
            }
            Self::Unverified { src, mac, why } => {
                write!(f, "{src} ({mac}) advertises for our VRID: {why}")
            }
            Self::DuplicateRouter { src, mac } => {
                write!(
                    f,
                    "{mac} advertises with our address {src} and our priority"
                )
            }
            Self::SecondOwner { src, mac } => {
                write!(f, "{src} ({mac}) also says that the address is its own")
            }
            Self::BothChecksums { peer } => {
                write!(f, "{peer} needs the other checksum form, so both are sent")
            }
        }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            write!(f, "{} ms", self.0.as_millis())
        } else {
            write!(f, "{}.{} s", self.0.as_secs(), self.0.subsec_millis() / 100)
        }
    }
}
