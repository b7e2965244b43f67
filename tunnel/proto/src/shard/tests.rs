//! Two shards, or three, that talk through a queue of datagrams: the same tests for peers that run
//! on boringtun's core, on our own, and on one of each.
//!
//! boringtun's reads the real clock, unless the feature `mock-clock` gives it that of the test;
//! everything else runs on the clock of the test. So what takes minutes is tested with our own
//! core, and with boringtun's when that feature is on.
#![expect(
    clippy::duplicate_mod,
    reason = "the tests are the same for each pair of cores"
)]

mod boringtun;
mod called_by_boringtun;
mod calling_boringtun;
mod own;
