//! Our own provider of addresses: which addresses a VIPPool holds, and the lowest free one.

mod range;

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use kedge_core::vip::Vrid;
use kedge_crd::{
    host::Family,
    pool::{VipPoolSpec, VridRange},
};

use self::range::{Range, number, read, union, without};

/// The addresses of a pool that may be given away: disjoint ranges in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    ranges: Vec<Range>,
    /// What is left out of every LAN of that size.
    reserved: Option<Reserved>,
    /// The family of its addresses.
    pub family: Family,
    /// The prefix length of the LAN.
    pub prefix: u8,
    /// The LAN's router.
    pub gateway: Option<IpAddr>,
    /// How long an address rests before it is given away again.
    pub grace: Duration,
    /// The virtual router identifiers of the LAN.
    pub vrids: Option<VridRange>,
}

/// The addresses of every LAN that are nobody's: its first, and for IPv4 its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reserved {
    size: u128,
    last: bool,
}

/// Why a pool cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPool {
    /// An entry is no address, range or prefix.
    #[error("`{0}` is not an address, a range `a-b` or a prefix")]
    Entry(String),
    /// An entry is of the other family.
    #[error("`{0}` is not of the family of the pool's first address")]
    Family(String),
    /// A range runs backwards.
    #[error("the range `{0}` ends before it begins")]
    Backwards(String),
    /// The prefix length is impossible.
    #[error("prefix {0} is not one of the pool's family")]
    Prefix(u8),
    /// The range of VRIDs is empty.
    #[error("vrid.from is greater than vrid.to")]
    Vrids,
    /// There are too many entries.
    #[error("more than {MAX_ENTRIES} entries")]
    Entries,
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
        let first = spec.addresses.first().ok_or(BadPool::Empty)?;
        let (family, _) = read(first)?;
        let width: u8 = match family {
            Family::IPv4 => 32,
            Family::IPv6 => 128,
        };
        if !(1..=width).contains(&spec.prefix) {
            return Err(BadPool::Prefix(spec.prefix));
        }
        if spec.vrid.is_some_and(|range| range.from > range.to) {
            return Err(BadPool::Vrids);
        }
        let of_family = |entries: &[String]| -> Result<Vec<Range>, BadPool> {
            let read = |entry: &String| match read(entry)? {
                (found, range) if found == family => Ok(range),
                _ => Err(BadPool::Family(range::shown(entry))),
            };
            entries.iter().map(read).collect()
        };
        let mut ranges = union(of_family(&spec.addresses)?);
        let mut excluded = of_family(&spec.excluded_addresses)?;
        if let Some(gateway) = spec.gateway {
            let (found, number) = number(gateway);
            if found != family {
                return Err(BadPool::Family(gateway.to_string()));
            }
            excluded.push((number, number));
        }
        for hole in excluded {
            ranges = ranges
                .into_iter()
                .flat_map(|range| without(range, hole))
                .collect();
        }
        // A LAN of one or two addresses has none to spare.
        let has_spare = !spec.allocate_reserved && spec.prefix <= width.saturating_sub(2);
        let size = 1_u128.checked_shl(u32::from(width - spec.prefix));
        let pool = Self {
            ranges,
            reserved: size.filter(|_| has_spare).map(|size| Reserved {
                size,
                last: family == Family::IPv4,
            }),
            family,
            prefix: spec.prefix,
            gateway: spec.gateway,
            grace: Duration::from_secs(
                spec.address_reuse_grace_period_seconds
                    .unwrap_or_default()
                    .into(),
            ),
            vrids: spec.vrid,
        };
        if pool.total() == 0 {
            return Err(BadPool::Empty);
        }
        Ok(pool)
    }

    /// How many addresses may be given away, as far as a number of an API can tell.
    #[must_use]
    pub fn total(&self) -> u64 {
        let count = |(from, to): &Range| {
            let reserved = self.reserved.map_or(0, |it| it.within(*from, *to));
            (to - from).saturating_add(1).saturating_sub(reserved)
        };
        let total = self.ranges.iter().map(count).fold(0, u128::saturating_add);
        u64::try_from(total).unwrap_or(MOST).min(MOST)
    }

    /// Whether the address may be given away.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (family, number) = number(address);
        family == self.family
            && !self.is_reserved(number)
            && self
                .ranges
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&number))
    }

    /// The lowest address that is not taken.
    #[must_use]
    pub fn lowest_free(&self, taken: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        self.ranges
            .iter()
            .flat_map(|(from, to)| *from..=*to)
            .filter(|number| !self.is_reserved(*number))
            .filter_map(|number| self.address(number))
            .find(|address| !taken(*address))
    }

    fn is_reserved(&self, number: u128) -> bool {
        self.reserved.is_some_and(|it| it.holds(number))
    }

    fn address(&self, number: u128) -> Option<IpAddr> {
        match self.family {
            Family::IPv4 => {
                let number = u32::try_from(number).ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(number)))
            }
            Family::IPv6 => Some(IpAddr::V6(Ipv6Addr::from(number))),
        }
    }
}

impl Reserved {
    const fn holds(self, number: u128) -> bool {
        number.is_multiple_of(self.size)
            || (self.last && number.saturating_add(1).is_multiple_of(self.size))
    }

    /// How many from the one to the other, both included.
    fn within(self, from: u128, to: u128) -> u128 {
        let multiples = |from: u128, to: u128| {
            to / self.size - from / self.size + u128::from(from.is_multiple_of(self.size))
        };
        let first = multiples(from, to);
        if !self.last {
            return first;
        }
        first + multiples(from.saturating_add(1), to.saturating_add(1))
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

const MAX_ENTRIES: usize = 1024;
/// What an integer of an API holds.
const MOST: u64 = i64::MAX.unsigned_abs();

#[cfg(test)]
mod tests;
