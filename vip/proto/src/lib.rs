//! VRRP, ARP, Neighbor Discovery, BFD and BGP: codecs and sans-IO machines.
//!
//! * [`wire`]: packets as types that can only hold what can be emitted and parsed back.
//! * [`vrrp`]: the virtual router, one [`vrrp::Router`] per (interface, VRID, family).
//! * [`auth`]: signed adverts.
//! * [`bfd`]: whether the path to a peer works, one [`bfd::Session`] per peer.
//! * [`bgp`]: who is told of routes, one [`bgp::Session`] per neighbour.
//! * [`routers`]: who is at the other end of a link, by what routers say of themselves.
//! * [`claim`]: how a claim to an address is announced, watched, defended and first tested.
//!
//! Nothing here reads a clock, opens a socket or draws a random number: the same inputs at the
//! same instants give the same outputs, which is what the simulator relies on.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod auth;
pub mod bfd;
pub mod bgp;
pub mod claim;
mod dice;
pub mod routers;
#[cfg(test)]
mod table;
pub mod vrrp;
pub mod wire;
