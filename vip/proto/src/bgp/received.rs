//! What a neighbour announces: counted, and the last of it kept to be looked at. Nothing is taken.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use kedge_core::Instant;

use crate::wire::bgp::{Attributes, Family, Fault, NextHop, Prefix, Update};

/// A route that was heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When.
    pub at: Instant,
    /// Where to.
    pub prefix: Prefix,
    /// What was said of it.
    pub what: What,
}

/// What was said of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It is there.
    Announced(NextHop, Arc<Attributes>),
    /// It is gone.
    Withdrawn,
    /// It is there, and counts as gone for a flaw.
    Refused(Fault),
}

/// What was heard in a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub announced: u64,
    pub withdrawn: u64,
    pub refused: u64,
    /// The kinds of routes of which all were said.
    pub complete: [bool; 2],
    last: VecDeque<Heard>,
    /// Those that are there, where their number is bounded.
    standing: Option<BTreeSet<Prefix>>,
}

impl Received {
    pub(super) fn new(is_bounded: bool) -> Self {
        Self {
            standing: is_bounded.then(BTreeSet::new),
            ..Self::default()
        }
    }

    /// The last ones, the newest first.
    pub(super) fn last(&self) -> impl Iterator<Item = &Heard> {
        self.last.iter().rev()
    }

    /// How many destinations stand, where that is counted.
    pub(super) fn standing(&self) -> Option<usize> {
        self.standing.as_ref().map(BTreeSet::len)
    }

    /// Takes an UPDATE; the kind of routes of which there are more than `most`.
    pub(super) fn take(
        &mut self,
        now: Instant,
        update: Update,
        most: Option<u32>,
    ) -> Option<Family> {
        let count = |all: &mut u64, more: usize| {
            *all = all.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
        };
        count(&mut self.announced, update.announced.len());
        count(&mut self.withdrawn, update.withdrawn.len());
        count(&mut self.refused, update.refused.len());
        if let Some(family) = update.end_of_rib {
            let [four, six] = &mut self.complete;
            *match family {
                Family::Ipv4 => four,
                Family::Ipv6 => six,
            } = true;
        }
        if let Some(standing) = &mut self.standing {
            for prefix in update.withdrawn.iter().chain(&update.refused) {
                standing.remove(prefix);
            }
            for route in &update.announced {
                standing.insert(route.prefix);
                let count = u32::try_from(standing.len()).unwrap_or(u32::MAX);
                if most.is_some_and(|most| count > most) {
                    return Some(route.prefix.family());
                }
            }
        }
        self.remember(now, update);
        None
    }

    fn remember(&mut self, now: Instant, update: Update) {
        let attributes = update.attributes.map(Arc::new);
        let fault = update.faults.into_iter().max_by_key(|fault| fault.action);
        let gone = update
            .withdrawn
            .into_iter()
            .map(|prefix| (prefix, What::Withdrawn));
        let refused = update.refused.into_iter().zip(std::iter::repeat(fault));
        let refused = refused.filter_map(|(prefix, fault)| Some((prefix, What::Refused(fault?))));
        let there = update
            .announced
            .into_iter()
            .zip(std::iter::repeat(attributes));
        let there = there.filter_map(|(route, attributes)| {
            Some((route.prefix, What::Announced(route.next_hop, attributes?)))
        });
        for (prefix, what) in gone.chain(refused).chain(there) {
            if self.last.len() == KEPT {
                self.last.pop_front();
            }
            self.last.push_back(Heard {
                at: now,
                prefix,
                what,
            });
        }
    }
}

/// How many are kept.
const KEPT: usize = 256;
