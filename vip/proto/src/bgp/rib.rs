//! What a neighbour was told (RFC 4271 section 3.2: Adj-RIB-Out).

use std::{collections::BTreeMap, sync::Arc};

use crate::wire::bgp::{Attributes, Family, Messages, NextHop, Prefix, announce, withdraw};

/// What is said of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// What it says of itself.
    pub attributes: Attributes,
    /// Where packets to it go.
    pub next_hop: NextHop,
}

/// What a neighbour was told, and took or will.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rib {
    told: BTreeMap<Prefix, Arc<Path>>,
}

impl Rib {
    /// What it was told.
    pub(super) const fn routes(&self) -> &BTreeMap<Prefix, Arc<Path>> {
        &self.told
    }

    /// Makes it know of `wanted` and nothing else: what goes, goes first. Routes of one path share
    /// messages.
    pub(super) fn change(&mut self, wanted: BTreeMap<Prefix, Path>, four_octet: bool) -> Messages {
        let gone = self
            .told
            .keys()
            .filter(|prefix| !wanted.contains_key(prefix));
        let gone: Vec<Prefix> = gone.copied().collect();
        for prefix in &gone {
            self.told.remove(prefix);
        }
        let mut groups: BTreeMap<Path, Vec<Prefix>> = BTreeMap::new();
        for (prefix, path) in wanted {
            if self.told.get(&prefix).is_none_or(|told| **told != path) {
                groups.entry(path).or_default().push(prefix);
            }
        }
        let mut messages = withdraw(&gone);
        for (path, prefixes) in groups {
            let path = Arc::new(path);
            // The configuration bounds what a route says, far below what a message holds.
            if let Ok(some) = announce(&path.attributes, path.next_hop, &prefixes, four_octet) {
                messages.extend(some);
                self.told.extend(
                    prefixes
                        .into_iter()
                        .map(|prefix| (prefix, Arc::clone(&path))),
                );
            }
        }
        messages
    }

    /// All of a family, again.
    pub(super) fn again(&self, family: Family, four_octet: bool) -> Messages {
        let mut groups: BTreeMap<&Path, Vec<Prefix>> = BTreeMap::new();
        for (prefix, path) in &self.told {
            if prefix.family() == family {
                groups.entry(path).or_default().push(*prefix);
            }
        }
        let mut messages = Messages::default();
        for (path, prefixes) in groups {
            let some = announce(&path.attributes, path.next_hop, &prefixes, four_octet);
            messages.extend(some.unwrap_or_default());
        }
        messages
    }
}
