//! Verifying the adverts of others.

use super::{
    AntiReplay, Config, Identity, KeyId, Malformed, Mark, Senders, Stamp, Trailer, Window,
    marks::{Marks, UnknownSender},
    tag,
};

/// Verifies the adverts of one virtual router, and remembers what each sender said last.
#[derive(Clone, Debug)]
pub struct Verifier {
    config: Config,
    marks: Marks,
}

/// An advert that may be acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verified {
    /// It has no trailer, and the mode lets it pass.
    Bare,
    /// Its trailer is right.
    Signed {
        /// The key it was signed with.
        key: KeyId,
        /// When the sender's clock uses up more than half of the window that applies: the seconds
        /// by which it is behind ours, negative when it is ahead. Worth a warning.
        skew: Option<i32>,
    },
}

/// Why an advert may not be acted upon; also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reject {
    /// Signed by an address that is none of the unicast peers.
    #[error("the sender of the signed advertisement is none of the unicast peers")]
    UnknownSender,
    /// The trailer is of another type, or its reserved bits are in use.
    #[error("the advertisement's trailer is malformed")]
    Malformed,
    /// The clocks differ by more than the window.
    #[error("the advertisement was signed outside of the time window")]
    Stale,
    /// No key has that number.
    #[error("the advertisement is signed with a key that is not configured")]
    UnknownKey,
    /// The tag is wrong: another key, or other bytes than were signed.
    #[error("the advertisement's signature is wrong")]
    BadHmac,
    /// The sender already said something newer, or this.
    #[error("the advertisement is a replay")]
    Replay,
    /// There is no trailer, and the mode asks for one.
    #[error("the advertisement is not signed")]
    Missing,
}

impl Reject {
    /// The `reason` label of the counter of dropped adverts.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownSender => "auth_sender",
            Self::Malformed => "auth_malformed",
            Self::Stale => "auth_stale",
            Self::UnknownKey => "auth_key",
            Self::BadHmac => "auth_bad",
            Self::Replay => "auth_replay",
            Self::Missing => "auth_missing",
        }
    }
}

impl From<Malformed> for Reject {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<UnknownSender> for Reject {
    fn from(UnknownSender: UnknownSender) -> Self {
        Self::UnknownSender
    }
}

impl Verifier {
    /// A verifier that has heard nobody.
    #[must_use]
    pub fn new(config: Config, senders: Senders) -> Self {
        Self {
            config,
            marks: Marks::new(senders),
        }
    }

    /// Takes over another configuration; who stays a sender keeps its mark.
    pub fn reconfigure(&mut self, config: Config, senders: Senders) {
        let old = std::mem::replace(&mut self.marks, Marks::new(senders));
        self.config = config;
        for mark in old.iter() {
            self.restore(mark);
        }
    }

    /// The marks, to be written down from time to time: what was heard after the last writing
    /// could be replayed once after a restart, until its sender is heard again.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        self.marks.iter()
    }

    /// Takes back a mark that was written down. It never moves a mark back, and the mark of who
    /// is no peer is left out.
    pub fn restore(&mut self, mark: Mark) {
        let known = self.marks.of(mark.sender).ok().flatten();
        if known.is_none_or(|known| mark.stamp.is_after(known)) {
            self.marks.set(mark);
        }
    }

    /// Verifies an advert that arrived at the time `wall`, in the form of
    /// [`Trailer::split`]: its bytes (at least the 8-byte header) and its trailer, if it has one.
    ///
    /// Of a bare advert only the mode is asked: whether its sender is a peer is checked elsewhere.
    /// Call it before any field of the advert is believed, and after the checks of its length,
    /// its TTL and its version.
    ///
    /// # Errors
    ///
    /// See [`Reject`]; the first check that fails wins: sender, form of the trailer, window, key,
    /// tag, replay. The window comes early because it is cheap and can only refuse. Nothing
    /// changes when an advert is refused.
    pub fn verify(
        &mut self,
        wall: Stamp,
        identity: &Identity,
        pdu: &[u8],
        trailer: Option<&[u8; Trailer::LEN]>,
    ) -> Result<Verified, Reject> {
        let Some(trailer) = trailer else {
            return if self.config.mode.accepts_bare() {
                Ok(Verified::Bare)
            } else {
                Err(Reject::Missing)
            };
        };
        let sender = identity.source;
        let mark = self.mark_that_counts(wall, identity)?;
        let trailer = Trailer::parse(trailer)?;
        let skew = wall.seconds_since(trailer.stamp);
        let window = self.window(mark);
        if window.is_some_and(|window| !window.holds(skew)) {
            return Err(Reject::Stale);
        }
        let id = KeyId::new(trailer.key_id).map_err(|_| Reject::UnknownKey)?;
        let key = self.config.keys.find(id).ok_or(Reject::UnknownKey)?;
        if !tag::is_right(key, identity, pdu, &trailer) {
            return Err(Reject::BadHmac);
        }
        let stamp = trailer.stamp;
        if mark.is_some_and(|mark| !stamp.is_after(mark)) {
            return Err(Reject::Replay);
        }
        self.marks.set(Mark { sender, stamp });
        let wide = window.is_some_and(|window| window.is_half_used(skew));
        Ok(Verified::Signed {
            key: id,
            skew: wide.then_some(skew),
        })
    }

    /// By time, a mark outside of the window is forgotten: it could only refuse what the window
    /// refuses anyway, and it would shut out a sender whose clock was set back, or everybody when
    /// ours was.
    fn mark_that_counts(
        &self,
        wall: Stamp,
        identity: &Identity,
    ) -> Result<Option<Stamp>, UnknownSender> {
        let mark = self.marks.of(identity.source)?;
        Ok(match self.config.anti_replay {
            AntiReplay::Time { window } => {
                mark.filter(|mark| window.holds(wall.seconds_since(*mark)))
            }
            AntiReplay::Monotonic { .. } => mark,
        })
    }

    /// The window an advert of a sender with this mark must be in.
    fn window(&self, mark: Option<Stamp>) -> Option<Window> {
        match (self.config.anti_replay, mark) {
            (AntiReplay::Time { window }, _) => Some(window),
            (AntiReplay::Monotonic { first_contact }, None) => first_contact,
            (AntiReplay::Monotonic { .. }, Some(_)) => None,
        }
    }
}
