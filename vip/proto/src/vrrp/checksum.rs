//! Which checksum to send.

use std::{net::IpAddr, time::Duration};

use kedge_core::Instant;

use super::Peer;
use crate::wire::checksum::{Form, Forms};

/// Which checksum to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChecksumPolicy {
    /// The pseudo-header form, and both forms once a peer turns out to need the other one.
    #[default]
    Auto,
    /// RFC 9568: the message alone.
    Message,
    /// RFC 5798: message and pseudo-header.
    PseudoHeader,
}

/// What the peers taught us about checksums.
///
/// Silence teaches nothing: Backups are silent, and one that refuses our form would become a
/// second Active when the present one dies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Checksums {
    /// A peer that sends the message form; such a peer may accept nothing else.
    message_peer: Option<IpAddr>,
    /// A peer that went on as Active although our pseudo-header adverts beat it.
    deaf_peer: Option<IpAddr>,
    /// The peer that is ignoring us at present.
    ignoring: Option<Ignoring>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ignoring {
    peer: IpAddr,
    since: Instant,
    last: Instant,
}

/// What a lower advert of a peer means that should have heard us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ignored {
    /// Nothing yet: our answer may be on its way.
    NotYet,
    /// It is time to try the other form as well.
    TryBoth,
    /// Nothing that could be tried helps.
    For(Duration),
}

impl Checksums {
    /// The forms to send, in order.
    pub(super) fn forms(&self, policy: ChecksumPolicy) -> (Form, Option<Form>) {
        match policy {
            ChecksumPolicy::Message => (Form::Message, None),
            ChecksumPolicy::PseudoHeader => (Form::PseudoHeader, None),
            ChecksumPolicy::Auto => (
                Form::PseudoHeader,
                self.sends_both(policy).then_some(Form::Message),
            ),
        }
    }

    /// Sends both forms from here on, as one before us had to.
    pub(super) fn need_both(&mut self, peer: IpAddr) {
        self.deaf_peer = Some(peer);
    }

    pub(super) fn sends_both(&self, policy: ChecksumPolicy) -> bool {
        policy == ChecksumPolicy::Auto && (self.message_peer.is_some() || self.deaf_peer.is_some())
    }

    /// Learns from an advert of `peer`.
    pub(super) fn heard(&mut self, peer: IpAddr, forms: Forms) {
        match forms {
            Forms::Message => self.message_peer = Some(peer),
            Forms::PseudoHeader if self.message_peer == Some(peer) => self.message_peer = None,
            Forms::PseudoHeader | Forms::Both => {}
        }
    }

    /// Learns from a lower advert of `peer` that arrived while we are Active.
    pub(super) fn ignored(
        &mut self,
        now: Instant,
        peer: &Peer,
        own: Duration,
        policy: ChecksumPolicy,
    ) -> Ignored {
        let interval = peer.interval.duration().max(own);
        let begun = self
            .ignoring
            .filter(|known| known.peer == peer.address && now.since(known.last) <= interval * 3);
        let since = begun.map_or(now, |known| known.since);
        self.ignoring = Some(Ignoring {
            peer: peer.address,
            since,
            last: now,
        });
        let lasts = now.since(since);
        if policy == ChecksumPolicy::Auto && self.deaf_peer != Some(peer.address) {
            if lasts <= interval * PATIENCE {
                return Ignored::NotYet;
            }
            self.deaf_peer = Some(peer.address);
            return Ignored::TryBoth;
        }
        if lasts <= interval * HOPELESS {
            Ignored::NotYet
        } else {
            Ignored::For(lasts)
        }
    }
}

/// Intervals after which the other form is tried.
const PATIENCE: u32 = 2;
/// Intervals after which people are told.
const HOPELESS: u32 = 10;
