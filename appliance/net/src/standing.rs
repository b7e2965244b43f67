//! Addresses on the loopback interface that stand as long as somebody wants them: only routes lead to
//! them, so no neighbour of a link is told.
//!
//! They outlive a process that dies: its routes are gone then, and nobody sends anything there. The next
//! one takes them over or removes them.

use std::{collections::BTreeSet, io, net::IpAddr};

use ipnet::IpNet;
use kedge_core::{Coded as _, Instant, Problem};

use crate::{
    address::{AddressError, Lifetime, Owned},
    link,
};

/// The addresses of ours on the loopback interface of the namespace they were raised in first.
#[derive(Debug, Default)]
pub struct Standing {
    owned: Option<(Owned, u32)>,
    up: BTreeSet<IpAddr>,
    looked: bool,
}

impl Standing {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether none stands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.up.is_empty()
    }

    /// Whether that one stands.
    #[must_use]
    pub fn stands(&self, address: IpAddr) -> bool {
        self.up.contains(&address)
    }

    /// Takes which addresses the interface has: one that somebody took away is put up again next time.
    pub fn seen(&mut self, there: &BTreeSet<IpAddr>) {
        self.up.retain(|address| there.contains(address));
    }

    /// Puts up what is missing of `wanted`, and says what cannot be. The first time it removes what an
    /// earlier process left and nobody wants.
    pub fn raise(&mut self, now: Instant, wanted: &BTreeSet<IpAddr>) -> Vec<Problem> {
        let missing: Vec<IpAddr> = wanted.difference(&self.up).copied().collect();
        if missing.is_empty() && self.looked {
            return Vec::new();
        }
        let (owned, index) = match opened(&mut self.owned) {
            Ok(opened) => opened,
            Err(error) => return vec![error.problem()],
        };
        let mut problems = Vec::new();
        for address in missing {
            match owned.hold(now, (index, IpNet::from(address))) {
                Ok(()) => drop(self.up.insert(address)),
                Err(error) => problems.push(error.problem()),
            }
        }
        if !self.looked {
            let left = owned.remove_leftovers(Some(index));
            problems.extend(left.err().map(|error| error.problem()));
            self.looked = true;
        }
        problems
    }

    /// Takes down what is not of `wanted`; says what cannot be.
    pub fn lower(&mut self, wanted: &BTreeSet<IpAddr>) -> Vec<Problem> {
        let gone: Vec<IpAddr> = self.up.difference(wanted).copied().collect();
        let Some((owned, index)) = &mut self.owned else {
            return Vec::new();
        };
        let mut refused = |address: &IpAddr| -> Option<AddressError> {
            owned.release((*index, IpNet::from(*address))).err()
        };
        let problems = gone.iter().filter_map(&mut refused);
        let problems = problems.map(|error| error.problem()).collect();
        self.up.retain(|it| wanted.contains(it));
        problems
    }
}

/// What addresses of ours are held with, and the number of the loopback interface.
fn opened(owned: &mut Option<(Owned, u32)>) -> Result<(&mut Owned, u32), AddressError> {
    let opened = match owned.take() {
        Some(opened) => opened,
        None => {
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            let index = link::number_of("lo").ok_or_else(|| AddressError::Open(missing()))?;
            (Owned::open(Lifetime::Permanent)?, index)
        }
    };
    let (owned, index) = owned.insert(opened);
    Ok((owned, *index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock,
        netns::{Lease, Namespace, Worker},
        privilege,
    };

    #[test]
    fn addresses_stand_while_they_are_wanted_and_leftovers_go() {
        if privilege::check().is_err() {
            return;
        }
        let lease = Lease::take().unwrap();
        let namespace = Namespace::create(&lease.namespace("standing")).unwrap();
        let worker = Worker::start(&namespace).unwrap();
        worker
            .run(|| {
                let ip = |line: &str| {
                    let mut ip = std::process::Command::new("ip");
                    let output = ip.args(line.split(' ')).output().unwrap();
                    String::from_utf8_lossy(&output.stdout).into_owned()
                };
                let on_lo = |text: &str| ip("address show dev lo").contains(text);
                ip("link set lo up");
                ip("address add 192.0.2.77/32 dev lo");
                let set = |all: &[&str]| -> BTreeSet<IpAddr> {
                    all.iter().map(|it| it.parse().unwrap()).collect()
                };
                let mut standing = Standing::new();
                let both = set(&["192.0.2.1", "2001:db8::1"]);
                assert!(standing.raise(clock::now(), &both).is_empty());
                assert!(on_lo("192.0.2.1/32") && on_lo("2001:db8::1/128"));
                assert!(both.iter().all(|it| standing.stands(*it)));
                // That of somebody else is no VIP's.
                let foreign = set(&["192.0.2.77"]);
                assert_eq!(standing.raise(clock::now(), &foreign).len(), 1);
                assert!(standing.lower(&both).is_empty());
                assert!(on_lo("192.0.2.77/32") && on_lo("192.0.2.1/32"));
                ip("address del 192.0.2.1/32 dev lo");
                standing.seen(&set(&["2001:db8::1"]));
                assert!(standing.raise(clock::now(), &both).is_empty());
                assert!(on_lo("192.0.2.1/32"));
                // The next process takes over what it wants and removes the rest, but not what is not ours.
                let mut next = Standing::new();
                let one = set(&["2001:db8::1"]);
                assert!(next.raise(clock::now(), &one).is_empty());
                assert!(!on_lo("192.0.2.1/32") && on_lo("2001:db8::1/128"));
                assert!(next.lower(&BTreeSet::new()).is_empty());
                assert!(!on_lo("2001:db8::1") && on_lo("192.0.2.77/32") && next.is_empty());
            })
            .unwrap();
    }
}
