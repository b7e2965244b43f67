//! Claiming an address on a LAN: announcing it, testing it first, noticing others that claim it.

mod announcer;
mod defence;
mod probe;

pub use announcer::{Announcer, Place};
pub use defence::Defence;
pub use probe::Probe;

#[cfg(test)]
mod tests;
