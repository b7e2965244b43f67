//! VIPs that move together have one election, so they agree in what decides it.

use std::collections::BTreeMap;

use kedge_core::{Fix, Name, Problem, vip::Priority};

use super::rule;
use crate::config::VipConfig;

pub(super) fn check(vips: &BTreeMap<Name, VipConfig>, problems: &mut Vec<Problem>) {
    let mut groups: BTreeMap<&Name, (&Name, &VipConfig)> = BTreeMap::new();
    for (name, vip) in vips {
        let Some(group) = &vip.sync_group else {
            continue;
        };
        if vip.priority == Some(Priority::OWNER) {
            let what = "the owner of the address moves with no other VIP";
            let fix = Fix::text("leave `sync_group` out, or take a priority below 255");
            problems.push(rule(&format!("vips.{name}.sync_group"), what).fix(fix));
            continue;
        }
        let (first, other) = groups.entry(group).or_insert((name, vip));
        if let Some(part) = difference(vip, other) {
            let what = format!("{first} and {name} move together, and their {part} differs");
            let fix = Fix::text(format!(
                "give all VIPs of the group {group} the same {part}"
            ));
            problems.push(rule(&format!("vips.{name}.{part}"), what).fix(fix));
        }
    }
}

/// The key in which two VIPs differ that must not.
fn difference(one: &VipConfig, other: &VipConfig) -> Option<&'static str> {
    let differs = [
        ("priority", one.priority != other.priority),
        ("members", one.members != other.members),
        ("preempt", one.preempt != other.preempt),
        ("preempt_delay", one.preempt_delay != other.preempt_delay),
        ("health", one.health != other.health),
    ];
    let first = differs.into_iter().find(|(_, differs)| *differs);
    first.map(|(part, _)| part)
}
