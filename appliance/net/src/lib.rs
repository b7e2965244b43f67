//! The kernel, and the only crate with `unsafe`: netlink, raw and packet sockets, TUN, UDP,
//! namespaces, nftables.
//!
//! Everything a role changes in the kernel carries [`PROTOCOL`], and nothing else is touched. What
//! a lab builds in namespaces of its own ([`link`], [`nft`]) goes with them.

pub mod address;
pub mod arp;
pub mod arrival;
pub mod bfd;
pub mod bgp;
mod bpf;
pub mod channel;
pub mod clamp;
pub mod clock;
pub mod connections;
pub mod detour;
pub mod fence;
pub mod holder;
pub mod icmp;
pub mod limits;
pub mod link;
pub mod memory;
pub mod monitor;
pub mod nd;
pub mod netns;
pub mod nft;
pub mod on_link;
pub mod page;
mod peer_socket;
pub mod presence;
pub mod privilege;
pub mod process;
pub mod route_events;
pub mod router;
mod rtnl;
pub mod sched;
pub mod splice;
pub mod standing;
pub mod station;
pub mod stream;
mod sys;
pub mod table;
pub mod tap;
pub mod tcp_ao;
pub mod tun;
pub mod udp;
pub mod underlay;
pub mod virtual_link;
pub mod vrrp;
pub mod wait;
pub mod wireguard;

pub use sys::packet::Mac;

/// The protocol number of every address (`IFA_PROTO`) and route Kedge installs.
pub const PROTOCOL: u8 = 107;
