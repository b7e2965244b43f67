//! The VIPs of this host.

use std::{collections::BTreeMap, time::Duration};

use kedge_control::agent::{self, HealthMode};
use kedge_core::{
    Code, Fix, Name, Problem,
    vip::{AdvertInterval, Priority},
};
use kedge_host::layers::Auto;
use kedge_vip_proto::vrrp::{automatic_priority, slot_of, spacing};
use kedge_vip_speaker::{
    Chosen, Version, VipSpec,
    auth::{self, AntiReplay, Window},
    select,
    select::Wanted,
};

use super::{Claimed, Source, Vip};
use crate::{
    config::{AdvertSpan, AgentConfig, HealthFile, Via, VipConfig, VipFile, check_vip},
    facts::Facts,
    secrets::Secrets,
};

pub(super) fn plan(
    config: &AgentConfig,
    wishes: &[agent::VipConfig],
    facts: &Facts,
    claimed: &Claimed,
    secrets: &Secrets,
    problems: &mut Vec<Problem>,
) -> Vec<Vip> {
    let mut vips: BTreeMap<Name, Vip> = BTreeMap::new();
    let elected = config.vips.iter().filter(|(_, vip)| vip.via != Via::Bgp);
    for (name, config) in elected {
        let mut vip = describe(name, config, Source::Local, facts, claimed);
        if let Err(problem) = share_secrets(config, secrets, &mut vip.spec) {
            problems.push(problem.object(format!("vips/{name}")));
            continue;
        }
        if let Some(taken) = collision(&vip, &vips, facts) {
            problems.push(taken);
        } else {
            vips.insert(name.clone(), vip);
        }
    }
    for wish in wishes {
        match accept(wish, config, &vips) {
            Ok((name, vip)) => {
                let vip = describe(&name, &vip, Source::Manager, facts, claimed);
                if let Some(taken) = collision(&vip, &vips, facts) {
                    problems.push(taken);
                } else {
                    vips.insert(name, vip);
                }
            }
            Err(refused) => problems.extend(refused),
        }
    }
    vips.into_values().collect()
}

/// Gives a VIP what its members share in secret.
fn share_secrets(config: &VipConfig, secrets: &Secrets, spec: &mut VipSpec) -> Result<(), Problem> {
    if let Some(file) = &config.password_file {
        let password = Some(secrets.password(file)?);
        spec.version = Version::Two { password };
    }
    if let Some(auth) = &config.auth {
        let keys = secrets.keys(auth)?;
        let window = auth
            .time_window
            .unwrap_or_else(|| Window::of(spec.interval));
        spec.auth = Some(auth::Config {
            keys,
            mode: auth.mode,
            anti_replay: AntiReplay::Time { window },
        });
    }
    Ok(())
}

/// Holds a wish of the manager to the rules of the configuration.
fn accept(
    wish: &agent::VipConfig,
    config: &AgentConfig,
    vips: &BTreeMap<Name, Vip>,
) -> Result<(Name, VipConfig), Vec<Problem>> {
    let shown: String = wish.name.escape_debug().take(80).collect();
    let object = format!("vips/{shown}");
    let refuse = |problem: Problem| {
        problem
            .object(object.clone())
            .consequence("the manager's VIP is not taken up by this host")
    };
    let name: Name = wish
        .name
        .parse()
        .map_err(|error: kedge_core::name::BadName| {
            vec![refuse(Problem::new(
                Code::ConfigOutOfRange,
                error.to_string(),
            ))]
        })?;
    let local = vips
        .get(&name)
        .is_some_and(|vip| vip.source == Source::Local);
    let anycast = config
        .vips
        .get(&name)
        .is_some_and(|vip| vip.via == Via::Bgp);
    if local || anycast {
        let both = Problem::warning(
            Code::ConfigRule,
            format!("the VIP {name} stands in this host's configuration and in the manager's"),
        )
        .object(object.clone())
        .consequence("the host's configuration is in force")
        .fix(Fix::text("remove one of the two").command(format!("kedge vip explain {name}")));
        return Err(vec![both]);
    }
    if vips.contains_key(&name) {
        let twice = format!("the manager names the VIP {name} twice");
        return Err(vec![refuse(Problem::new(Code::ConfigRule, twice))]);
    }
    let interval = Duration::try_from_secs_f64(wish.advert_interval_seconds)
        .ok()
        .and_then(|span| AdvertInterval::try_from(span).ok())
        .ok_or_else(|| {
            let seconds = wish.advert_interval_seconds;
            vec![refuse(Problem::new(
                Code::ConfigOutOfRange,
                format!(
                    "an advert interval of {seconds} s is not 0.01 to 40.95 s in steps of 0.01"
                ),
            ))]
        })?;
    let interface = match wish.interface.as_deref().map(str::parse) {
        None => None,
        Some(Ok(interface)) => Some(interface),
        Some(Err(error)) => {
            return Err(vec![refuse(Problem::new(Code::ConfigOutOfRange, error))]);
        }
    };
    let file = VipFile {
        addresses: Some(wish.addresses.clone()),
        vrid: Some(Auto::Value(wish.vrid)),
        priority: Some(Auto::Value(wish.priority)),
        advert_interval: Some(AdvertSpan::from(interval)),
        health: Some(match wish.health {
            HealthMode::Auto => HealthFile::Auto,
            HealthMode::None => HealthFile::None,
        }),
        interface,
        ..VipFile::default()
    };
    match check_vip(&object, &file) {
        Ok(vip) => Ok((name, vip)),
        Err(problems) => Err(problems.into_iter().map(refuse).collect()),
    }
}

