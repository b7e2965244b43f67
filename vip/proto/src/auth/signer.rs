//! Signing our own adverts, with a sequence that receivers accept.

use super::{AntiReplay, Config, Identity, Stamp, Trailer, Window, tag};

/// Signs the adverts of one virtual router.
///
/// The sequence is the wall clock where that grows, and the last one plus one where it does not.
/// What else happens depends on [`AntiReplay`]:
///
/// * by time, a sequence that is ahead of a corrected clock by more than the window starts again
///   from the clock, because receivers refuse it anyway;
/// * monotonic, it never goes back, not even over a reboot without a clock: a *mark* ahead of the
///   sequence is on disk before the sequence gets there.
#[derive(Clone, Debug)]
pub struct Signer {
    config: Config,
    last: Option<Stamp>,
    mark: Option<Stamp>,
}

impl Signer {
    /// A signer that goes on behind `mark`, the newest one that was ever confirmed on this host
    /// for this virtual router.
    #[must_use]
    pub const fn new(config: Config, mark: Option<Stamp>) -> Self {
        Self {
            config,
            last: mark,
            mark,
        }
    }

    /// Takes over another configuration; the sequence goes on.
    pub fn reconfigure(&mut self, config: Config) {
        self.config = config;
    }

    /// The mark to write down durably at the time `wall`, if one is needed; ask before the first
    /// advert and then before each one. When it is written, call [`Signer::marked`].
    ///
    /// A mark lies 60 seconds ahead of the sequence, and a new one is wanted when half of them
    /// are used up, so a router writes twice a minute and after a restart it is at most that much
    /// ahead of its clock.
    #[must_use]
    pub fn wants_mark(&self, wall: Stamp) -> Option<Stamp> {
        match self.config.anti_replay {
            AntiReplay::Monotonic { .. } if self.config.mode.signs() => {}
            AntiReplay::Monotonic { .. } | AntiReplay::Time { .. } => return None,
        }
        let reached = self.last.map_or(wall, |last| last.later(wall));
        let enough = reached.plus_seconds(AHEAD / 2);
        let low = self.mark.is_none_or(|mark| !mark.is_after(enough));
        low.then(|| reached.plus_seconds(AHEAD))
    }

    /// Confirms that `mark` is on disk and survives a loss of power.
    ///
    /// The first one also tells where the sequence begins: at the time it was asked for.
    pub fn marked(&mut self, mark: Stamp) {
        self.last = self.last.or(Some(mark.minus_seconds(AHEAD)));
        self.mark = Some(self.mark.map_or(mark, |old| old.later(mark)));
    }

    /// The trailer for the advert `pdu` (at least its 8-byte header) that `identity` sends at the
    /// time `wall`; `None` while the mode is [`Mode::ReceiveOnly`](super::Mode::ReceiveOnly).
    ///
    /// Signed once, the same trailer goes to every unicast peer; a goodbye is signed like any
    /// advert. A mark that could not be written stops no advert.
    #[must_use]
    pub fn sign(
        &mut self,
        wall: Stamp,
        identity: &Identity,
        pdu: &[u8],
    ) -> Option<[u8; Trailer::LEN]> {
        if !self.config.mode.signs() {
            return None;
        }
        let stamp = self.advance(wall);
        self.last = Some(stamp);
        let (id, key) = self.config.keys.active();
        let mut trailer = Trailer {
            key_id: id.get(),
            stamp,
            tag: [0; Trailer::TAG_LEN],
        };
        trailer.tag = tag::make(key, identity, pdu, &trailer);
        Some(trailer.emit())
    }

    fn advance(&self, wall: Stamp) -> Stamp {
        let Some(last) = self.last else {
            return wall;
        };
        match self.config.anti_replay {
            AntiReplay::Time { window } => by_time(wall, last, window),
            AntiReplay::Monotonic { .. } => self.monotonic(wall, last),
        }
    }

    /// A clock that comes near the mark is followed no further: until a new mark is written the
    /// sequence grows in steps of one, for which the last second has room for 2^32. Otherwise a
    /// clock that jumps ahead and a power cut would leave the receivers with a sequence that this
    /// host does not know of. Without any room the clock is followed, because there is no mark.
    fn monotonic(&self, wall: Stamp, last: Stamp) -> Stamp {
        let next = last.next();
        let below = |stamp: Stamp, limit: Stamp| !stamp.is_after(limit);
        let follow = self
            .mark
            .is_none_or(|mark| below(wall, mark.minus_seconds(1)) || !below(next, mark));
        if follow && wall.is_after(last) {
            wall
        } else {
            next
        }
    }
}

fn by_time(wall: Stamp, last: Stamp, window: Window) -> Stamp {
    let next = last.next();
    if wall.is_after(last) || !window.holds(next.seconds_since(wall)) {
        wall
    } else {
        next
    }
}

/// Seconds by which a new mark is ahead of the sequence.
const AHEAD: u32 = 60;
