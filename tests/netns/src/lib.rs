//! Network-namespace tests against real peers.
