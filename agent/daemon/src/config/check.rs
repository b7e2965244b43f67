//! From what stands in files to what it means: defaults, and the rules that span several keys.
//! Every problem names its key.

mod tunnel;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kedge_control::enrol::HostRef;
use kedge_core::{
    Code, Fix, Name, Problem,
    vip::{AdvertInterval, Priority, Vrid},
};
use kedge_host::{
    Role,
    layers::{Auto, Origins, RoleFile},
};
use kedge_vip_proto::vrrp::{ChecksumPolicy, Members};

use super::{
    AgentConfig, AgentFile, ChecksumFile, HealthFile, HttpsUrl, ManagerConfig, ManagerFile,
    MembersFile, ProbeConfig, ProbeFile, ReportConfig, Trust, VipConfig, VipFile,
};

/// The prefixes overlay addresses come from (`EdgeGateway.spec.tunnel.cidrs`).
pub const DEFAULT_OVERLAY: [IpNet; 2] = [
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(0xfd6b, 0x6564, 0x6765, 0, 0, 0, 0, 0),
        48,
    )),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 16)),
];

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
        let manager = self.manager.as_ref();
        let manager_config = manager.and_then(|file| keep(check_manager(file), &mut problems));
        let tunnel = self.tunnel.clone().unwrap_or_default();
        let tunnel = keep(tunnel::check(&tunnel), &mut problems);
        let report = self.report.clone().unwrap_or_default();
        let name = manager
            .and_then(|manager| manager.name.clone())
            .or_else(|| self.node.clone().and_then(|node| node.name));
        match tunnel {
            Some(tunnel) if problems.is_empty() => Ok(AgentConfig {
                vips,
                manager: manager_config,
                tunnel,
                node_name: name,
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

/// Checks one VIP, wherever it comes from; `key` is where it stands.
///
/// # Errors
///
/// Every rule that is broken.
pub fn check_vip(key: &str, file: &VipFile) -> Result<VipConfig, Vec<Problem>> {
    let mut problems = Vec::new();
    let addresses = check_addresses(key, file.addresses.as_deref(), &mut problems);
    let members = check_members(key, file, &mut problems);
    let health = match file.health.clone().unwrap_or_default() {
        HealthFile::Auto => Some(automatic_probe()),
        HealthFile::None => None,
        HealthFile::Probe(probe) => check_probe(key, &probe, &mut problems),
    };
    let (vrid, vrid_derived) = match (file.vrid.unwrap_or_default(), addresses.first()) {
        (Auto::Value(vrid), _) => (Some(vrid), false),
        (Auto::Auto, Some(first)) => (Some(Vrid::derive(IpAddr::V4(*first))), true),
        (Auto::Auto, None) => (None, true),
    };
    match (vrid, members) {
        (Some(vrid), Some(members)) if problems.is_empty() => Ok(VipConfig {
            addresses,
            vrid,
            vrid_derived,
            priority: file.priority.and_then(Auto::value),
            members,
            interval: file
                .advert_interval
                .as_ref()
                .map_or(AdvertInterval::DEFAULT, |span| span.interval()),
            interface: file.interface.as_ref().map(ToString::to_string),
            preempt: file.preempt.unwrap_or_default(),
            checksum: match file.checksum.unwrap_or_default() {
                ChecksumFile::Auto => ChecksumPolicy::Auto,
                ChecksumFile::Message => ChecksumPolicy::Message,
                ChecksumFile::PseudoHeader => ChecksumPolicy::PseudoHeader,
            },
            health,
        }),
        _ => Err(problems),
    }
}

fn check_addresses(
    key: &str,
    addresses: Option<&[IpAddr]>,
    problems: &mut Vec<Problem>,
) -> Vec<Ipv4Addr> {
    let key = format!("{key}.addresses");
    let mut taken = Vec::new();
    for address in addresses.unwrap_or_default() {
        match address {
            IpAddr::V6(address) => problems.push(
                rule(&key, format!("{address} is an IPv6 address, VIPs are IPv4"))
                    .fix(Fix::text("give the VIP IPv4 addresses only")),
            ),
            IpAddr::V4(address) if !is_host(*address) => problems.push(
                range(&key, format!("{address} cannot be the address of a host"))
                    .fix(Fix::text("take a unicast address of the hosts' network")),
            ),
            IpAddr::V4(address) if taken.contains(address) => {
                problems.push(rule(&key, format!("{address} stands there twice")));
            }
            IpAddr::V4(address) => taken.push(*address),
        }
    }
    let count = addresses.unwrap_or_default().len();
    if count == 0 {
        problems.push(
            rule(&key, "a VIP needs an address")
                .fix(Fix::text("name at least one").command("addresses: [10.20.14.10]")),
        );
    }
    if count > MOST_ADDRESSES {
        problems.push(range(
            &key,
            format!("a VIP has at most {MOST_ADDRESSES} addresses, not {count}"),
        ));
    }
    taken
}

fn check_members(key: &str, file: &VipFile, problems: &mut Vec<Problem>) -> Option<Members> {
    let priority_key = format!("{key}.priority");
    let unhealthy_key = format!("{key}.unhealthy_priority");
    let priority = file.priority.and_then(Auto::value);
    let owner = priority == Some(Priority::OWNER);
    match file.members.unwrap_or_default() {
        MembersFile::Kedge => {
            if let Some(priority) = priority.filter(|p| p.get() < LOWEST_BASE) {
                problems.push(
                    range(
                        &priority_key,
                        format!("priority must be auto, 192 to 254 or 255, not {priority}"),
                    )
                    .consequence("priorities below 192 mean `not healthy` among Kedge hosts")
                    .fix(Fix::text(
                        "take `auto`, or `members: mixed` when keepalived or others take part",
                    )),
                );
                return None;
            }
            if file.unhealthy_priority.is_some() {
                problems.push(
                    rule(
                        &unhealthy_key,
                        "unhealthy_priority goes with `members: mixed`",
                    )
                    .fix(Fix::text(
                        "leave it out: among Kedge hosts it is the priority less 191",
                    )),
                );
                return None;
            }
            Some(Members::Kedge)
        }
        MembersFile::Mixed => {
            let Some(priority) = priority else {
                problems.push(
                    rule(&priority_key, "`members: mixed` needs an explicit priority").fix(
                        Fix::text(
                            "take one that fits the other routers' (keepalived's default is 100)",
                        ),
                    ),
                );
                return None;
            };
            match file.unhealthy_priority {
                Some(unhealthy) if unhealthy < priority => Some(Members::Mixed { unhealthy }),
                Some(unhealthy) => {
                    problems.push(range(
                        &unhealthy_key,
                        format!("{unhealthy} is not below the priority {priority}"),
                    ));
                    None
                }
                // The owner never lowers its priority (RFC 9568 section 5.2.4).
                None if owner => Some(Members::Mixed {
                    unhealthy: Priority::new(1).unwrap_or(Priority::OWNER),
                }),
                None => {
                    problems.push(
                        rule(
                            &unhealthy_key,
                            "`members: mixed` needs an unhealthy_priority",
                        )
                        .fix(
                            Fix::text("take one below every healthy router's priority")
                                .command("unhealthy_priority: 1"),
                        ),
                    );
                    None
                }
            }
        }
    }
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
            if known.vrid == vip.vrid && known.interface == vip.interface && !derived {
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
            for address in vip.addresses.iter().filter(|a| known.addresses.contains(a)) {
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

fn is_host(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_broadcast()
        || first == 0
        || first >= 240)
}

fn rule(key: &str, what: impl Into<String>) -> Problem {
    Problem::new(Code::ConfigRule, what).object(key)
}

fn range(key: &str, what: impl Into<String>) -> Problem {
    Problem::new(Code::ConfigOutOfRange, what).object(key)
}

/// RFC 9568 has room for 255; more than this does not fit a packet that must not be fragmented.
const MOST_ADDRESSES: usize = 255;
/// Among Kedge members lower priorities mean "not healthy".
const LOWEST_BASE: u8 = 192;
