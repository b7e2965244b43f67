//! The demo's first half: from blank endpoints to a client that reaches the API.

use std::{collections::BTreeSet, fs, net::SocketAddr};

use kedge_control::local::TunnelState;
use kedge_core::vip::RouterState;

use super::{Demo, SOON, Seen};
use crate::{
    error::LabError,
    site::{Site, told},
    stage::Stage,
    topology::HOSTS,
};

impl Demo<'_> {
    pub(super) fn rise(&mut self, site: &mut Site) -> Option<()> {
        self.stage
            .heading("The manager reads a directory of Cluster API objects");
        self.step("manager", |stage, seen| manager(site, stage, seen))?;
        self.stage
            .heading("Hosts and gateway enrol, each with a token of its own");
        self.step("gateway enrols", |stage, _| gateway(site, stage))?;
        self.step("agents enrol", |stage, _| agents(site, stage))?;
        self.step("tunnels", |stage, _| tunnels(site, stage))?;
        self.step("addresses", |stage, _| addresses(site, stage))?;
        self.stage.heading("Blank endpoints are filled");
        for (cluster, mode) in CLUSTERS {
            self.step(&format!("endpoint {cluster}"), |stage, seen| {
                filled(site, stage, seen, cluster, mode)
            })?;
        }
        self.stage.heading("A client reaches the API");
        self.step("one owner", |stage, seen| one_owner(site, stage, seen))?;
        self.step("API through the VIP", |stage, _| through_vip(site, stage))?;
        self.step("API through the gateway", |stage, _| {
            through_gateway(site, stage)
        })
    }
}

type Shown = Result<((), String), LabError>;

fn manager(site: &mut Site, stage: &Stage, seen: &mut Seen) -> Shown {
    site.start_manager()?;
    let status = wait(site, stage, "the manager's answer", |site| {
        site.manager().map_err(|err| told(&err)).and_then(|status| {
            // The clusters are read after the socket is there.
            (status.clusters > 0)
                .then_some(status)
                .ok_or_else(|| "no cluster yet".to_owned())
        })
    })?;
    for (cluster, mode) in CLUSTERS {
        site.untouched(cluster)?;
        let note = format!("{cluster}.yaml leaves its controlPlaneEndpoint blank; mode {mode}");
        seen.notes.push(note);
    }
    Ok((
        (),
        format!(
            "{} clusters, agent API at {}",
            status.clusters, status.agent_api
        ),
    ))
}

fn gateway(site: &mut Site, stage: &Stage) -> Shown {
    site.start_gateway()?;
    let link = wait(site, stage, "the gateway's enrolment", |site| {
        let status = site.gateway().map_err(|err| told(&err))?;
        let link = status.manager.ok_or("it has no manager")?;
        if link.enrolled && link.connected {
            Ok(link)
        } else {
            Err(link.because)
        }
    })?;
    Ok(((), format!("{} at {}", link.record, link.url)))
}

fn agents(site: &mut Site, stage: &Stage) -> Shown {
    for host in HOSTS {
        site.start_host(host)?;
    }
    let mut told_of = BTreeSet::new();
    wait(site, stage, "every agent's enrolment", |site| {
        let mut waiting = Vec::new();
        for host in HOSTS {
            let link = match site.agent(host) {
                Ok(status) => status.manager.ok_or(format!("{host} has no manager"))?,
                Err(err) => {
                    waiting.push(format!("{host}: {}", told(&err)));
                    continue;
                }
            };
            if !(link.enrolled && link.connected) {
                waiting.push(format!("{host}: {}", link.because));
            } else if told_of.insert(host) {
                stage.tell(&format!("{host} is enrolled as {}", link.record));
            }
        }
        if waiting.is_empty() {
            Ok(())
        } else {
            Err(waiting.join("; "))
        }
    })?;
    Ok((
        (),
        format!("{} hosts over mutual TLS, from behind NAT", HOSTS.len()),
    ))
}

fn tunnels(site: &mut Site, stage: &Stage) -> Shown {
    let mut told_of = BTreeSet::new();
    wait(site, stage, "every tunnel", |site| {
        let mut waiting = Vec::new();
        for host in HOSTS {
            let status = site.agent(host).map_err(|err| told(&err))?;
            match status
                .tunnels
                .iter()
                .find(|tunnel| tunnel.state == TunnelState::Up)
            {
                None => waiting.push(match status.tunnels.first() {
                    Some(tunnel) => format!("{host}: {}", tunnel.because),
                    None => format!("{host} has no gateway yet"),
                }),
                Some(tunnel) if told_of.insert(host) => {
                    let rtt = tunnel.echo.as_ref().and_then(|echo| echo.rtt_seconds);
                    let rtt = rtt
                        .map(|rtt| format!(", {:.1} ms", rtt * 1e3))
                        .unwrap_or_default();
                    let at = tunnel.endpoint.as_deref().unwrap_or("?");
                    stage.tell(&format!(
                        "{host} has a tunnel to {} at {at}{rtt}",
                        tunnel.name
                    ));
                }
                Some(_) => {}
            }
        }
        if waiting.is_empty() {
            Ok(())
        } else {
            Err(waiting.join("; "))
        }
    })?;
    Ok((
        (),
        "WireGuard from every host to the gateway, through NAT".to_owned(),
    ))
}

