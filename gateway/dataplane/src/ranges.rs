//! Which clients are let in, by their addresses.

use std::{
    net::IpAddr,
    sync::{PoisonError, RwLock},
};

use ipnet::IpNet;

/// Which clients a listener lets in. It goes for connections and datagrams that come from here on.
#[derive(Debug, Default)]
pub(crate) struct Ranges(RwLock<Vec<IpNet>>);

impl Ranges {
    /// Lets in clients with these addresses alone; everybody without one.
    pub fn set(&self, ranges: Vec<IpNet>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ranges;
    }

    /// Whether everybody is let in.
    pub fn is_open(&self) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// Whether a client is let in.
    pub fn has(&self, client: IpAddr) -> bool {
        // A socket of IPv6 takes IPv4, too.
        let client = client.to_canonical();
        let ranges = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ranges.is_empty() || ranges.iter().any(|range| range.contains(&client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_the_ranges_are_let_in_and_everybody_where_there_are_none() {
        let ranges = Ranges::default();
        let has = |client: &str| ranges.has(client.parse().unwrap());
        assert!(ranges.is_open() && has("192.0.2.1") && has("2001:db8::1"));
        let of = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect();
        ranges.set(of(&["192.0.2.0/24", "2001:db8::/64"]));
        assert!(!ranges.is_open());
        assert!(has("192.0.2.255") && has("::ffff:192.0.2.1") && has("2001:db8::1"));
        assert!(!has("192.0.3.0") && !has("::ffff:192.0.3.1") && !has("2001:db8:0:1::1"));
        ranges.set(of(&["0.0.0.0/0"]));
        assert!(has("198.51.100.1") && !has("2001:db8::1"), "of one family");
        ranges.set(Vec::new());
        assert!(has("2001:db8::1"));
    }
}
