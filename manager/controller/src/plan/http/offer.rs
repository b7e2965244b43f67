//! What a gateway serves of an HTTPLoadBalancer: a site, and a frontend for each name that is passed through.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
};

use kedge_control::{
    frontend::{ClientIp, Frontend, Pool, Protocol},
    site::{Certificate, Site},
};
use kedge_crd::http::{HttpBackend, HttpListener, HttpProtocol};

use super::{
    Http, Served,
    doors::Door,
    names::ALL,
    routes::{Pools, routes, to_https},
    shares::share,
};
use crate::{
    plan::{
        offered::Offered,
        tcp::{Lead, Tcp},
    },
    store::Name,
};

/// What is served of it at the ports that are free.
pub fn served<'a>(
    http: &Http,
    doors: &[Door<NonZeroU16>],
    gateway: &Name,
    tcp: impl Fn(&str) -> Option<&'a Tcp>,
) -> Served {
    let mut found = Led {
        http,
        gateway,
        tcp,
        unresolved: BTreeSet::new(),
        hosts: BTreeMap::new(),
    };
    let mut served = Served::default();
    for door in doors {
        found.pass(door, &mut served);
        found.serve(door, &mut served);
        // Where nothing is asked for no client is sent.
        let is_asked = |protocol| is_asked(&door.listeners, protocol);
        let (plain, secure) = (door.http, door.https);
        served
            .http
            .extend(plain.filter(|_| is_asked(HttpProtocol::Http)));
        served
            .https
            .extend(secure.filter(|_| is_asked(HttpProtocol::Https)));
    }
    served.unresolved = found.unresolved.into_iter().collect();
    served.hosts = found.hosts;
    served
}

/// What a name that is passed through is called at gateways.
fn passed_name(name: &Name, door: &Door<NonZeroU16>, host: &str) -> String {
    format!("{name}{}/{host}", door.called)
}

/// By what names are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Both,
    Plain,
    Tls,
}

impl Way {
    /// What the site of such names is called after its load balancer.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Both => "",
            Self::Plain => "/http",
            Self::Tls => "/https",
        }
    }
}

/// The names that are asked for by each way. Those of both are told even without one: names that are passed
/// through join them.
fn ways<'a>(
    listeners: &[HttpListener],
    own: &BTreeSet<&'a str>,
) -> BTreeMap<Way, BTreeSet<&'a str>> {
    let mut ways: BTreeMap<Way, BTreeSet<&str>> = [(Way::Both, BTreeSet::new())].into();
    for &host in own {
        let plain = is_bound(listeners, HttpProtocol::Http, host);
        let way = match (plain, is_bound(listeners, HttpProtocol::Https, host)) {
            (true, true) => Way::Both,
            (true, false) => Way::Plain,
            (false, true) => Way::Tls,
            (false, false) => continue,
        };
        ways.entry(way).or_default().insert(host);
    }
    ways
}

/// Whether a name is asked for by a protocol.
fn is_bound(listeners: &[HttpListener], protocol: HttpProtocol, host: &str) -> bool {
    let is_it = |it: &HttpListener| it.hosts.is_empty() || it.hosts.iter().any(|one| one == host);
    listeners.is_empty() || binds(listeners, protocol).any(is_it)
}

/// Whether anything is asked for by a protocol.
fn is_asked(listeners: &[HttpListener], protocol: HttpProtocol) -> bool {
    listeners.is_empty() || binds(listeners, protocol).next().is_some()
}

fn binds(
    listeners: &[HttpListener],
    protocol: HttpProtocol,
) -> impl Iterator<Item = &HttpListener> {
    let all = listeners.iter();
    all.filter(move |it| it.protocol == protocol)
}

/// The certificates for some of these names, each for no other.
fn shown(all: &[Certificate], hosts: &[String]) -> Vec<Certificate> {
    let of = |one: &Certificate| {
        let own = one.hosts.iter().filter(|host| hosts.contains(host));
        Certificate {
            hosts: own.cloned().collect(),
            ..one.clone()
        }
    };
    all.iter()
        .map(of)
        .filter(|one| !one.hosts.is_empty())
        .collect()
}

/// Where the backends of one HTTPLoadBalancer lead.
struct Led<'a, F> {
    http: &'a Http,
    gateway: &'a Name,
    tcp: F,
    unresolved: BTreeSet<String>,
    hosts: BTreeMap<Name, IpAddr>,
}

