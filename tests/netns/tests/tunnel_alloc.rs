//! Forwarding allocates nothing: not in the workers, not per packet, in neither direction.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

#[allow(dead_code, reason = "the other tests want more of it")]
mod tunnel;

use std::{alloc::System, time::Duration};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tunnel::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn ten_thousand_packets_each_way_allocate_nothing() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let (host, gateway) = site.open();
    let _echo = site.echo();
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    let limit = Duration::from_secs(5);
    eventually("first answer", limit, || {
        answered(&v6, GATEWAY) && answered(&v4, GATEWAY_V4)
    });
    let before = (peer(&host), peer(&gateway));
    let mut lost = 0;
    let region = Region::new(ALLOCATOR);
    for _ in 0..5_000 {
        lost += u32::from(!answered_within(&v6, GATEWAY, limit));
        lost += u32::from(!answered_within(&v4, GATEWAY_V4, limit));
    }
    let change = region.change();
    let after = (peer(&host), peer(&gateway));
    println!(
        "{} allocations, {} reallocations, {lost} lost",
        change.allocations, change.reallocations
    );
    assert_eq!(
        (
            change.allocations,
            change.reallocations,
            change.deallocations
        ),
        (0, 0, 0)
    );
    assert_eq!(lost, 0);
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        assert!(after.rx_packets - before.rx_packets >= 10_000);
        assert!(after.tx_packets - before.tx_packets >= 10_000);
    }
}
