//! Our own provider of addresses: which addresses a VIPPool holds, and the lowest free one.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use ipnet::Ipv4Net;
use kedge_core::vip::Vrid;
use kedge_crd::pool::{VipPoolSpec, VridRange};

/// The addresses of a pool that may be given away: disjoint ranges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    ranges: Vec<Range>,
    /// The prefix length of the LAN.
    pub prefix: u8,
    /// The virtual router identifiers of the LAN.
    pub vrids: Option<VridRange>,
}

/// Both ends included; 64 bits, so that one past the last address is a number too.
type Range = (u64, u64);

/// Why a pool cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPool {
    /// An entry is no address, range or prefix.
    #[error("`{0}` is not an IPv4 address, a range `a-b` or a prefix")]
    Entry(String),
    /// An entry is of the other family.
    #[error("`{0}` is IPv6; VIPs are IPv4")]
    Family(String),
    /// A range runs backwards.
    #[error("the range `{0}` ends before it begins")]
    Backwards(String),
    /// The prefix length is impossible.
    #[error("prefix {0} is not 1 to 32")]
    Prefix(u8),
    /// The range of VRIDs is empty.
    #[error("vrid.from is greater than vrid.to")]
    Vrids,
    /// There are too many entries.
    #[error("more than {MAX_ENTRIES} entries")]
    Entries,
    /// There are too many addresses.
    #[error("more than {MAX_ADDRESSES} addresses")]
    Size,
    /// Nothing is left.
    #[error("no address is left after the exclusions")]
    Empty,
}

impl Pool {
    /// Reads a pool.
    ///
    /// # Errors
    ///
    /// An entry cannot be read, or nothing is left to give away.
    pub fn parse(spec: &VipPoolSpec) -> Result<Self, BadPool> {
        if spec.addresses.len() + spec.excluded_addresses.len() > MAX_ENTRIES {
            return Err(BadPool::Entries);
        }
        if !(1..=32).contains(&spec.prefix) {
            return Err(BadPool::Prefix(spec.prefix));
        }
        if spec.vrid.is_some_and(|range| range.from > range.to) {
            return Err(BadPool::Vrids);
        }
        let read = |entries: &[String]| -> Result<Vec<Range>, BadPool> {
            entries.iter().map(|entry| range(entry)).collect()
        };
        let given = read(&spec.addresses)?;
        if given.iter().map(|(from, to)| to - from + 1).sum::<u64>() > MAX_ADDRESSES {
            return Err(BadPool::Size);
        }
        let mut excluded = read(&spec.excluded_addresses)?;
        match spec.gateway {
            Some(IpAddr::V4(gateway)) => excluded.push((number(gateway), number(gateway))),
            Some(IpAddr::V6(gateway)) => return Err(BadPool::Family(gateway.to_string())),
            None => {}
        }
        if !spec.allocate_reserved && spec.prefix <= 30 {
            excluded.extend(given.iter().flat_map(|range| reserved(*range, spec.prefix)));
        }
        let mut ranges = union(given);
        for hole in excluded {
            ranges = ranges
                .into_iter()
                .flat_map(|range| without(range, hole))
                .collect();
        }
        if ranges.is_empty() {
            return Err(BadPool::Empty);
        }
        Ok(Self {
            ranges,
            prefix: spec.prefix,
            vrids: spec.vrid,
        })
    }

    /// How many addresses may be given away.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ranges.iter().map(|(from, to)| to - from + 1).sum()
    }

    /// Whether the address may be given away.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else {
            return false;
        };
        let address = number(address);
        self.ranges
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&address))
    }

    /// The lowest address that is not taken.
    #[must_use]
    pub fn lowest_free(&self, taken: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        self.ranges
            .iter()
            .flat_map(|(from, to)| *from..=*to)
            .filter_map(|number| u32::try_from(number).ok())
            .map(|number| IpAddr::V4(Ipv4Addr::from(number)))
            .find(|address| !taken(*address))
    }
}

