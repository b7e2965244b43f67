//! Two shards, or three, that talk through a queue of datagrams. The Noise core reads the real
//! clock, unless the feature `mock-clock` gives it that of the test; everything else runs on the
//! clock of the test.

mod attacks;
mod harness;
mod roaming;
mod sessions;
#[cfg(feature = "mock-clock")]
mod time;
