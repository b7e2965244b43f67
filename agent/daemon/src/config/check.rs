//! From what stands in files to what it means: defaults, and the rules that span several keys.
//! Every problem names its key.

pub(super) mod bfd;
mod bgp;
mod group;
pub(super) mod track;
mod tunnel;
mod via;
mod vip;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU16,
    time::Duration,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kedge_control::enrol::HostRef;
use kedge_core::{Code, Fix, Name, Problem};
use kedge_host::{
    Role,
    layers::{Origins, RoleFile},
};

use super::{
    AgentConfig, AgentFile, HttpsUrl, ManagerConfig, ManagerFile, PeerLinkConfig, PeerLinkFile,
    ProbeConfig, ProbeFile, ReportConfig, Trust, Via, VipConfig,
};
pub(crate) use bgp::own_session;
pub use vip::check_vip;

/// The prefixes overlay addresses come from (`EdgeGateway.spec.tunnel.cidrs`).
pub const DEFAULT_OVERLAY: [IpNet; 2] = [
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(0xfd6b, 0x6564, 0x6765, 0, 0, 0, 0, 0),
        48,
    )),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 16)),
];

/// Where the hosts of a VIP listen for each other.
pub(super) const PEER_PORT: NonZeroU16 = match NonZeroU16::new(7112) {
    Some(port) => port,
    None => NonZeroU16::MIN,
};

impl RoleFile for AgentFile {
    const ROLE: Role = Role::Agent;
    type Config = AgentConfig;

    fn filled(self) -> Self {
        super::defaults::filled(self)
    }

    fn check(self, _: &Origins) -> Result<AgentConfig, Vec<Problem>> {
        self.checked()
    }
}

impl AgentFile {
    /// Checks what the types cannot, and fills in the defaults.
    ///
    /// # Errors
    ///
    /// Every rule that is broken; the problem's object is the key, such as `vips.api.priority`.
    pub fn checked(&self) -> Result<AgentConfig, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut vips = BTreeMap::new();
        for (name, file) in self.vips.iter().flatten() {
            match check_vip(&format!("vips.{name}"), file) {
                Ok(vip) => {
                    vips.insert(name.clone(), vip);
                }
                Err(found) => problems.extend(found),
            }
        }
        duplicates(&vips, &mut problems);
        group::check(&vips, &mut problems);
        let mut bfd = bfd::check(&self.bfd.clone().unwrap_or_default(), &mut problems);
        let bgp = bgp::check(self.bgp.as_ref(), &mut bfd, &mut problems);
        bgp::check_vips(&vips, self.bgp.as_ref(), &mut problems);
        bfd::check_tracks(&vips, &bfd, &mut problems);
        let manager = self.manager.as_ref();
        let manager_config = manager.and_then(|file| keep(check_manager(file), &mut problems));
        let peer_link = self.peer_link.as_ref();
        let peer_link = peer_link.and_then(|file| keep(check_peer_link(file), &mut problems));
        let tunnel = self.tunnel.clone().unwrap_or_default();
        let tunnel = keep(tunnel::check(&tunnel), &mut problems);
        let report = self.report.clone().unwrap_or_default();
        let node = self.node.clone().unwrap_or_default();
        let name = manager.and_then(|manager| manager.name.clone());
        let name = name.or(node.name);
        match tunnel {
            Some(tunnel) if problems.is_empty() => Ok(AgentConfig {
                vips,
                peer_link,
                bfd,
                bgp,
                manager: manager_config,
                tunnel,
                node_name: name,
                drain_stops: node.drain_stops.unwrap_or_default(),
                metrics: self.metrics.as_ref().and_then(|metrics| metrics.listen),
                report: ReportConfig {
                    primary: report.primary,
                    exclude: report.exclude.unwrap_or_default(),
                    exclude_interfaces: report
                        .exclude_interfaces
                        .iter()
                        .flatten()
                        .map(ToString::to_string)
                        .collect(),
                },
            }),
            _ => Err(problems),
        }
    }
}

fn check_peer_link(file: &PeerLinkFile) -> Result<PeerLinkConfig, Vec<Problem>> {
    let Some(key_file) = file.key_file.clone() else {
        let missing = rule("peer_link.key_file", "links to other hosts need a key_file");
        return Err(vec![
            missing.fix(
                Fix::text("make a key and copy it to every host of the VIPs").command(
                    "(umask 077; echo \"hex:$(openssl rand -hex 32)\" > /etc/kedge/peer.key)",
                ),
            ),
        ]);
    };
    Ok(PeerLinkConfig {
        key_file,
        port: file.port.unwrap_or(PEER_PORT).get(),
    })
}

