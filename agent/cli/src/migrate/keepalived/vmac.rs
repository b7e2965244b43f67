//! `use_vmac` becomes `virtual_mac`, where every member can hear what that means.

use serde_json::json;

use super::tree::Statement;
use crate::migrate::{draft::Draft, later::Later, report::Report};

/// Takes over the line `use_vmac` of an instance whose block is `block`.
pub(super) fn take(
    draft: &mut Draft,
    report: &mut Report,
    block: &[Statement],
    line: &Statement,
    what: String,
) {
    let place = &line.place;
    if block.iter().any(|it| it.keyword() == "vmac_xmit_base") {
        let consequence = "beside vmac_xmit_base keepalived hears no advertisement from the virtual MAC \
                           address: the address has the interface's own MAC address. Once every member is \
                           Kedge, set `virtual_mac: true` on all of them";
        return report.missing(place, what, consequence);
    }
    if line.word(1).is_empty() {
        let value = (Later::VirtualMac, json!(true));
        return draft.later(report, place, what, value, "");
    }
    // A name, a hardware address, or both.
    draft.set("virtual_mac", true);
    let how = format!(
        "the macvlan is called kedge-vrVRID-4 or kedge-vrVRID-6 and has the MAC address of RFC 9568, not \
         {}",
        line.shown(1)
    );
    report.different(place, what, draft.path("virtual_mac"), how);
}
