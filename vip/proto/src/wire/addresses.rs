//! The address list of a virtual router.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// 1 to 255 addresses of one family in order: what an advertisement can carry (RFC 9568 section
/// 5.2.5).
///
/// Lists of up to eight IPv4 or four IPv6 addresses live inline, so that sending and receiving an
/// advertisement allocates nothing; longer lists are shared.
#[derive(Clone)]
pub struct Addresses(Repr);

#[derive(Clone)]
enum Repr {
    V4 {
        len: u8,
        items: [Ipv4Addr; INLINE_V4],
    },
    V6 {
        len: u8,
        items: [Ipv6Addr; INLINE_V6],
    },
    Shared(Arc<[IpAddr]>),
}

/// A list that no advertisement can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddresses {
    /// None, or more than an advertisement can count.
    #[error("a virtual router has 1 to 255 addresses, not {0}")]
    Count(usize),
    /// IPv4 beside IPv6.
    #[error("an advertisement carries addresses of one family, not IPv4 beside IPv6")]
    Mixed,
}

impl Addresses {
    /// A list of `addresses`.
    ///
    /// # Errors
    ///
    /// An empty list, more than 255 addresses, or two families.
    pub fn new(addresses: &[IpAddr]) -> Result<Self, BadAddresses> {
        let len = match u8::try_from(addresses.len()) {
            Ok(len) if len > 0 => len,
            Ok(_) | Err(_) => return Err(BadAddresses::Count(addresses.len())),
        };
        let v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
        if addresses.iter().any(|address| address.is_ipv6() != v6) {
            return Err(BadAddresses::Mixed);
        }
        let mut v4_items = [Ipv4Addr::UNSPECIFIED; INLINE_V4];
        let mut v6_items = [Ipv6Addr::UNSPECIFIED; INLINE_V6];
        if addresses.len() > if v6 { INLINE_V6 } else { INLINE_V4 } {
            return Ok(Self(Repr::Shared(Arc::from(addresses))));
        }
        let (mut v4_slots, mut v6_slots) = (v4_items.iter_mut(), v6_items.iter_mut());
        for address in addresses {
            match address {
                IpAddr::V4(v4) => v4_slots.next().into_iter().for_each(|slot| *slot = *v4),
                IpAddr::V6(v6) => v6_slots.next().into_iter().for_each(|slot| *slot = *v6),
            }
        }
        Ok(Self(if v6 {
            Repr::V6 {
                len,
                items: v6_items,
            }
        } else {
            Repr::V4 {
                len,
                items: v4_items,
            }
        }))
    }

    /// The addresses in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = IpAddr> + '_ {
        // Every index below the count is there.
        (0..usize::from(self.count()))
            .map(|index| self.get(index).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }

    fn get(&self, index: usize) -> Option<IpAddr> {
        match &self.0 {
            Repr::V4 { items, .. } => items.get(index).copied().map(IpAddr::V4),
            Repr::V6 { items, .. } => items.get(index).copied().map(IpAddr::V6),
            Repr::Shared(items) => items.get(index).copied(),
        }
    }

    /// Whether they are IPv6 addresses; otherwise all are IPv4.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        match &self.0 {
            Repr::V4 { .. } => false,
            Repr::V6 { .. } => true,
            Repr::Shared(items) => items.first().is_some_and(IpAddr::is_ipv6),
        }
    }

    /// How many there are, 1 to 255.
    #[must_use]
    pub fn count(&self) -> u8 {
        match &self.0 {
            Repr::V4 { len, .. } | Repr::V6 { len, .. } => *len,
            Repr::Shared(items) => u8::try_from(items.len()).unwrap_or(u8::MAX),
        }
    }

    /// Whether `address` is in the list.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.iter().any(|own| own == address)
    }

    /// Whether both lists hold the same addresses, in any order.
    #[must_use]
    pub fn same_set(&self, other: &Self) -> bool {
        self.iter().all(|address| other.contains(address))
            && other.iter().all(|address| self.contains(address))
    }

    /// Whether the lists have no address in common.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.iter().all(|address| !other.contains(address))
    }
}

impl PartialEq for Addresses {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Addresses {}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            address.fmt(f)?;
        }
        Ok(())
    }
}

/// Enough for every VIP people configure by hand, small enough to copy.
const INLINE_V4: usize = 8;
const INLINE_V6: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn list(len: u32) -> Vec<IpAddr> {
        (0..len)
            .map(|index| Ipv4Addr::from_bits(0x0a00_0001 + index).into())
            .collect()
    }

    #[test]
    fn one_to_255_addresses_are_kept_in_order() {
        for len in [1, 7, 8, 9, 254, 255] {
            let given = list(len);
            let kept = Addresses::new(&given).unwrap();
            assert_eq!(kept.iter().collect::<Vec<_>>(), given);
            assert_eq!(u32::from(kept.count()), len);
        }
        assert_eq!(Addresses::new(&[]), Err(BadAddresses::Count(0)));
        assert_eq!(Addresses::new(&list(256)), Err(BadAddresses::Count(256)));
    }

    #[test]
    fn sets_are_compared_without_order() {
        let forward = Addresses::new(&list(3)).unwrap();
        let mut reversed = list(3);
        reversed.reverse();
        let backward = Addresses::new(&reversed).unwrap();
        assert_ne!(forward, backward);
        assert!(forward.same_set(&backward));
        assert!(!forward.same_set(&Addresses::new(&list(2)).unwrap()));
        assert!(forward.is_disjoint(&Addresses::new(&[Ipv4Addr::LOCALHOST.into()]).unwrap()));
    }

    #[test]
    fn a_list_is_of_one_family() {
        let v6 = [IpAddr::V6(Ipv6Addr::LOCALHOST); 5];
        for count in [1, 4, 5] {
            let kept = Addresses::new(&v6[..count]).unwrap();
            assert!(kept.is_ipv6());
            assert_eq!(kept.iter().collect::<Vec<_>>(), v6[..count]);
        }
        assert!(!Addresses::new(&list(2)).unwrap().is_ipv6());
        let both = [list(1), v6.to_vec()].concat();
        assert_eq!(Addresses::new(&both), Err(BadAddresses::Mixed));
    }
}