fn check_probe(key: &str, file: &ProbeFile, problems: &mut Vec<Problem>) -> Option<ProbeConfig> {
    let key = format!("{key}.health");
    let Some(url) = file.url.clone() else {
        problems.push(
            rule(&format!("{key}.url"), "a probe needs a url")
                .fix(Fix::text("say what to ask").command("url: https://127.0.0.1:6443/readyz")),
        );
        return None;
    };
    let defaults = automatic_probe();
    let host = url.uri().host().unwrap_or_default().to_owned();
    let local = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    let trust = match (&file.ca_file, &file.pin) {
        (Some(_), Some(_)) => {
            problems.push(
                rule(&format!("{key}.pin"), "ca_file and pin exclude each other")
                    .fix(Fix::text("keep one of them")),
            );
            return None;
        }
        (Some(file), None) => Trust::CaFile(file.clone()),
        (None, Some(pin)) => Trust::Pin(pin.clone()),
        (None, None) if local => Trust::Local,
        (None, None) => {
            problems.push(
                rule(
                    &key,
                    format!("{host} is another host: nothing says whom to trust there"),
                )
                .fix(Fix::text("add ca_file or pin, or probe 127.0.0.1")),
            );
            return None;
        }
    };
    let interval = file
        .interval
        .as_ref()
        .map_or(defaults.interval, |i| i.duration());
    if interval < Duration::from_millis(100) {
        problems.push(range(
            &format!("{key}.interval"),
            "a probe's interval must be 100ms to 60s",
        ));
        return None;
    }
    Some(ProbeConfig {
        url,
        trust,
        interval,
        timeout: file
            .timeout
            .as_ref()
            .map_or(defaults.timeout, |t| t.duration()),
        rise: file.rise.map_or(defaults.rise, |rise| rise.get()),
        fall: file.fall.map_or(defaults.fall, |fall| fall.get()),
        auto: false,
    })
}

/// `health: auto`: the API server on this host.
pub(crate) fn automatic_probe() -> ProbeConfig {
    ProbeConfig {
        url: HttpsUrl::api_server(),
        trust: Trust::Local,
        interval: Duration::from_millis(500),
        timeout: Duration::from_millis(1_000),
        rise: 2,
        fall: 3,
        auto: true,
    }
}

fn check_manager(file: &ManagerFile) -> Result<ManagerConfig, Vec<Problem>> {
    let mut problems = Vec::new();
    let host_ref = file.host_ref.as_ref().and_then(|host| {
        let part = |key: &str, value: &Option<String>, problems: &mut Vec<Problem>| {
            let value = value.clone().filter(|value| !value.is_empty());
            if value.is_none() {
                problems.push(rule(
                    &format!("manager.host_ref.{key}"),
                    format!("host_ref needs {key}"),
                ));
            }
            value
        };
        let api_group = part("api_group", &host.api_group, &mut problems);
        let kind = part("kind", &host.kind, &mut problems);
        let name = part("name", &host.name, &mut problems);
        Some(HostRef {
            api_group: api_group?,
            kind: kind?,
            name: name?,
        })
    });
    let Some(url) = file.url.clone() else {
        problems.push(
            rule("manager.url", "the manager needs a url")
                .fix(Fix::text("say where it is").command("url: https://203.0.113.9:9443")),
        );
        return Err(problems);
    };
    let is_pin = |pin: &String| {
        let symbol = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        pin.len() == 43 && pin.bytes().all(symbol)
    };
    if !file.ca_pin.as_ref().is_none_or(is_pin) {
        problems.push(rule(
            "manager.ca_pin",
            "a pin has 43 characters of base64url, as the last part of a token",
        ));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(ManagerConfig {
        ca_pin: file.ca_pin.clone(),
        url,
        token_file: file.token_file.clone(),
        host_ref,
    })
}

fn duplicates(vips: &BTreeMap<Name, VipConfig>, problems: &mut Vec<Problem>) {
    let mut seen: Vec<(&Name, &VipConfig)> = Vec::new();
    for (name, vip) in vips {
        for (other, known) in &seen {
            // Two VIPs without an interface may be on different links: only VRIDs that somebody
            // wrote down are told here, derived ones when the interface is known.
            let derived = vip.vrid_derived && known.vrid_derived && vip.interface.is_none();
            let elects = vip.via != Via::Bgp && known.via != Via::Bgp;
            let same = elects
                && known.vrid == vip.vrid
                && known.is_ipv6() == vip.is_ipv6()
                && known.interface == vip.interface;
            if same && !derived {
                let on = vip
                    .interface
                    .as_ref()
                    .map_or_else(String::new, |interface| format!(" on {interface}"));
                problems.push(
                    Problem::new(
                        Code::ConfigDuplicateVrid,
                        format!("{other} and {name} both use VRID {}{on}", vip.vrid),
                    )
                    .object(format!("vips.{name}.vrid"))
                    .consequence("routers on the LAN would take one for the other")
                    .fix(Fix::text(
                        "give them different VRIDs, the same on every host, or different interfaces",
                    )),
                );
            }
            let shared = vip.held().filter(|a| known.held().any(|taken| taken == *a));
            for address in shared {
                problems.push(
                    rule(
                        &format!("vips.{name}.addresses"),
                        format!("{address} belongs to {other} already"),
                    )
                    .fix(Fix::text("leave it to one of the two")),
                );
            }
        }
        seen.push((name, vip));
    }
}

fn keep<T>(checked: Result<T, Vec<Problem>>, problems: &mut Vec<Problem>) -> Option<T> {
    checked.map_err(|found| problems.extend(found)).ok()
}

fn rule(key: &str, what: impl Into<String>) -> Problem {
    Problem::new(Code::ConfigRule, what).object(key)
}

fn range(key: &str, what: impl Into<String>) -> Problem {
    Problem::new(Code::ConfigOutOfRange, what).object(key)
}
