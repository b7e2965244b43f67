//! Two shards, or three, that talk through a queue of datagrams. The Noise core reads the real
//! clock; everything else runs on the clock of the test.

mod attacks;
mod harness;
mod roaming;
mod sessions;
