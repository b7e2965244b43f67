//! Every device on our own core.

use crate::noise::CoreName;

#[path = "asleep.rs"]
mod asleep;
#[path = "attacks.rs"]
mod attacks;
#[path = "crew.rs"]
mod crew;
#[path = "cured.rs"]
mod cured;
#[path = "doubt.rs"]
mod doubt;
#[path = "harness.rs"]
mod harness;
#[path = "here.rs"]
mod here;
#[path = "live.rs"]
mod live;
#[path = "realms.rs"]
mod realms;
#[path = "roaming.rs"]
mod roaming;
#[path = "rotation.rs"]
mod rotation;
#[path = "sessions.rs"]
mod sessions;
#[path = "time.rs"]
mod time;
#[path = "ways.rs"]
mod ways;

/// What the device with this number runs on.
const fn core(_: u8) -> CoreName {
    CoreName::Own
}