/// The VRID for an address: the derived one, else the next free one after it.
#[must_use]
pub fn choose_vrid(
    address: IpAddr,
    range: Option<VridRange>,
    taken: &BTreeSet<Vrid>,
) -> Option<Vrid> {
    let derived = Vrid::derive(address);
    let (from, to) = range.map_or((1, 255), |range| (range.from.get(), range.to.get()));
    let above = (derived.get()..=to).filter(|vrid| *vrid >= from);
    above
        .chain(from..=to)
        .filter_map(|vrid| Vrid::new(vrid).ok())
        .find(|vrid| !taken.contains(vrid))
}

fn range(entry: &str) -> Result<Range, BadPool> {
    let bad = || BadPool::Entry(entry.escape_debug().take(60).collect());
    if entry.contains(':') {
        return Err(BadPool::Family(entry.escape_debug().take(60).collect()));
    }
    let address = |text: &str| text.trim().parse().map(number).map_err(|_| bad());
    let (from, to) = if let Some((from, to)) = entry.split_once('-') {
        (address(from)?, address(to)?)
    } else if entry.contains('/') {
        let net: Ipv4Net = entry.trim().parse().map_err(|_| bad())?;
        (number(net.network()), number(net.broadcast()))
    } else {
        let one = address(entry)?;
        (one, one)
    };
    if from > to {
        return Err(BadPool::Backwards(entry.to_owned()));
    }
    Ok((from, to))
}

fn number(address: Ipv4Addr) -> u64 {
    u64::from(u32::from(address))
}

/// The first and last address of every LAN of that size which the range touches.
fn reserved((from, to): Range, prefix: u8) -> impl Iterator<Item = Range> {
    let size = 1_u64 << (32 - u32::from(prefix));
    (from / size..=to / size).flat_map(move |lan| {
        let (first, last) = (lan * size, lan * size + size - 1);
        [(first, first), (last, last)]
    })
}

fn union(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, end)) if from <= *end + 1 => *end = to.max(*end),
            _ => merged.push((from, to)),
        }
    }
    merged
}

fn without((from, to): Range, (hole_from, hole_to): Range) -> Vec<Range> {
    if hole_to < from || hole_from > to {
        return vec![(from, to)];
    }
    let mut left = Vec::new();
    if from < hole_from {
        left.push((from, hole_from - 1));
    }
    if hole_to < to {
        left.push((hole_to + 1, to));
    }
    left
}

