//! Of which VIPs that VRRP moves routers are told: those that are owned, and for a moment those that are
//! being given away, with the word that they go (RFC 8326). No I/O.

use std::{collections::BTreeMap, time::Duration};

use kedge_core::{Instant, Name, vip::RouterState};

/// What every VRRP router of this host is, as far as routers of BGP care.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    all: BTreeMap<Name, One>,
}

#[derive(Clone, Copy, Debug)]
struct One {
    state: RouterState,
    /// Until when it is said of its routes that they go.
    until: Option<Instant>,
}

/// What is told of a VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    /// That it is here.
    Here,
    /// That it is here and goes.
    Goes,
    /// Nothing.
    Nothing,
}

impl Ownership {
    /// Takes what became of a router. Where it gives its VIP away, that may be said for `pause`, but for no
    /// longer than the address is sure to stand, which `interval` says.
    pub fn moved(
        &mut self,
        now: Instant,
        name: &Name,
        to: RouterState,
        [pause, interval]: [Duration; 2],
    ) {
        let before = self.all.get(name).copied();
        let was_here = before.is_some_and(|one| one.state == RouterState::Active);
        let until = match (to, before) {
            (RouterState::Releasing, Some(_)) if was_here => {
                // Without a successor it answers for three intervals (RFC 9568 section 6.1).
                let pause = pause.min(interval * 2);
                (!pause.is_zero()).then(|| now + pause)
            }
            (RouterState::Releasing, Some(before)) => before.until,
            _ => None,
        };
        self.all.insert(name.clone(), One { state: to, until });
    }

    /// Forgets those that `stays` is not true of.
    pub fn retain(&mut self, stays: impl Fn(&Name) -> bool) {
        self.all.retain(|name, _| stays(name));
    }

    /// The state of a router that was heard of.
    pub fn state(&self, name: &Name) -> Option<RouterState> {
        self.all.get(name).map(|one| one.state)
    }

    /// What is told of it at `now`.
    pub fn tells(&self, now: Instant, name: &Name) -> Tells {
        match self.all.get(name) {
            Some(one) if one.state == RouterState::Active => Tells::Here,
            Some(one) if one.until.is_some_and(|until| until > now) => Tells::Goes,
            Some(_) | None => Tells::Nothing,
        }
    }

    /// When something else is to be told, after `now`.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let all = self.all.values().filter_map(|one| one.until);
        all.filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const fn millis(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_vip_that_is_given_away_is_said_to_go_for_as_long_as_its_address_is_sure_to_stand() {
        use RouterState::{Active, Backup, Initialize, Releasing};
        let name: Name = "api".parse().unwrap();
        for (pause, interval, ends) in [
            (0, 1_000, None),
            (2_000, 100, Some(200)),
            (150, 100, Some(150)),
        ] {
            let spans = [millis(pause), millis(interval)];
            let mut owned = Ownership::default();
            assert_eq!(owned.tells(at(0), &name), Tells::Nothing);
            // Who never had it has nothing to say.
            for state in [Initialize, Backup, Releasing] {
                owned.moved(at(0), &name, state, spans);
                assert_eq!(owned.tells(at(0), &name), Tells::Nothing, "{state}");
            }
            owned.moved(at(0), &name, Active, spans);
            assert_eq!(owned.tells(at(9_000), &name), Tells::Here);
            assert_eq!(owned.deadline(at(0)), None);
            owned.moved(at(0), &name, Releasing, spans);
            assert_eq!(owned.deadline(at(0)), ends.map(at));
            if let Some(ends) = ends {
                assert_eq!(owned.tells(at(ends - 1), &name), Tells::Goes);
                // Said again, it goes no later.
                owned.moved(at(ends - 1), &name, Releasing, spans);
            }
            let ends = ends.unwrap_or_default();
            assert_eq!(owned.tells(at(ends), &name), Tells::Nothing);
            assert_eq!(owned.deadline(at(ends)), None);
        }
    }

    #[test]
    fn a_successor_or_a_change_of_mind_ends_it_at_once() {
        use RouterState::{Active, Backup, Initialize, Releasing};
        let name: Name = "api".parse().unwrap();
        let spans = [millis(500), millis(1_000)];
        for (next, tells) in [
            (Backup, Tells::Nothing),
            (Initialize, Tells::Nothing),
            (Active, Tells::Here),
        ] {
            let mut owned = Ownership::default();
            owned.moved(at(0), &name, Active, spans);
            owned.moved(at(0), &name, Releasing, spans);
            assert_eq!(owned.tells(at(10), &name), Tells::Goes);
            owned.moved(at(10), &name, next, spans);
            assert_eq!(owned.tells(at(10), &name), tells, "{next}");
            assert_eq!(owned.deadline(at(10)), None, "{next}");
            owned.retain(|_| false);
            assert_eq!(owned.state(&name), None);
        }
    }
}
