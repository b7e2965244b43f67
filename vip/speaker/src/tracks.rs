//! What a VIP watches beside its link and its service, as the agent tells it.

use kedge_vip_proto::vrrp::Tracked;

/// Everything that is tracked for a VIP, added up and in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracks {
    /// What it means for the router.
    pub tracked: Tracked,
    /// What changed last, as a sentence without a full stop, such as
    /// `track uplink: eth1 has no carrier`.
    pub because: String,
    /// Everything that fails, critical tracks first, in the same words; empty when nothing does.
    pub failing: String,
}