const MAX_ENTRIES: usize = 1024;
const MAX_ADDRESSES: u64 = 65_536;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(addresses: &[&str], excluded: &[&str]) -> VipPoolSpec {
        let owned = |list: &[&str]| list.iter().map(|&entry| entry.to_owned()).collect();
        VipPoolSpec {
            addresses: owned(addresses),
            excluded_addresses: owned(excluded),
            prefix: 24,
            gateway: Some("10.0.0.1".parse().unwrap()),
            ..VipPoolSpec::default()
        }
    }

    fn all(pool: &Pool) -> Vec<String> {
        let mut taken = BTreeSet::new();
        while let Some(address) = pool.lowest_free(|address| taken.contains(&address)) {
            taken.insert(address);
        }
        taken.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_lowest_free_address_is_never_the_router_reserved_or_excluded() {
        let pool =
            Pool::parse(&spec(&["10.0.0.0/29", "10.0.0.2"], &["10.0.0.3-10.0.0.4"])).unwrap();
        assert_eq!(all(&pool), ["10.0.0.2", "10.0.0.5", "10.0.0.6", "10.0.0.7"]);
        assert_eq!(pool.total(), 4);
        assert!(!pool.contains("10.0.0.1".parse().unwrap()));
        let last = Pool::parse(&spec(&["10.0.0.254-10.0.1.1"], &[])).unwrap();
        assert_eq!(all(&last), ["10.0.0.254", "10.0.1.1"]);
        let mut with_reserved = spec(&["10.0.0.255"], &[]);
        assert_eq!(Pool::parse(&with_reserved), Err(BadPool::Empty));
        with_reserved.allocate_reserved = true;
        assert_eq!(all(&Pool::parse(&with_reserved).unwrap()), ["10.0.0.255"]);
    }

    #[test]
    fn what_is_no_pool_is_refused_with_its_reason() {
        let fails = |addresses: &[&str]| Pool::parse(&spec(addresses, &[])).unwrap_err();
        assert_eq!(fails(&["x"]), BadPool::Entry("x".to_owned()));
        assert_eq!(
            fails(&["10.0.0.9-10.0.0.2"]),
            BadPool::Backwards("10.0.0.9-10.0.0.2".to_owned())
        );
        assert_eq!(fails(&["fd00::1"]), BadPool::Family("fd00::1".to_owned()));
        assert_eq!(fails(&["10.0.0.0/8"]), BadPool::Size);
        assert_eq!(fails(&["10.0.0.1"]), BadPool::Empty);
        assert_eq!(fails(&[]), BadPool::Empty);
        assert_eq!(fails(&vec!["10.0.0.2"; 1025]), BadPool::Entries);
        let prefix = VipPoolSpec {
            prefix: 33,
            ..spec(&["10.0.0.2"], &[])
        };
        assert_eq!(Pool::parse(&prefix), Err(BadPool::Prefix(33)));
    }

    #[test]
    fn a_vrid_is_derived_and_steps_aside_for_a_taken_one() {
        let address: IpAddr = "10.20.14.10".parse().unwrap();
        let derived = Vrid::derive(address);
        assert_eq!(choose_vrid(address, None, &BTreeSet::new()), Some(derived));
        let other = choose_vrid(address, None, &BTreeSet::from([derived])).unwrap();
        assert_ne!(other, derived);
        let small = VridRange {
            from: Vrid::new(7).unwrap(),
            to: Vrid::new(8).unwrap(),
        };
        let seven = BTreeSet::from([Vrid::new(7).unwrap()]);
        assert_eq!(choose_vrid(address, Some(small), &seven), Vrid::new(8).ok());
        let both = (7..=8).map(|vrid| Vrid::new(vrid).unwrap()).collect();
        assert_eq!(choose_vrid(address, Some(small), &both), None);
        let every = (1..=255).map(|vrid| Vrid::new(vrid).unwrap()).collect();
        assert_eq!(choose_vrid(address, None, &every), None);
    }

    proptest! {
        #[test]
        fn ranges_hold_what_was_given_less_what_was_excluded(
            given in prop::collection::vec((0_u8..40, 0_u8..40), 1..6),
            excluded in prop::collection::vec((0_u8..40, 0_u8..40), 0..6),
        ) {
            let text = |(a, b): &(u8, u8)| format!("10.0.0.{}-10.0.0.{}", a.min(b), a.max(b));
            let inside = |n: u8, (a, b): &(u8, u8)| (*a.min(b)..=*a.max(b)).contains(&n);
            let spec = VipPoolSpec {
                addresses: given.iter().map(text).collect(),
                excluded_addresses: excluded.iter().map(text).collect(),
                prefix: 24,
                ..VipPoolSpec::default()
            };
            let wanted: Vec<String> = (1..=254_u8)
                .filter(|n| given.iter().any(|range| inside(*n, range)))
                .filter(|n| !excluded.iter().any(|range| inside(*n, range)))
                .map(|n| format!("10.0.0.{n}"))
                .collect();
            match Pool::parse(&spec) {
                Ok(pool) => {
                    let mut found = all(&pool);
                    found.sort_by_key(|text| text.parse::<Ipv4Addr>().unwrap());
                    prop_assert_eq!(pool.total(), wanted.len() as u64);
                    prop_assert_eq!(found, wanted);
                }
                Err(error) => {
                    prop_assert_eq!(error, BadPool::Empty);
                    prop_assert!(wanted.is_empty());
                }
            }
        }
    }
}
