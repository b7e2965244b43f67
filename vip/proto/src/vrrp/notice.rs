//! Something wrong or unusual on the LAN, as people are told.

use std::{fmt, net::IpAddr, time::Duration};

use kedge_core::vip::{AdvertInterval, Vrid};

use super::{Peer, event::Seconds};
use crate::{
    auth,
    wire::{Addresses, Mac},
};

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
    /// Whoever advertises without proof holds the address: nobody else was heard, and it is left to
    /// him.
    AuthMismatch {
        /// Where he says he advertises from.
        src: IpAddr,
        /// His hardware address.
        mac: Mac,
        /// The address that he answers for.
        address: IpAddr,
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
    /// Nothing for our addresses arrives here, not even the answer of the link's router.
    Unproven {
        /// The addresses.
        addresses: Addresses,
        /// For how long they have been held.
        since: Duration,
    },
    /// From here on both checksum forms are sent.
    BothChecksums {
        /// The peer that made it necessary.
        peer: IpAddr,
    },
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
            Self::AuthMismatch { src, mac, address } => {
                write!(
                    f,
                    "{src} ({mac}) holds {address}, and its adverts prove nothing: the VIP is left \
                     to it"
                )
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
            Self::Unproven { addresses, since } => write!(
                f,
                "nothing for {addresses} has arrived since this host took it {} ago, and the \
                 router that was asked from there did not answer",
                Seconds(*since)
            ),
            Self::BothChecksums { peer } => {
                write!(f, "{peer} needs the other checksum form, so both are sent")
            }
        }
    }
}
