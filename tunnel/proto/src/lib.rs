//! WireGuard peers around the Noise core, allowed IPs, in-tunnel echo: no I/O.
//!
//! [`directory`] turns wanted peers into the smallest change, [`allowed`] knows who owns an inner
//! address, [`echo`] proves that a session is alive, [`keys`] holds keys.

pub mod allowed;
pub mod counters;
pub mod directory;
pub mod drops;
pub mod echo;
pub mod keys;
