//! Our own core, which mostly initiates, and boringtun's.

use crate::noise::CoreName;

#[path = "attacks.rs"]
mod attacks;
#[path = "doubt.rs"]
mod doubt;
#[path = "harness.rs"]
mod harness;
#[path = "live.rs"]
mod live;
#[path = "roaming.rs"]
mod roaming;
#[path = "rotation.rs"]
mod rotation;
#[path = "sessions.rs"]
mod sessions;
#[cfg(feature = "mock-clock")]
#[path = "time.rs"]
mod time;
#[path = "ways.rs"]
mod ways;

/// What the device with this number runs on.
const fn core(number: u8) -> CoreName {
    match number {
        1 => CoreName::Own,
        _ => CoreName::Boringtun,
    }
}
