//! Telling people once, not with every packet.

use std::{net::IpAddr, time::Duration};

use kedge_core::Instant;

use super::Notice;
use crate::{auth, wire::Mac};

/// Which notices were given lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Notices {
    given: [Option<(Key, Instant)>; 8],
}

/// What makes two notices the same for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    ForeignClaim(Mac, bool),
    Unheard(IpAddr, bool),
    VridInUse(Mac),
    AddressesDiffer(IpAddr),
    IntervalDiffers(IpAddr),
    IntervalRefused(IpAddr),
    OtherDelivery(IpAddr),
    UnknownPeer(IpAddr),
    TooFar(IpAddr),
    VersionDiffers(IpAddr),
    PasswordDiffers(IpAddr),
    Unverified(Mac, auth::Reject),
    AuthMismatch(Mac),
    DuplicateRouter(Mac),
    SecondOwner(Mac),
    Unproven,
    BothChecksums(IpAddr),
}

impl Notices {
    /// Whether `notice` is news; if so it is remembered, in place of the oldest one.
    pub(super) fn is_news(&mut self, now: Instant, notice: &Notice) -> bool {
        let key = key(notice);
        let known = |slot: &Option<(Key, Instant)>| {
            slot.is_some_and(|(given, at)| given == key && now.since(at) < AGAIN)
        };
        if self.given.iter().any(known) {
            return false;
        }
        // One that is given again is older than a minute, and so among the first to go.
        let given_at = |slot: &&mut Option<(Key, Instant)>| slot.map(|(_, at)| at);
        let oldest = self.given.iter_mut().min_by_key(given_at);
        if let Some(slot) = oldest {
            *slot = Some((key, now));
        }
        true
    }
}

fn key(notice: &Notice) -> Key {
    match notice {
        Notice::ForeignClaim {
            mac, persistent, ..
        } => Key::ForeignClaim(*mac, *persistent),
        Notice::Unheard {
            peer, both_forms, ..
        } => Key::Unheard(peer.address, *both_forms),
        Notice::VridInUse { mac, .. } => Key::VridInUse(*mac),
        Notice::AddressesDiffer { src, .. } => Key::AddressesDiffer(*src),
        Notice::IntervalDiffers { src, .. } => Key::IntervalDiffers(*src),
        Notice::IntervalRefused { src, .. } => Key::IntervalRefused(*src),
        Notice::OtherDelivery { src, .. } => Key::OtherDelivery(*src),
        Notice::UnknownPeer { src } => Key::UnknownPeer(*src),
        Notice::TooFar { src, .. } => Key::TooFar(*src),
        Notice::VersionDiffers { src, .. } => Key::VersionDiffers(*src),
        Notice::PasswordDiffers { src, .. } => Key::PasswordDiffers(*src),
        Notice::Unverified { mac, why, .. } => Key::Unverified(*mac, *why),
        Notice::AuthMismatch { mac, .. } => Key::AuthMismatch(*mac),
        Notice::DuplicateRouter { mac, .. } => Key::DuplicateRouter(*mac),
        Notice::SecondOwner { mac, .. } => Key::SecondOwner(*mac),
        Notice::Unproven { .. } => Key::Unproven,
        Notice::BothChecksums { peer } => Key::BothChecksums(*peer),
    }
}

/// The same notice is repeated at most this often.
const AGAIN: Duration = Duration::from_secs(60);
