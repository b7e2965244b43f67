//! The MTU a device can have.

use std::ops::RangeInclusive;

use kedge_core::{Code, Fix, Problem};

/// The MTU where nobody wants another.
pub const DEFAULT: u16 = 1420;

/// Below it there is no IPv6, and the overlay is IPv6.
pub const BOUNDS: RangeInclusive<u16> = 1280..=9000;

/// The manager's wish, where a device can have it; otherwise the default, and why.
pub fn wished(mtu: u16, problems: &mut Vec<Problem>) -> u16 {
    if BOUNDS.contains(&mtu) {
        return mtu;
    }
    problems.push(
        Problem::warning(
            Code::ConfigOutOfRange,
            format!("the manager wants the MTU {mtu} for the tunnel"),
        )
        .object("tunnel")
        .evidence(format!("must be {} to {}", BOUNDS.start(), BOUNDS.end()))
        .consequence(format!("the tunnel's MTU is {DEFAULT}"))
        .fix(Fix::text(
            "correct the gateway's MTU at the manager, or set tunnel.mtu here",
        )),
    );
    DEFAULT
}
