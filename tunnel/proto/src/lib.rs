//! WireGuard peers around the Noise cores, allowed IPs, in-tunnel echo: no I/O.
//!
//! [`shard::Shard`] is what a worker owns: peers, timers, the prefix table. [`directory`] turns wanted
//! peers into the smallest change, [`allowed`] knows who owns an inner address, [`noise`] has the
//! handshakes and sessions, `admission` decides who gets a handshake first, [`guard`] tells how that
//! stands, [`pmtu`] finds what the way to a peer carries, [`echo`] proves that a session is alive,
//! [`failover`] chooses between gateways, [`direct`] between them and a direct path, [`fallback`] between
//! UDP and TLS, [`shortcut`] between a gateway and the hosts of the site, [`keys`] holds keys, [`packet`]
//! splits and joins inner packets by the batch, [`uapi`] is what WireGuard's tools say.

mod admission;
pub mod allowed;
mod backlog;
pub mod bench;
pub mod counters;
pub mod direct;
pub mod directory;
#[cfg(test)]
mod driven;
pub mod drops;
pub mod echo;
pub mod failover;
pub mod fallback;
pub mod guard;
mod jitter;
pub mod keys;
pub mod memory;
pub mod noise;
pub mod other;
pub mod packet;
mod peer;
mod place;
pub mod pmtu;
pub mod realm;
pub mod shard;
pub mod shortcut;
pub mod uapi;
pub mod way;
pub mod wire;
