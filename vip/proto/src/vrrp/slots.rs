//! `priority: auto`: different priorities without anybody choosing them.

use std::{net::Ipv4Addr, time::Duration};

use kedge_core::vip::{AdvertInterval, Priority};

/// The distance between neighbouring slots, so that a take-over (well below a millisecond) is
/// heard before the next Backup's timer fires: `ceil(256 * 1 ms / interval)`.
#[must_use]
pub fn spacing(interval: AdvertInterval) -> u8 {
    let millis = interval.duration().as_millis().max(1);
    u8::try_from(Duration::from_millis(256).as_millis().div_ceil(millis)).unwrap_or(u8::MAX)
}

/// The priority of `slot`: `254 - spacing * slot`, within 192..=254.
#[must_use]
pub fn automatic_priority(interval: AdvertInterval, slot: u8) -> Priority {
    let slot = slot % SLOTS.slots(interval);
    let lowered = u8::MAX - 1 - spacing(interval).saturating_mul(slot).min(SLOTS.0);
    Priority::new(lowered).unwrap_or(Priority::OWNER)
}

/// The slot of a host with `address` in a network of `prefix_len` when no manager hands one out:
/// the host part modulo the number of slots.
#[must_use]
pub fn slot_of(address: Ipv4Addr, prefix_len: u8, interval: AdvertInterval) -> u8 {
    let mask = u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
    let host = address.to_bits() & mask;
    u8::try_from(host % u32::from(SLOTS.slots(interval))).unwrap_or(0)
}

/// The range of priorities that slots are taken from.
#[derive(Clone, Copy, Debug)]
pub struct Slots(u8);

/// 192..=254.
pub const SLOTS: Slots = Slots(254 - 192);

impl Slots {
    /// How many slots there are at `interval`.
    #[must_use]
    pub fn slots(self, interval: AdvertInterval) -> u8 {
        self.0 / spacing(interval) + 1
    }
}
