//! `priority: auto`: different priorities without anybody choosing them.

use std::net::IpAddr;

use kedge_core::vip::{AdvertInterval, Priority};

/// The distance between neighbouring slots, so that a take-over (well below a millisecond) is
/// heard before the next Backup's timer fires: `ceil(256 * 1 ms / interval)`.
#[must_use]
pub fn spacing(interval: AdvertInterval) -> u8 {
    u8::try_from(256_u16.div_ceil(interval.centis() * 10)).unwrap_or(u8::MAX)
}

/// The priority of `slot`: `254 - spacing * slot`, within 192..=254.
#[must_use]
pub fn automatic_priority(interval: AdvertInterval, slot: u8) -> Priority {
    let slot = slot % slots(interval);
    let lowered = u8::MAX - 1 - spacing(interval).saturating_mul(slot).min(RANGE);
    Priority::new(lowered).unwrap_or(Priority::OWNER)
}

/// The slot of a host with `address` in a network of `prefix_len` when no manager hands one out:
/// the host part modulo the number of slots.
#[must_use]
pub fn slot_of(address: IpAddr, prefix_len: u8, interval: AdvertInterval) -> u8 {
    let host = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
            u128::from(v4.to_bits() & mask)
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
            v6.to_bits() & mask
        }
    };
    u8::try_from(host % u128::from(slots(interval))).unwrap_or(0)
}

/// How many slots there are at `interval`.
#[must_use]
pub fn slots(interval: AdvertInterval) -> u8 {
    RANGE / spacing(interval) + 1
}

/// From 254 down to 192.
const RANGE: u8 = 254 - 192;
