//! When what happened of a take-over: plain stores on the routers' thread, told once it is over.

use std::net::IpAddr;

use kedge_core::{Instant, vip::RouterState};
use kedge_net::clock;
use kedge_vip_proto::vrrp::{Router, active_down};

use crate::Takeover;

/// What is being noted for one VIP.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamps {
    under_way: Option<Takeover>,
    /// What would begin, if the timer that is due makes the router Active.
    firing: Option<Takeover>,
    /// Who was heard last, and whether that was a goodbye.
    last: Option<(IpAddr, bool)>,
    /// When the last goodbye of the other Active was heard first.
    goodbye_at: Option<Instant>,
    /// So many first adverts were told since then: two Actives that hear each other by turns are
    /// not told with every packet.
    told: u8,
    since: Instant,
}

impl Stamps {
    /// A timer is due.
    pub(super) fn fires(&mut self, now: Instant, router: &Router) {
        self.firing = None;
        if router.state() != RouterState::Backup {
            return;
        }
        let view = router.view();
        let interval = view.active.map_or(router.config().interval, |p| p.interval);
        self.firing = view
            .takes_over_at
            .filter(|due| *due <= now)
            .map(|due| Takeover {
                before: view.active.map(|peer| (peer.address, peer.heard_at)),
                goodbye: self.goodbye_at,
                interval: interval.duration(),
                down: active_down(router.config().version, interval, view.priority),
                due,
                fired: now,
                advertised: None,
                held: None,
                announced: None,
            });
    }

    /// It was acted on.
    pub(super) fn fired(&mut self, router: &Router) {
        let firing = self.firing.take();
        if router.state() == RouterState::Active && firing.is_some() {
            self.under_way = firing;
        }
    }

    /// An advert left.
    pub(super) fn advertised(&mut self) {
        if let Some(takeover) = &mut self.under_way {
            takeover.advertised.get_or_insert_with(clock::now);
        }
    }

    /// The kernel holds the addresses.
    pub(super) fn held(&mut self) {
        if let Some(takeover) = &mut self.under_way {
            takeover.held.get_or_insert_with(clock::now);
        }
    }

    /// An announcement left: the account is complete.
    pub(super) fn announced(&mut self) -> Option<Takeover> {
        let mut takeover = self.under_way.take()?;
        takeover.announced = Some(clock::now());
        Some(takeover)
    }

    /// The state changed; an account that ends before its announcement.
    pub(super) fn changed(&mut self, to: RouterState) -> Option<Takeover> {
        if to == RouterState::Active {
            self.last = None;
            self.goodbye_at = None;
            return None;
        }
        self.under_way.take()
    }

    /// An advert was accepted; whether it is the first of its kind from there.
    pub(super) fn heard(&mut self, now: Instant, from: IpAddr, goodbye: bool) -> bool {
        if self.last == Some((from, goodbye)) {
            return false;
        }
        self.last = Some((from, goodbye));
        self.goodbye_at = goodbye.then_some(now);
        if now.since(self.since) > WINDOW {
            (self.since, self.told) = (now, 0);
        }
        self.told = self.told.saturating_add(1);
        self.told <= AT_MOST
    }
}

const WINDOW: std::time::Duration = std::time::Duration::from_secs(10);
const AT_MOST: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn the_first_advert_and_the_first_goodbye_of_each_are_told_and_a_dispute_is_not() {
        let mut stamps = Stamps::default();
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        assert!(stamps.heard(at(0), ip(1), false));
        assert!(!stamps.heard(at(100), ip(1), false));
        assert!(stamps.heard(at(200), ip(1), true));
        assert!(!stamps.heard(at(300), ip(1), true));
        assert!(stamps.heard(at(310), ip(2), false));
        let told = (0..200).filter(|n| stamps.heard(at(400 + n), ip(1 + (*n % 2) as u8), false));
        assert_eq!(told.count(), usize::from(AT_MOST) - 3);
        assert!(stamps.heard(at(20_000), ip(3), false));
    }

    #[test]
    fn a_host_that_gives_the_vip_back_before_announcing_tells_what_there_was() {
        let takeover = Takeover {
            before: None,
            goodbye: None,
            interval: WINDOW,
            down: WINDOW,
            due: Instant::ZERO,
            fired: Instant::ZERO,
            advertised: None,
            held: None,
            announced: None,
        };
        let mut stamps = Stamps {
            under_way: Some(takeover),
            ..Stamps::default()
        };
        stamps.advertised();
        let told = stamps.changed(RouterState::Backup).unwrap();
        assert!(told.advertised.is_some() && told.announced.is_none());
        assert_eq!(stamps.announced(), None);
    }
}
