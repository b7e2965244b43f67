//! One VIP: defaults, and the rules that span several of its keys.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

use kedge_core::{
    Fix, Name, Problem,
    vip::{Priority, Vrid},
};
use kedge_host::layers::Auto;
use kedge_vip_proto::vrrp::{ChecksumPolicy, Config, ConfigError, Members};
use kedge_vip_speaker::{
    SpecError, Version,
    auth::{KeyId, Mode},
};

use super::{automatic_probe, check_probe, range, rule, track, via};
use crate::config::{
    AuthConfig, AuthFile, AuthKeyId, AuthModeFile, ChecksumFile, Delay, HealthFile, MembersFile,
    MinTtl, TimeWindow, VipConfig, VipFile, VrrpVersion,
};

/// Checks one VIP, wherever it comes from; `key` is where it stands.
///
/// # Errors
///
/// Every rule that is broken.
pub fn check_vip(key: &str, file: &VipFile) -> Result<VipConfig, Vec<Problem>> {
    let mut problems = Vec::new();
    let (addresses, excluded) = check_addresses(key, file, &mut problems);
    let members = check_members(key, file, &mut problems);
    let health = match file.health.clone().unwrap_or_default() {
        HealthFile::Auto => Some(automatic_probe()),
        HealthFile::None => None,
        HealthFile::Probe(probe) => check_probe(key, &probe, &mut problems),
    };
    let auth = file
        .auth
        .as_ref()
        .and_then(|auth| check_auth(key, auth, &mut problems));
    let tracks = track::check(key, file, &mut problems);
    let (via, announced) = via::check(key, file, &mut problems);
    let (vrid, vrid_derived) = match (file.vrid.unwrap_or_default(), addresses.first()) {
        (Auto::Value(vrid), _) => (Some(vrid), false),
        (Auto::Auto, Some(first)) => (Some(Vrid::derive(*first)), true),
        (Auto::Auto, None) => (None, true),
    };
    let config = match (vrid, members) {
        (Some(vrid), Some(members)) if problems.is_empty() => VipConfig {
            addresses,
            excluded,
            via,
            announced,
            version: match file.version.unwrap_or(VrrpVersion::THREE).get() {
                2 => Version::Two { password: None },
                _ => Version::Three,
            },
            password_file: file.password_file.clone(),
            auth,
            unicast_peers: file.unicast_peers.clone().unwrap_or_default(),
            min_ttl: file.min_ttl.unwrap_or(MinTtl::ON_LINK).get(),
            source: file.source,
            preempt_delay: file
                .preempt_delay
                .as_ref()
                .map_or(Duration::ZERO, Delay::duration),
            vrid,
            vrid_derived,
            priority: file.priority.and_then(Auto::value),
            members,
            interval: file
                .advert_interval
                .as_ref()
                .map_or(file.profile.unwrap_or_default().interval(), |span| {
                    span.interval()
                }),
            fence: file.fence.unwrap_or(true),
            accept: file.accept.unwrap_or(true),
            virtual_mac: file.virtual_mac.unwrap_or_default(),
            interface: file.interface.as_ref().map(ToString::to_string),
            preempt: file.preempt.unwrap_or_default(),
            checksum: match file.checksum.unwrap_or_default() {
                ChecksumFile::Auto => ChecksumPolicy::Auto,
                ChecksumFile::Message => ChecksumPolicy::Message,
                ChecksumFile::PseudoHeader => ChecksumPolicy::PseudoHeader,
            },
            health,
            tracks,
            sync_group: file.sync_group.clone(),
            startup_delay: file
                .startup_delay
                .as_ref()
                .map_or(Config::LINK_UP_WAIT, Delay::duration),
            link_up_delay: file
                .link_up_delay
                .as_ref()
                .map_or(Config::LINK_UP_WAIT, Delay::duration),
        },
        _ => return Err(problems),
    };
    match protocol(key, &config) {
        None => Ok(config),
        Some(problem) => Err(vec![problem]),
    }
}

