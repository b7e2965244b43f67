//! What is wrong with a VIP, in the shape in which people see it.

use std::{net::IpAddr, time::Duration};

use kedge_core::{Code, Fix, Name, Problem};
use kedge_net::monitor::MacText;
use kedge_vip_proto::{vrrp::Notice, wire::Mac};

use super::Malformed;
use crate::{Chosen, Tracks};

/// How long something that happened once counts as a problem. Routers repeat a notice once a
/// minute while it holds.
pub(super) const NOTICE_LASTS: Duration = Duration::from_secs(90);

pub(super) fn link_down(name: &Name, chosen: &Chosen) -> Problem {
    Problem::new(Code::VipLinkDown, format!("{} has no link", chosen.name))
        .object(vip(name))
        .evidence(chosen.because.clone())
        .consequence("this host does not take part in electing the owner")
        .fix(
            Fix::text("check the cable, the switch port, or set the interface up")
                .command(format!("ip link show dev {}", chosen.name)),
        )
}

pub(super) fn address_in_use(name: &Name, address: IpAddr, mac: Mac) -> Problem {
    Problem::new(
        Code::VipAddressInUse,
        format!("another host answers for {address}"),
    )
    .object(vip(name))
    .evidence(format!(
        "{mac} answered a probe, and it is no VRRP router for this VIP"
    ))
    .consequence("Kedge does not claim the address while somebody else uses it")
    .fix(
        Fix::text(format!(
            "find the host with {mac} and take {address} from it, or choose \
                               another VIP"
        ))
        .command(match address {
            IpAddr::V4(_) => format!("arping -D -c 3 {address}"),
            IpAddr::V6(_) => format!("ndisc6 {address} IFNAME"),
        }),
    )
}

pub(super) fn unhealthy(name: &Name, why: &str) -> Problem {
    Problem::warning(
        Code::VipUnhealthy,
        "the VIP's service is not healthy on this host",
    )
    .object(vip(name))
    .evidence(why)
    .consequence("a healthy host takes the VIP; it stays here only if there is none")
    .fix(
        Fix::text("see why the service does not answer")
            .command(format!("kedge vip explain {name}")),
    )
}

pub(super) fn track(name: &Name, tracks: &Tracks) -> Problem {
    let critical = tracks.tracked.critical;
    let what = "what the VIP tracks fails on this host";
    let problem = if critical {
        Problem::new(Code::VipTrackFailed, what)
    } else {
        Problem::warning(Code::VipTrackFailed, what)
    };
    problem
        .object(vip(name))
        .evidence(tracks.failing.clone())
        .consequence(if critical {
            "this host does not hold the VIP while that lasts"
        } else {
            "this host advertises a lower priority: a host above it that preempts takes the VIP"
        })
        .fix(
            Fix::text("see to what failed; the priority is back as soon as it is")
                .command(format!("kedge vip explain {name}")),
        )
}

pub(super) fn cannot_send(name: &Name, errno: i32) -> Problem {
    let error = std::io::Error::from_raw_os_error(errno);
    Problem::new(
        Code::VrrpSocket,
        "the kernel does not send this host's advertisements",
    )
    .object(vip(name))
    .evidence(error.to_string())
    .consequence("other hosts believe that this one is gone and take the VIP")
    .fix(
        Fix::text(
            "allow protocol 112 (to 224.0.0.18, ff02::12 or the unicast peers) in the output \
             chain of the firewall",
        )
        .command("nft list ruleset"),
    )
}

pub(super) fn malformed(name: &Name, interface: &str, malformed: Malformed) -> Problem {
    let from = MacText(malformed.mac);
    Problem::warning(
        Code::VrrpMalformed,
        format!("malformed packets arrive on {interface}"),
    )
    .object(vip(name))
    .evidence(format!(
        "the last one came from {from}: {}",
        malformed.reason
    ))
    .consequence("they are dropped and change nothing")
    .fix(
        Fix::text(format!("look at what {from} sends"))
            .command(format!("tcpdump -eni {interface} proto 112 or arp")),
    )
}

