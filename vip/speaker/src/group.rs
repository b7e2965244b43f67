//! Who leads the VIPs that move together.

use std::collections::{BTreeMap, BTreeSet};

use kedge_core::Name;
use kedge_vip_proto::vrrp::Lead;

use crate::VipSpec;

/// Says in each group who leads: the same one on every host that has the same VIPs. What cannot be
/// run leads nobody. Whoever freezes one VIP of a group freezes all: they move together.
pub(crate) fn appoint(vips: &mut [VipSpec]) {
    let mut leaders: BTreeMap<Name, Rank> = BTreeMap::new();
    for vip in vips.iter_mut() {
        vip.follows = false;
        if let Some(group) = vip.sync_group.clone().filter(|_| vip.check().is_ok()) {
            let rank = rank(vip);
            let first = leaders.entry(group).or_insert_with(|| rank.clone());
            if rank < *first {
                *first = rank;
            }
        }
    }
    let frozen: BTreeSet<Name> = vips
        .iter()
        .filter(|vip| vip.frozen)
        .filter_map(|vip| vip.sync_group.clone())
        .collect();
    for vip in vips {
        vip.frozen |= vip
            .sync_group
            .as_ref()
            .is_some_and(|it| frozen.contains(it));
        let leader = vip.sync_group.as_ref().and_then(|group| leaders.get(group));
        // The owner of the address is Active whatever the others do.
        vip.follows = !vip.owner && leader.is_some_and(|leader| *leader != rank(vip));
    }
}

/// Family and VRID, and the name for those that share both on two interfaces.
type Rank = ((bool, u8), Name);

fn rank(vip: &VipSpec) -> Rank {
    (Lead::rank(vip.is_ipv6(), vip.vrid), vip.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::spec;

    #[test]
    fn the_same_vip_leads_whatever_the_names_and_the_order_are() {
        let member = |name: &str, address: &str, group: &str| VipSpec {
            sync_group: Some(group.parse().unwrap()),
            ..spec(name, address)
        };
        let vips = [
            member("a", "fd00::1", "gate"),
            member("b", "10.20.14.20", "gate"),
            member("c", "10.20.14.30", "gate"),
            member("d", "fd00::2", "other"),
            spec("e", "10.20.14.40"),
        ];
        let b_first = vips[1].vrid < vips[2].vrid;
        let leads = |mut vips: Vec<VipSpec>| {
            appoint(&mut vips);
            let mut leads: Vec<String> = vips
                .iter()
                .filter(|vip| !vip.follows)
                .map(|vip| vip.name.to_string())
                .collect();
            leads.sort();
            leads
        };
        let expected = [if b_first { "b" } else { "c" }, "d", "e"];
        assert_eq!(leads(vips.to_vec()), expected);
        let mut turned = vips.to_vec();
        turned.reverse();
        assert_eq!(leads(turned), expected);
        let mut frozen = vips.to_vec();
        frozen[2].frozen = true;
        appoint(&mut frozen);
        let stands = frozen.iter().map(|vip| vip.frozen).collect::<Vec<_>>();
        assert_eq!(stands, [true, true, true, false, false]);
        // A leader that goes is followed by the next one.
        let rest = vips.iter().filter(|vip| vip.name.as_str() != expected[0]);
        assert_eq!(leads(rest.cloned().collect()).len(), 3);
    }
}
