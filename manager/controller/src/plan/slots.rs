//! The order of priorities among the hosts of a VIP.

use std::collections::{BTreeMap, BTreeSet};

use kedge_core::vip::{AdvertInterval, Priority};

/// A slot for every host: those it has stay, new hosts get the lowest free one.
#[must_use]
pub fn assign(kept: &BTreeMap<String, u8>, hosts: &BTreeSet<&str>) -> BTreeMap<String, u8> {
    let stays = |(host, _): &(&String, &u8)| hosts.contains(host.as_str());
    let mut slots: BTreeMap<String, u8> = kept
        .iter()
        .filter(stays)
        .map(|(host, slot)| (host.clone(), *slot))
        .collect();
    let mut taken: BTreeSet<u8> = slots.values().copied().collect();
    for host in hosts {
        if slots.contains_key(*host) {
            continue;
        }
        // More than 256 hosts of one VIP share the last slot; the address breaks the tie.
        let slot = (0..=u8::MAX).find(|slot| !taken.contains(slot));
        let slot = slot.unwrap_or(u8::MAX);
        taken.insert(slot);
        slots.insert((*host).to_owned(), slot);
    }
    slots
}

/// The priority of a slot: 254 less one spacing per slot, never below 192.
///
/// The spacing makes two neighbours' skew times differ by more than a take-over takes (1 ms), so
/// that the loser hears the winner before it speaks itself.
#[must_use]
pub fn priority(slot: u8, interval: AdvertInterval) -> Priority {
    let interval_millis = u32::from(interval.centis()) * 10;
    let spacing = 256_u32.div_ceil(interval_millis);
    let places = u32::from(HIGHEST - LOWEST) / spacing + 1;
    let below = u32::from(slot) % places * spacing;
    let value = u32::from(HIGHEST).saturating_sub(below);
    let value = u8::try_from(value).unwrap_or(HIGHEST);
    Priority::new(value).unwrap_or(Priority::OWNER)
}

const HIGHEST: u8 = 254;
const LOWEST: u8 = 192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_keep_their_slot_and_gaps_are_filled() {
        let slots = assign(&BTreeMap::new(), &BTreeSet::from(["a", "b", "c"]));
        assert_eq!(
            slots,
            BTreeMap::from([("a".into(), 0), ("b".into(), 1), ("c".into(), 2)])
        );
        let slots = assign(&slots, &BTreeSet::from(["0", "b", "c"]));
        assert_eq!(
            slots,
            BTreeMap::from([("0".into(), 0), ("b".into(), 1), ("c".into(), 2)])
        );
    }

    #[test]
    fn priorities_are_spaced_by_what_a_take_over_takes() {
        let at = |slot, centis| priority(slot, AdvertInterval::from_centis(centis).unwrap()).get();
        assert_eq!([at(0, 10), at(1, 10), at(2, 10)], [254, 251, 248]);
        assert_eq!([at(0, 100), at(1, 100)], [254, 253]);
        assert_eq!(
            [at(0, 1), at(1, 1), at(2, 1), at(3, 1)],
            [254, 228, 202, 254]
        );
        for centis in [1, 10, 100, 4095] {
            for slot in 0..=255 {
                assert!((192..=254).contains(&at(slot, centis)));
            }
        }
    }
}
