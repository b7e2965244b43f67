//! The lines of `virtual_ipaddress` and `virtual_ipaddress_excluded`.

use std::net::IpAddr;

use super::tree::Statement;
use crate::migrate::{later::Later, report::Report};

/// The addresses of a block that Kedge can hold on `interface`; the others are told.
pub(super) fn read(
    block: &Statement,
    of: &str,
    interface: Option<&str>,
    report: &mut Report,
) -> Vec<IpAddr> {
    let lines = block.block.iter();
    lines
        .filter_map(|line| address(line, of, interface, report))
        .collect()
}

fn address(
    line: &Statement,
    of: &str,
    interface: Option<&str>,
    report: &mut Report,
) -> Option<IpAddr> {
    let text = line.word(0);
    let what = format!("{of} {}", line.shown(0));
    let (host, length) = match text.split_once('/') {
        Some((host, length)) => (host, Some(length)),
        None => (text, None),
    };
    let Ok(address) = host.parse::<IpAddr>() else {
        report.missing(&line.place, what, "not an IP address: left out");
        return None;
    };
    if address.is_ipv6() && Later::Ipv6.key().is_none() {
        let consequence =
            "no equivalent yet: VIPs are IPv4. Nobody but keepalived holds this address";
        report.missing(&line.place, what, consequence);
        return None;
    }
    if let Some(device) = line.after("dev").filter(|dev| Some(*dev) != interface) {
        let what = format!("{what} dev {device}");
        match interface {
            Some(interface) => report.missing(
                &line.place,
                what,
                format!(
                    "a VIP's addresses are on the interface its advertisements go out of, {interface}: \
                     left out. Keepalived members still list it, and drop advertisements with \
                     another list"
                ),
            ),
            None => {
                let consequence = "Kedge chooses the interface by the prefix that holds the address; \
                                   set `interface` to be sure";
                report.different(&line.place, what, "", consequence);
                return Some(address);
            }
        }
        return None;
    }
    let full = if address.is_ipv4() { "32" } else { "128" };
    if let Some(length) = length.filter(|length| *length != full) {
        let consequence = format!(
            "held as /{full}, not /{length}: the host needs an address of its own in that network, \
             which it has unless this one made the route"
        );
        report.different(&line.place, what.clone(), "", consequence);
    }
    for (option, consequence) in OPTIONS {
        if line.has(option) {
            report.missing(&line.place, format!("{what} {option}"), consequence);
        }
    }
    Some(address)
}

const OPTIONS: [(&str, &str); 11] = [
    (
        "label",
        "the address has no label: tools that look for eth0:1 do not find it",
    ),
    ("scope", "the address has the scope global"),
    ("brd", "a /32 has no broadcast address"),
    ("peer", "the address is not the end of a link"),
    (
        "use_vmac",
        "whether addresses have the virtual MAC address is said for all of a VIP: `virtual_mac`",
    ),
    (
        "no_track",
        "an address that somebody deletes is put back within a second",
    ),
    (
        "preferred_lft",
        "the address is renewed by the agent for as long as it is held",
    ),
    ("home", "the kernel's default"),
    ("mngtmpaddr", "the kernel's default"),
    ("noprefixroute", "a /32 makes no route"),
    ("autojoin", "the kernel's default"),
];