impl<'t, F: Fn(&str) -> Option<&'t Tcp>> Led<'_, F> {
    fn address(&self) -> IpAddr {
        let own = self.http.own();
        own.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// Passes TLS through, for each name that asks for it.
    fn pass(&mut self, door: &Door<NonZeroU16>, served: &mut Served) {
        let http = self.http;
        for (host, backends) in &http.endings.passed {
            if !is_bound(&door.listeners, HttpProtocol::Https, host) {
                continue;
            }
            let leads = self.leads(host, backends);
            let Some(port) = door.https else {
                continue;
            };
            let own = || passed_name(&http.name, door, host);
            let lead = match &leads[..] {
                [(only, ..)] => only.clone(),
                // The name is taken, and whoever asks for it is sent away: a wildcard beside it is not for it.
                [] => {
                    let tenant = http.tenant.clone();
                    let nobody = Pool {
                        name: own(),
                        tenant,
                        ..Pool::default()
                    };
                    served.offered.push(Offered::Pool(nobody));
                    Lead {
                        pool: own(),
                        client_ip: ClientIp::Hidden,
                    }
                }
                [(first, ..), ..] => {
                    let client_ip = first.client_ip;
                    let parts = leads.iter().filter_map(|(lead, backend)| {
                        let pool = (self.tcp)(&backend.name)?.pool(&lead.pool)?;
                        Some((pool, backend.weight.unwrap_or(1)))
                    });
                    let shared = share(own(), parts.collect());
                    served.offered.extend(shared.map(Offered::Pool));
                    Lead {
                        pool: own(),
                        client_ip,
                    }
                }
            };
            served.offered.push(Offered::Frontend(Frontend {
                name: passed_name(&http.name, door, host),
                tenant: http.tenant.clone(),
                address: self.address(),
                port,
                protocol: Protocol::TlsPassthrough {
                    server_names: vec![host.clone()],
                },
                pool: lead.pool,
                client_ip: lead.client_ip,
                source_ranges: Vec::new(),
            }));
        }
    }

    /// The backends that share the connections for a name.
    fn leads<'b>(
        &mut self,
        host: &str,
        backends: &'b [HttpBackend],
    ) -> Vec<(Lead, &'b HttpBackend)> {
        let mut leads: Vec<(Lead, &HttpBackend)> = Vec::new();
        for backend in backends {
            let Some(lead) = self.lead(&backend.name, backend.port) else {
                continue;
            };
            let is_told_alike = |(other, _): &(Lead, _)| other.client_ip == lead.client_ip;
            if !leads.iter().all(is_told_alike) {
                let text = format!(
                    "TCPLoadBalancer {} has another spec.proxyProtocol than the others of {host}",
                    backend.name
                );
                self.unresolved.insert(text);
            } else if backend.weight != Some(0) {
                leads.push((lead, backend));
            }
        }
        leads
    }

    /// Serves the names that are not passed through, by the ways they are asked for.
    fn serve(&mut self, door: &Door<NonZeroU16>, served: &mut Served) {
        let http = self.http;
        let passed = &http.endings.passed;
        let own = http.names.iter().filter(|host| !passed.contains_key(*host));
        let own: BTreeSet<&str> = own.map(String::as_str).collect();
        let is_both = |host: &&String| {
            let mut all = [HttpProtocol::Http, HttpProtocol::Https].into_iter();
            all.all(|protocol| is_bound(&door.listeners, protocol, host))
        };
        let sent: Vec<String> = passed.keys().filter(is_both).cloned().collect();
        for (way, names) in ways(&door.listeners, &own) {
            let mut all = routes(&http.spec.rules, &names, self);
            let mut hosts: Vec<String> = names.iter().map(|&host| host.to_owned()).collect();
            let redirected = door.https.filter(|_| http.spec.https_redirect);
            let redirected = redirected.filter(|_| way == Way::Both && !sent.is_empty());
            if let Some(port) = redirected {
                // What is passed through is no plain request's, whatever else a rule is for.
                all.retain(|route| !route.hosts.is_empty() || !names.is_empty());
                for route in all.iter_mut().filter(|route| route.hosts.is_empty()) {
                    route.hosts.clone_from(&hosts);
                }
                hosts.extend(sent.iter().cloned());
                all.push(to_https(sent.clone(), port));
            }
            let port = door.https.filter(|_| way != Way::Plain);
            let certificates = match port {
                Some(_) => shown(&http.endings.certificates, &hosts),
                None => Vec::new(),
            };
            let https = port.filter(|_| !certificates.is_empty());
            let plain = door.http.filter(|_| way != Way::Tls);
            if !hosts.is_empty() && (plain.is_some() || https.is_some()) {
                served.offered.push(Offered::Site(Site {
                    name: format!("{}{}{}", http.name, door.called, way.suffix()),
                    tenant: http.tenant.clone(),
                    address: self.address(),
                    http: plain,
                    https,
                    hosts,
                    redirect: way == Way::Both && http.spec.https_redirect && https.is_some(),
                    certificates,
                    routes: all,
                }));
            }
        }
        let is_tls = is_asked(&door.listeners, HttpProtocol::Https);
        if let (Some(rest), Some(port)) = (&http.endings.rest, door.https.filter(|_| is_tls)) {
            // Names that nobody has are answered with 404, under that certificate.
            served.offered.push(Offered::Site(Site {
                name: passed_name(&http.name, door, ALL),
                tenant: http.tenant.clone(),
                address: self.address(),
                http: None,
                https: Some(port),
                hosts: vec![ALL.to_owned()],
                redirect: false,
                certificates: vec![rest.clone()],
                routes: Vec::new(),
            }));
        }
    }

    fn lead(&mut self, name: &str, port: NonZeroU16) -> Option<Lead> {
        let Some(tcp) = (self.tcp)(name) else {
            let text = format!("there is no TCPLoadBalancer {name}");
            self.unresolved.insert(text);
            return None;
        };
        match tcp.lead(&self.http.tenant, self.gateway, port) {
            Ok(lead) => {
                self.hosts.extend(tcp.hosts());
                Some(lead)
            }
            Err(why) => {
                self.unresolved
                    .insert(format!("TCPLoadBalancer {name} {why}"));
                None
            }
        }
    }
}

impl<'t, F: Fn(&str) -> Option<&'t Tcp>> Pools for Led<'_, F> {
    fn pool(&mut self, name: &str, port: NonZeroU16) -> Option<String> {
        let lead = self.lead(name, port)?;
        if lead.client_ip == ClientIp::Hidden {
            return Some(lead.pool);
        }
        self.unresolved.insert(format!(
            "TCPLoadBalancer {name} has spec.proxyProtocol, which requests are not sent with"
        ));
        None
    }

    fn nobody(&self, backend: &HttpBackend) -> String {
        // No port has a pool that is called so: gateways answer for it themselves.
        let HttpBackend { name, port, .. } = backend;
        format!("{}:{name}:{port}", self.http.name)
    }
}
