//! A router whose process ended while it was Active: somebody else says goodbye in its name, or goes
//! on until another process does.

use std::net::IpAddr;

use kedge_core::{Instant, vip::Priority};

use super::{
    Because, Config, ConfigError, Link,
    router::Router,
    state::{Active, Releasing, State, Then},
    timing::longest_active_down,
};
use crate::wire::Mac;

/// What is known of a router whose process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The source of its adverts.
    pub source: IpAddr,
    /// The hardware address of its interface.
    pub mac: Mac,
    /// When it advertised last.
    pub sent_at: Instant,
    /// Whether it sent both checksum forms.
    pub both_checksums: bool,
}

impl Router {
    /// A router in the place of one that died as Active, the addresses still held: it says goodbye
    /// at its next [`handle_timeout`](kedge_core::Machine::handle_timeout), answers until a
    /// successor is heard, lets go and ends in Initialize.
    ///
    /// What its sockets hold must come before that: an advert that waits there is a successor's,
    /// and nothing is said then. If the dead one had been silent for so long that a Backup may have
    /// taken over, nothing is said either, and the addresses go at once.
    ///
    /// # Errors
    ///
    /// The configuration contradicts itself.
    pub fn orphan(now: Instant, config: Config, orphan: Orphan) -> Result<Self, ConfigError> {
        let mut router = Self::in_place_of(config, orphan)?;
        let (version, interval) = (router.config.version, router.config.interval);
        let releasing = Releasing {
            advert_at: now,
            sent_at: orphan.sent_at,
            release_at: now + longest_active_down(version, interval),
            successor: None,
            then: Then::Stop,
            held: true,
        };
        router.enter(now, State::Releasing(releasing), Because::Orphaned);
        Ok(router)
    }

    /// A router in the place of one whose process is being replaced, the addresses still held: Active
    /// at `priority`, which is not above the base of `config`, its next advert due an interval after
    /// the last one.
    ///
    /// It is Active as any other is: it yields to a better one, and lets go after a stall.
    ///
    /// # Errors
    ///
    /// The configuration contradicts itself.
    pub fn caretaker(
        now: Instant,
        config: Config,
        orphan: Orphan,
        priority: Priority,
    ) -> Result<Self, ConfigError> {
        let mut router = Self::in_place_of(config, orphan)?;
        // Whatever lowered it: health and tracks are not looked at meanwhile.
        let lowered = router.config.priority.get().saturating_sub(priority.get());
        router.tracked.cost = lowered.into();
        let active = Active {
            advert_at: orphan.sent_at + router.config.interval.duration(),
            sent_at: orphan.sent_at,
            held: true,
            before: None,
        };
        router.enter(now, State::Active(active), Because::Kept);
        let at = router.config.place(orphan.mac);
        router.announcer.start(now, router.claimed(), at);
        Ok(router)
    }

    fn in_place_of(config: Config, orphan: Orphan) -> Result<Self, ConfigError> {
        let mut router = Self::new(config)?;
        router.link = Link::Up {
            source: orphan.source,
            mac: orphan.mac,
        };
        if orphan.both_checksums {
            router.checksums.need_both(orphan.source);
        }
        Ok(router)
    }
}