/// What the protocol itself does not allow, told by the key that stands in the way.
fn protocol(key: &str, config: &VipConfig) -> Option<Problem> {
    if config.password_file.is_some() && config.version == Version::Three {
        let problem = rule(
            &format!("{key}.password_file"),
            "only version 2 has a password",
        );
        return Some(problem.fix(Fix::text(
            "leave it out, or set `version: 2` on all members",
        )));
    }
    if !config.accept && !config.fence {
        let problem = rule(
            &format!("{key}.accept"),
            "`accept: false` is a rule of the fence, and `fence: false` has none",
        );
        return Some(problem.fix(Fix::text("leave one of them out")));
    }
    if config.virtual_mac && !config.fence {
        let problem = rule(
            &format!("{key}.virtual_mac"),
            "`virtual_mac` needs the fence, which keeps the interface from answering beside it, and \
             `fence: false` has none",
        );
        return Some(problem.fix(Fix::text("leave one of them out")));
    }
    if config.password_file.is_some() && config.auth.is_some() {
        let what = "auth and password_file exclude each other";
        let problem = rule(&format!("{key}.auth"), what);
        return Some(problem.fix(Fix::text("keep auth: a password protects from nobody")));
    }
    let name = Name::try_from("vip".to_owned()).ok()?;
    // The automatic one is within the range whatever it is.
    let automatic = Priority::new(254).ok()?;
    let priority = config.priority.unwrap_or(automatic);
    let spec = config.spec(name, priority);
    let Err(SpecError::Config { source, .. }) = spec.check() else {
        return None;
    };
    let (part, fix) = match source {
        ConfigError::VersionTwoIpv6 => ("version", "leave it out for IPv6"),
        ConfigError::VersionTwoInterval => (
            "advert_interval",
            "take whole seconds, or version 3 on all members",
        ),
        ConfigError::TooLong => ("addresses", "move some to `excluded_addresses`"),
        ConfigError::NoPeer | ConfigError::BadPeer(_) => (
            "unicast_peers",
            "name the other routers by the addresses they advertise from",
        ),
        ConfigError::OwnerVirtual => ("virtual_mac", "leave it out on the owner of the address"),
        ConfigError::Owner
        | ConfigError::OwnerFollows
        | ConfigError::LowPriority(_)
        | ConfigError::Unhealthy { .. }
        | ConfigError::OtherRouter => return None,
    };
    let what = source.to_string();
    Some(rule(&format!("{key}.{part}"), what).fix(Fix::text(fix)))
}

/// The addresses that are advertised or go along with them by family, and those that only go
/// along.
fn check_addresses(
    key: &str,
    file: &VipFile,
    problems: &mut Vec<Problem>,
) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let mut taken: Vec<IpAddr> = Vec::new();
    let mut check = |part: &str, addresses: &Option<Vec<IpAddr>>| {
        let key = format!("{key}.{part}");
        let mut good = Vec::new();
        for address in addresses.iter().flatten() {
            if !is_host(*address) {
                problems.push(
                    range(&key, format!("{address} cannot be the address of a host"))
                        .fix(Fix::text("take a unicast address of the hosts' network")),
                );
            } else if taken.contains(address) {
                problems.push(rule(&key, format!("{address} stands there twice")));
            } else {
                taken.push(*address);
                good.push(*address);
            }
        }
        good
    };
    let addresses = check("addresses", &file.addresses);
    let excluded = check("excluded_addresses", &file.excluded_addresses);
    let key = format!("{key}.addresses");
    let count = file.addresses.iter().flatten().count();
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
    (addresses, excluded)
}

fn check_auth(key: &str, file: &AuthFile, problems: &mut Vec<Problem>) -> Option<AuthConfig> {
    let files = file.keys.iter().flatten();
    let keys: BTreeMap<KeyId, PathBuf> = files.map(|(id, file)| (id.id(), file.clone())).collect();
    let active = file.active_key.as_ref().map(AuthKeyId::id);
    let Some(active_key) = active.filter(|active| keys.contains_key(active)) else {
        problems.push(
            rule(
                &format!("{key}.auth.active_key"),
                "signed advertisements need an active_key that is one of the keys",
            )
            .fix(Fix::text("name the key that signs").command("active_key: \"1\"")),
        );
        return None;
    };
    Some(AuthConfig {
        active_key,
        keys,
        mode: match file.mode.unwrap_or_default() {
            AuthModeFile::ReceiveOnly => Mode::ReceiveOnly,
            AuthModeFile::Permissive => Mode::Permissive,
            AuthModeFile::Enforce => Mode::Enforce,
        },
        time_window: file.time_window.as_ref().map(TimeWindow::window),
    })
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

pub(super) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, ..] = v4.octets();
            !(v4.is_unspecified()
                || v4.is_loopback()
                || v4.is_multicast()
                || v4.is_broadcast()
                || first == 0
                || first >= 240)
        }
        IpAddr::V6(v6) => {
            let mapped = v6.to_ipv4_mapped().is_some();
            !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || mapped)
        }
    }
}

/// RFC 9568 has room for 255; more than this does not fit a packet that must not be fragmented.
const MOST_ADDRESSES: usize = 255;
/// Among Kedge members lower priorities mean "not healthy".
const LOWEST_BASE: u8 = 192;
