//! Entries of a pool as ranges of numbers, and what is left of ranges without others.

use std::net::IpAddr;

use ipnet::IpNet;
use kedge_crd::host::Family;

use super::BadPool;

/// Both ends included.
pub type Range = (u128, u128);

/// Reads an address, a range `a-b` or a prefix.
pub fn read(entry: &str) -> Result<(Family, Range), BadPool> {
    let bad = || BadPool::Entry(shown(entry));
    let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| bad());
    let (from, to) = if let Some((from, to)) = entry.split_once('-') {
        (address(from)?, address(to)?)
    } else if entry.contains('/') {
        let net: IpNet = entry.trim().parse().map_err(|_| bad())?;
        (net.network(), net.broadcast())
    } else {
        let one = address(entry)?;
        (one, one)
    };
    let ((family, from), (other, to)) = (number(from), number(to));
    if family != other {
        return Err(BadPool::Family(shown(entry)));
    }
    if from > to {
        return Err(BadPool::Backwards(shown(entry)));
    }
    Ok((family, (from, to)))
}

/// An address as a number of its family.
pub fn number(address: IpAddr) -> (Family, u128) {
    let number = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    (Family::of(address), number)
}

/// An entry as it may be shown.
pub fn shown(entry: &str) -> String {
    entry.escape_debug().take(100).collect()
}

/// The same ranges, disjoint and in order.
pub fn union(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, end)) if from <= end.saturating_add(1) => *end = to.max(*end),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// What is left of a range.
pub fn without((from, to): Range, (hole_from, hole_to): Range) -> Vec<Range> {
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
