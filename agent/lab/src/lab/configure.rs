//! What a node's kernel is told: addresses, routes, forwarding.

use kedge_net::{
    link::{LinkError, Links, sysctl},
    nft,
};

use crate::{error::LabError, topology::NodePlan};

pub(super) fn configure(plan: &NodePlan) -> Result<(), LabError> {
    let mut links = Links::open()?;
    links.up("lo")?;
    for leg in &plan.legs {
        links.add_address(leg.link, leg.address)?;
        links.up(leg.link)?;
        ask_again_soon(leg.link)?;
    }
    for (destination, gateway) in &plan.routes {
        links.add_route(*destination, *gateway)?;
    }
    if plan.forwards {
        sysctl("ipv4/ip_forward", "1")?;
    }
    if let Some(link) = plan.masquerade {
        nft::masquerade(link)?;
    }
    Ok(())
}

/// A host that answers in the instant its link comes back can lose its question for the asker's
/// hardware address: the link may receive before it may send. The kernel repeats the question
/// after a second, longer than most of what is measured here. IPv6 keeps its second: the same timer
/// is how long it looks for a duplicate of an address.
fn ask_again_soon(link: &str) -> Result<(), LinkError> {
    sysctl(&format!("ipv4/neigh/{link}/retrans_time_ms"), "100")
}