fn describe(name: &Name, vip: &VipConfig, source: Source, facts: &Facts, claimed: &Claimed) -> Vip {
    let owner = vip.priority == Some(Priority::OWNER);
    let first = vip.addresses.first();
    // Where it stands does not depend on the priority, which depends on that.
    let own = place(facts, &vip.spec(name.clone(), Priority::OWNER), owner);
    let (priority, priority_because) = match (vip.priority, &own) {
        (Some(priority), _) => (priority, chosen_by(source)),
        (None, Some(own)) => {
            let slot = slot_of(own.address, own.prefix_len, vip.interval);
            (
                automatic_priority(vip.interval, slot),
                format!(
                    "auto: 254 less {} x slot {slot}, from this host's address {}/{} on {}",
                    spacing(vip.interval),
                    own.address,
                    own.prefix_len,
                    own.name
                ),
            )
        }
        (None, None) => (
            automatic_priority(vip.interval, 0),
            "auto, while no interface has an address on the VIP's network".to_owned(),
        ),
    };
    let vrid_because = match (first, vip.vrid_derived) {
        (Some(first), true) => format!("derived from {first}, the same on every host"),
        _ => chosen_by(source),
    };
    let held = own.is_some_and(|own| claimed.contains(&(own.name, vip.vrid)));
    Vip {
        source,
        health: vip.health.clone(),
        tracks: vip.tracks.clone(),
        announced: vip.via.is_told().then(|| vip.announced.clone()),
        vrid_because,
        priority_because,
        spec: VipSpec {
            first_claim: !held,
            ..vip.spec(name.clone(), priority)
        },
    }
}

/// Where the speaker would put a VIP.
fn place(facts: &Facts, spec: &VipSpec, owner: bool) -> Option<Chosen> {
    let wanted = Wanted {
        vip: spec.on_link()?,
        interface: spec.interface.as_deref(),
        source: spec.source,
        owner,
    };
    select(&facts.links, wanted).ok()
}

fn chosen_by(source: Source) -> String {
    match source {
        Source::Local => "configured on this host".to_owned(),
        Source::Manager => "chosen by the manager".to_owned(),
    }
}

/// Why a VIP cannot stand beside the others, if so.
fn collision(vip: &Vip, others: &BTreeMap<Name, Vip>, facts: &Facts) -> Option<Problem> {
    let interface = |vip: &Vip| place(facts, &vip.spec, vip.spec.owner).map(|chosen| chosen.name);
    let name = &vip.spec.name;
    let here = interface(vip);
    others.values().find_map(|other| {
        let taken = vip
            .spec
            .held()
            .find(|address| other.spec.held().any(|it| it == *address));
        let problem = if let Some(address) = taken {
            Problem::new(
                Code::ConfigRule,
                format!("{address} belongs to the VIP {} already", other.spec.name),
            )
        } else if vip.spec.vrid == other.spec.vrid
            && vip.spec.is_ipv6() == other.spec.is_ipv6()
            && here.is_some()
            && here == interface(other)
        {
            Problem::new(
                Code::ConfigDuplicateVrid,
                format!(
                    "{} and {name} both use VRID {}",
                    other.spec.name, vip.spec.vrid
                ),
            )
            .evidence(format!(
                "both are on {}",
                here.as_deref().unwrap_or_default()
            ))
        } else {
            return None;
        };
        Some(
            problem
                .object(format!("vips/{name}"))
                .consequence(format!("the VIP {name} is not served by this host"))
                .fix(Fix::text(
                    "give it another VRID or address, the same on every host",
                )),
        )
    })
}
