//! What BGP does where nobody said anything.

use std::num::NonZeroU16;

use kedge_vip_speaker::bgp::PORT;

use crate::config::{
    BgpFile, BgpModeFile, FamilyFile,
    values::{GracefulSpan, RetrySpan, RouteTable, SilenceSpan},
};

pub(super) fn fill(file: &mut BgpFile) {
    let mode = *file.mode.get_or_insert_default();
    if mode == BgpModeFile::RouteTableOnly {
        file.table.get_or_insert(RouteTable::DEFAULT);
        return;
    }
    let defaults = file.defaults.get_or_insert_default();
    defaults.hold_time.get_or_insert(SilenceSpan::DEFAULT);
    defaults.connect_retry.get_or_insert(RetrySpan::DEFAULT);
    defaults
        .families
        .get_or_insert_with(|| vec![FamilyFile::Ipv4, FamilyFile::Ipv6]);
    defaults.extended_next_hop.get_or_insert(false);
    defaults.ttl_security.get_or_insert(false);
    defaults.graceful_shutdown.get_or_insert(GracefulSpan::NONE);
    for neighbor in file.neighbors.get_or_insert_default().values_mut() {
        if neighbor.port.is_none() {
            neighbor.port = NonZeroU16::new(PORT);
        }
        neighbor.passive.get_or_insert(false);
        neighbor.shutdown.get_or_insert(false);
    }
}
