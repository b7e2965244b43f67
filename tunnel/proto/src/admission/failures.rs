//! What is held against a source: initiations that came to nothing.
//!
//! A source is an address with its port, and beyond that the address alone, for which more is
//! allowed: a whole site can be behind it. An IPv6 host has a /64 to choose from.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use kedge_core::Instant;

/// The sources that have failed of late.
#[derive(Debug, Default)]
pub(super) struct Failures {
    sources: BTreeMap<Source, Debt>,
    /// Where the search for one to forget goes on.
    hand: Option<Source>,
}

/// What is held against a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Nothing.
    Clean,
    /// Something.
    Some,
    /// Too much has failed that came from its address, by other ports.
    Neighbors,
    /// Too much has failed.
    TooMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    address: IpAddr,
    /// `None` is the address as a whole.
    port: Option<u16>,
    /// Whether it was proven that it was there.
    proven: bool,
}

/// Failures not forgiven yet: the time it takes until they all are.
#[derive(Clone, Copy, Debug)]
struct Debt {
    clear_at: Instant,
}

impl Failures {
    /// What is held against somebody.
    pub(super) fn of(&self, now: Instant, from: SocketAddr, proven: bool) -> Record {
        let [port, address] = sources(from, proven).map(|source| {
            let debt = self.sources.get(&source);
            let open = debt.map_or(Duration::ZERO, |debt| debt.clear_at.since(now));
            (open, open > source.pause() * source.burst())
        });
        match (port, address) {
            ((_, true), _) => Record::TooMany,
            (_, (_, true)) => Record::Neighbors,
            ((Duration::ZERO, _), _) => Record::Clean,
            _ => Record::Some,
        }
    }

    /// Holds a failure against them.
    pub(super) fn charge(&mut self, now: Instant, from: SocketAddr, proven: bool) {
        for source in sources(from, proven) {
            if !self.sources.contains_key(&source) && self.sources.len() >= SOURCES {
                self.forget_one();
            }
            let debt = self.sources.entry(source).or_insert(Debt { clear_at: now });
            debt.clear_at = debt.clear_at.max(now) + source.pause();
        }
    }

    /// Forgets one after the other in turn, so that nobody can choose who is forgotten.
    fn forget_one(&mut self) {
        let after = self.hand.and_then(|hand| {
            let mut rest = self.sources.range(hand..);
            rest.next().map(|(source, _)| *source)
        });
        let victim = after.or_else(|| self.sources.keys().next().copied());
        if let Some(victim) = victim {
            self.sources.remove(&victim);
            self.hand = Some(victim);
        }
    }
}

impl Source {
    /// After how long one failure is forgiven.
    const fn pause(self) -> Duration {
        match self.port {
            // Ten thousand hosts that bring their cookies back have a sixth of a processor this way.
            Some(_) => Duration::from_secs(10),
            None => Duration::from_millis(50),
        }
    }

    /// How many failures are too many at once.
    const fn burst(self) -> u32 {
        match self.port {
            Some(_) => 2,
            None => 99,
        }
    }
}

fn sources(from: SocketAddr, proven: bool) -> [Source; 2] {
    let address = match from.ip().to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64))),
    };
    [
        Source {
            address,
            port: Some(from.port()),
            proven,
        },
        Source {
            address,
            port: None,
            proven,
        },
    ]
}

/// How many sources are kept at most: 2 MB.
const SOURCES: usize = 32_768;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(100) + Duration::from_millis(millis)
    }

    /// How many failures one gets away with at once.
    fn burst(failures: &mut Failures, now: Instant, from: impl Fn(usize) -> SocketAddr) -> usize {
        let tries = (0..1_000).take_while(|number| {
            let record = failures.of(now, from(*number), false);
            let allowed = matches!(record, Record::Clean | Record::Some);
            if allowed {
                failures.charge(now, from(*number), false);
            }
            allowed
        });
        tries.count()
    }

    #[test]
    fn a_port_gets_three_and_one_more_each_ten_seconds() {
        let mut failures = Failures::default();
        let from = |_| "192.0.2.1:1000".parse().unwrap();
        assert_eq!(burst(&mut failures, at(0), from), 3);
        assert_eq!(burst(&mut failures, at(9_999), from), 0);
        assert_eq!(burst(&mut failures, at(10_000), from), 1);
        assert_eq!(burst(&mut failures, at(30_000), from), 2);
        assert_eq!(burst(&mut failures, at(600_000), from), 3);
    }

    #[test]
    fn an_address_with_many_ports_gets_a_hundred_and_twenty_a_second() {
        let mut failures = Failures::default();
        let from = |number| SocketAddr::from(([192, 0, 2, 1], 1_000 + number as u16));
        assert_eq!(burst(&mut failures, at(0), from), 100);
        assert_eq!(burst(&mut failures, at(1_000), |n| from(n + 200)), 20);
        let other = |_| "192.0.2.2:1".parse().unwrap();
        assert_eq!(burst(&mut failures, at(1_000), other), 3);
    }

    #[test]
    fn the_hosts_of_an_ipv6_network_are_one_address() {
        let mut failures = Failures::default();
        let from = |number| {
            format!("[2001:db8::{number:x}]:{}", 1_000 + number)
                .parse()
                .unwrap()
        };
        assert_eq!(burst(&mut failures, at(0), from), 100);
        let record = |text: &str| failures.of(at(0), text.parse().unwrap(), false);
        assert_eq!(record("[2001:db8::ffff]:1"), Record::Neighbors);
        assert_eq!(record("[2001:db8:0:1::1]:1"), Record::Clean);
    }

    #[test]
    fn what_others_do_in_its_name_is_not_held_against_who_proves_an_address() {
        let mut failures = Failures::default();
        let from = "192.0.2.1:1000".parse().unwrap();
        (0..9).for_each(|_| failures.charge(at(0), from, false));
        assert_eq!(failures.of(at(0), from, false), Record::TooMany);
        assert_eq!(failures.of(at(0), from, true), Record::Clean);
        failures.charge(at(0), from, true);
        assert_eq!(failures.of(at(0), from, true), Record::Some);
        assert_eq!(failures.of(at(10_000), from, true), Record::Clean);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let mut failures = Failures::default();
        for number in 0..100_000_u32 {
            failures.charge(at(0), SocketAddr::from((number.to_be_bytes(), 1)), false);
            assert!(failures.sources.len() <= SOURCES);
        }
    }
}