fn addresses(site: &mut Site, stage: &Stage) -> Shown {
    let reported = wait(site, stage, "every host's address at the manager", |site| {
        let hosts = site.hosts().map_err(|err| told(&err))?.items;
        let all: Vec<_> = hosts
            .iter()
            .filter(|host| host.alive && !host.address.is_empty())
            .map(|host| format!("{} {}", host.name, host.address))
            .collect();
        if all.len() == HOSTS.len() {
            Ok(all)
        } else {
            Err(format!("{all:?}"))
        }
    })?;
    Ok(((), reported.join(", ")))
}

fn filled(site: &mut Site, stage: &Stage, seen: &mut Seen, cluster: &str, mode: &str) -> Shown {
    let found = wait(site, stage, &format!("the endpoint of {cluster}"), |site| {
        let found = site.endpoint(cluster)?;
        if found.endpoint.is_some() && found.mode == mode {
            Ok(found)
        } else {
            Err(found.because)
        }
    })?;
    let endpoint = found.endpoint.unwrap_or_default();
    // In a directory the fill stands beside the user's file, never in it.
    site.untouched(cluster)?;
    let file = Site::filled_in(cluster);
    let path = site.objects().join(&file);
    let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
    let (host, _) = endpoint.rsplit_once(':').unwrap_or((&endpoint, ""));
    if !text.contains(host) {
        return Err(unexpected(
            &path.display().to_string(),
            &format!("does not hold {host}"),
        ));
    }
    seen.notes.push(format!(
        "stands in {}; {cluster}.yaml is as it was",
        file.display()
    ));
    if mode == "VIP" {
        seen.notes.push(format!(
            "the management side reaches it via {}",
            found.reached_via
        ));
    }
    Ok(((), format!("{endpoint}, because {}", found.because)))
}

fn one_owner(site: &mut Site, stage: &Stage, seen: &mut Seen) -> Shown {
    let owner = wait(site, stage, "one owner and two that stand by", |site| {
        let owner = site.owner()?;
        let standing_by = |host: &&&str| {
            site.vip(host)
                .is_ok_and(|vip| vip.state == RouterState::Backup)
        };
        let backups = HOSTS.iter().filter(standing_by).count();
        if backups == 2 {
            Ok(owner)
        } else {
            Err(format!("{backups} of 2 stand by"))
        }
    })?;
    let vip = site
        .vip(owner)
        .map_err(|said| unexpected("the owner", &said))?;
    let explained = site.explain(owner, &vip.name)?;
    seen.notes.extend(explained.because);
    let interface = vip.interface.as_deref().unwrap_or("?");
    Ok((
        (),
        format!(
            "{} is on {owner} {interface}, VRID {}",
            vip.addresses.join(", "),
            vip.vrid
        ),
    ))
}

fn through_vip(site: &mut Site, stage: &Stage) -> Shown {
    let at = endpoint_of(site, "edge")?;
    let version = wait(site, stage, "the API behind the VIP", |site| {
        site.version(at)
    })?;
    Ok((
        (),
        format!(
            "https://{at}/version is {} from {}",
            version.git_version, version.served_by
        ),
    ))
}

fn through_gateway(site: &mut Site, stage: &Stage) -> Shown {
    let at = gateway_of(site, "edge")?;
    let version = wait(site, stage, "the API behind the gateway", |site| {
        site.version(at)
    })?;
    let other = endpoint_of(site, "edge-tunnel")?;
    wait(site, stage, "the API of cluster edge-tunnel", |site| {
        site.version(other)
    })?;
    Ok((
        (),
        format!(
            "https://{at}/version is {} from {}, from outside; so is https://{other}",
            version.git_version, version.served_by
        ),
    ))
}

/// Where a cluster's endpoint is.
pub(super) fn endpoint_of(site: &Site, cluster: &str) -> Result<SocketAddr, LabError> {
    let found = site
        .endpoint(cluster)
        .map_err(|said| unexpected("the manager", &said))?;
    let text = found.endpoint.unwrap_or_default();
    text.parse()
        .map_err(|_| unexpected("the manager", &format!("gave `{text}` as the endpoint")))
}

/// Where the gateway serves a cluster: the last word of `gw-0 203.0.113.7:30001`.
pub(super) fn gateway_of(site: &Site, cluster: &str) -> Result<SocketAddr, LabError> {
    let found = site
        .endpoint(cluster)
        .map_err(|said| unexpected("the manager", &said))?;
    let via = &found.reached_via;
    via.split_whitespace()
        .last()
        .and_then(|last| last.parse().ok())
        .ok_or_else(|| {
            unexpected(
                "the manager",
                &format!("says {cluster} is reached via `{via}`"),
            )
        })
}

pub(super) fn unexpected(who: &str, said: &str) -> LabError {
    LabError::Unexpected {
        who: who.to_owned(),
        said: said.to_owned(),
    }
}

/// Waits, and ends early when a process of the lab has ended: nothing will come about then.
pub(super) fn wait<T>(
    site: &mut Site,
    stage: &Stage,
    what: &str,
    mut look: impl FnMut(&Site) -> Result<T, String>,
) -> Result<T, LabError> {
    let found = stage.eventually(what, SOON, || match look(site) {
        Ok(found) => Ok(Ok(found)),
        Err(seen) => site.lab_mut().fallen().map(Err).ok_or(seen),
    })?;
    found.map_err(|fallen| unexpected("the lab:", &fallen))
}

/// The clusters and how each endpoint is to be found.
const CLUSTERS: [(&str, &str); 3] = [
    ("edge", "VIP"),
    ("edge-tunnel", "Tunnel"),
    ("edge-host", "HostAddress"),
];
