//! What a route has at the listeners it is attached to: names, certificates, and the protocols they are asked
//! for by.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU16,
};

use kedge_control::exposure::ExposedCertificate;
use kedge_crd::http::{HttpListener, HttpProtocol, Tls};

use super::{
    attach::Attached,
    listener::{Ends, Place, Reason},
};
use crate::plan::http::Asked;

/// The names of a route at listeners of one protocol, and of one port where those are its own.
#[derive(Debug, Default)]
struct Names {
    is_all: bool,
    hosts: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, hosts: &[String]) {
        self.is_all |= hosts.is_empty();
        self.hosts.extend(hosts.iter().cloned());
    }

    /// As a listener of the load balancer, which has these names, where those are all.
    fn listener(self, (is_secure, port): Door, all: Option<&BTreeSet<String>>) -> HttpListener {
        let is_all = self.is_all || Some(&self.hosts) == all;
        HttpListener {
            protocol: protocol(is_secure),
            hosts: match is_all {
                true => Vec::new(),
                false => self.hosts.into_iter().collect(),
            },
            port,
        }
    }
}

/// As many ports as a load balancer may have.
pub const MOST_PORTS: usize = 16;

/// Whether it is asked for by TLS, and at which port of an own address.
type Door = (bool, Option<NonZeroU16>);

/// Where a listener is asked, as a load balancer has it.
pub fn door(place: &Place<'_>, is_own: bool) -> Door {
    let port = u16::try_from(place.listener.port).ok();
    let port = port.and_then(NonZeroU16::new).filter(|_| is_own);
    (!matches!(place.ends(), Ends::Plain), port)
}

/// What a load balancer is asked by.
pub const fn protocol(is_secure: bool) -> HttpProtocol {
    match is_secure {
        true => HttpProtocol::Https,
        false => HttpProtocol::Http,
    }
}

/// Gives a load balancer its names, how TLS ends for them, and where they are served; says whether any listener
/// is usable.
pub fn bind<'a>(
    asked: &mut Asked,
    at: impl Iterator<Item = (&'a Attached, &'a Place<'a>)>,
) -> Result<bool, Reason> {
    let is_own = asked.spec.address.is_some();
    let mut doors: BTreeMap<Door, Names> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    for (it, place) in at {
        let door = door(place, is_own);
        let certificate: Option<&ExposedCertificate> = match place.ends() {
            Ends::Plain => {
                doors.entry(door).or_default().add(&it.hostnames);
                continue;
            }
            Ends::Here(None) => continue,
            Ends::Here(Some(certificate)) => Some(certificate),
            Ends::Passed => None,
        };
        if certificate.is_none() {
            if it.hostnames.is_empty() {
                let text = "hostnames: what is passed through is told apart by names";
                return Err(("UnsupportedValue", text.to_owned()));
            }
            // Its rule is for its names alone, and not for the one that is made for it.
            for rule in &mut asked.spec.rules {
                let fresh = it
                    .hostnames
                    .iter()
                    .filter(|name| !rule.hosts.contains(name));
                let fresh: Vec<String> = fresh.cloned().collect();
                rule.hosts.extend(fresh);
            }
        }
        doors.entry(door).or_default().add(&it.hostnames);
        // The first listener that has a name says how its TLS ends.
        let names = it.hostnames.iter();
        let fresh = names.filter(|name| ended.insert((*name).clone()));
        let fresh: Vec<String> = fresh.cloned().collect();
        if fresh.is_empty() && !it.hostnames.is_empty() {
            continue;
        }
        let mut hosts = fresh;
        if certificate.is_some() && place.is_for_all() {
            // It ends TLS for whoever comes, also for names that no route has.
            hosts.push("*".to_owned());
        }
        asked.spec.tls.push(Tls {
            hosts,
            secret_ref: certificate.map(|it| it.name.clone()),
            passthrough: certificate.is_none(),
            ..Tls::default()
        });
        asked.certificates.extend(certificate.cloned());
    }
    if doors.is_empty() {
        return Ok(false);
    }
    let all = doors.values().flat_map(|names| names.hosts.iter().cloned());
    let all: BTreeSet<String> = all.collect();
    // One listener has every name, and another lists some.
    asked.spec.other_hostnames = !all.is_empty() && doors.values().any(|names| names.is_all);
    let listeners = doors.into_iter();
    let known = Some(&all).filter(|_| !asked.spec.other_hostnames);
    let listeners = listeners.map(|(door, names)| names.listener(door, known));
    asked.spec.listeners = listeners.collect();
    asked.spec.hostnames = all.into_iter().collect();
    let counts = [
        ("ports", asked.spec.listeners.len(), MOST_PORTS),
        ("names", asked.spec.hostnames.len(), 32),
        ("matches", asked.spec.rules.len(), 64),
        ("certificates", asked.spec.tls.len(), 16),
    ];
    for (what, count, most) in counts {
        if count > most {
            let text = format!("it has {count} {what}, and {most} are served");
            return Err(("UnsupportedValue", text));
        }
    }
    Ok(true)
}