pub(super) fn of_notice(name: &Name, notice: &Notice) -> Problem {
    let (code, consequence, cure) = match notice {
        Notice::ForeignClaim { persistent, .. } => (
            Code::VipDuplicateOwner,
            if *persistent {
                "some clients reach the other host, and Kedge answers only now and then"
            } else {
                "Kedge announced the address again at once"
            },
            "find the host with that hardware address and remove the address from it",
        ),
        Notice::Unheard { .. } => (
            Code::VrrpSplitBrain,
            "both hosts hold the VIP",
            "let protocol 112 through the peer's firewall, and use the same VRRP version and \
             checksum there",
        ),
        Notice::VridInUse { .. } => (
            Code::VipVridInUse,
            "nothing yet, but the two disturb each other's election",
            "give this VIP a free `vrid`, the same on all of its hosts",
        ),
        Notice::AddressesDiffer { .. } => (
            Code::VipVridInUse,
            "the election works, but who wins serves only his own list",
            "configure the same addresses in the same order on all hosts",
        ),
        Notice::IntervalDiffers { .. } => (
            Code::ConfigRule,
            "the Active's interval is learned; a take-over takes as long as it says",
            "configure the same `advert_interval` on all hosts",
        ),
        Notice::IntervalRefused { .. } => (
            Code::ConfigRule,
            "its advertisements are discarded, as the version's rules are, so both may hold the VIP",
            "configure the same `advert_interval` on all hosts",
        ),
        Notice::OtherDelivery { .. } => (
            Code::VrrpSplitBrain,
            "its advertisements are discarded, so both may hold the VIP",
            "name `unicast_peers` on all hosts or on none",
        ),
        Notice::UnknownPeer { .. } => (
            Code::VrrpSplitBrain,
            "its advertisements are discarded; if it is a member, both may hold the VIP",
            "add it to `unicast_peers` if it is a member, else give it another VRID",
        ),
        Notice::TooFar { .. } => (
            Code::VrrpSplitBrain,
            "its advertisements are discarded, so both may hold the VIP",
            "let the peer send with TTL 255 (keepalived over IPv6: `unicast_ttl 255`), or lower \
             `min_ttl` if it is not on this link",
        ),
        Notice::VersionDiffers { .. } => (
            Code::VrrpSplitBrain,
            "its advertisements are discarded, and ours are by it, so both may hold the VIP",
            "configure the same VRRP `version` on all hosts",
        ),
        Notice::PasswordDiffers { .. } => (
            Code::VrrpSplitBrain,
            "its advertisements are discarded, and ours are by it, so both may hold the VIP",
            "configure the same password on all hosts, or give one of the groups another `vrid`",
        ),
        Notice::Unverified { .. } => (
            Code::VrrpUnverified,
            "its advertisements are discarded; if it is a member, both may hold the VIP",
            "give all members the same keys and clocks, or find the host with that hardware address",
        ),
        Notice::AuthMismatch { .. } => (
            Code::VrrpUnverified,
            "this host does not take the VIP over while that host answers for it",
            "give all members the same keys and clocks, or take the VRID and the address from that \
             host",
        ),
        Notice::DuplicateRouter { .. } => (
            Code::VipDuplicateOwner,
            "neither of the two gives way",
            "give each host an address of its own",
        ),
        Notice::SecondOwner { .. } => (
            Code::VipNotOwner,
            "neither of the two gives way",
            "configure priority 255 only where the address is the interface's own",
        ),
        Notice::Unproven { .. } => (
            Code::VipUnproven,
            "clients may not reach the VIP here; it stays, because another host may fare no better",
            "see that this host's port may speak for the VIP: port security, the hypervisor's rules \
             on forged addresses, a cloud's list of secondary addresses; then that the router is up",
        ),
        Notice::BothChecksums { .. } => (
            Code::VrrpSplitBrain,
            "every advertisement is sent twice, once in each form",
            "nothing, or set `checksum` once all hosts understand the same form",
        ),
    };
    let problem = match notice {
        Notice::AddressesDiffer { .. }
        | Notice::IntervalDiffers { .. }
        | Notice::BothChecksums { .. }
        | Notice::Unproven { .. }
        | Notice::VridInUse { .. } => Problem::warning(code, notice.to_string()),
        Notice::ForeignClaim { .. }
        | Notice::Unheard { .. }
        | Notice::IntervalRefused { .. }
        | Notice::OtherDelivery { .. }
        | Notice::UnknownPeer { .. }
        | Notice::TooFar { .. }
        | Notice::VersionDiffers { .. }
        | Notice::PasswordDiffers { .. }
        | Notice::Unverified { .. }
        | Notice::AuthMismatch { .. }
        | Notice::DuplicateRouter { .. }
        | Notice::SecondOwner { .. } => Problem::new(code, notice.to_string()),
    };
    let cure = match notice {
        // Says who is where on the LAN, and which VRID is free.
        Notice::VridInUse { .. } => Fix::text(cure).command("kedge vip scan"),
        _ => Fix::text(cure),
    };
    problem.object(vip(name)).consequence(consequence).fix(cure)
}

fn vip(name: &Name) -> String {
    format!("vips/{name}")
}
