//! Inner packets by the batch: what the host's super packets are cut into, and what is put together
//! again before the host sees it.
//!
//! ```text
//!   TUN read:   virtio_net_hdr | super packet  ── split ────► segments, each with checksums of its own
//!   TUN write:  virtio_net_hdr | first | payload | …  ◄── coalesce ── a batch of opened packets
//! ```
//!
//! Pure functions on slices. Nothing here allocates for a packet, and no bytes of a peer or of the
//! kernel can make it panic.

pub mod checksum;
pub mod coalesce;
pub mod ecn;
mod field;
#[cfg(test)]
mod model;
pub mod split;
pub mod view;
pub mod vnet;

/// The largest IP packet, and the largest super packet.
pub const LARGEST: usize = 65_535;
