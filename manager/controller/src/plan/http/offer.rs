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
use kedge_crd::http::{HttpBackend, HttpListener, HttpLoadBalancerSpec, HttpProtocol};

use super::{
    Http, Served,
    names::ALL,
    routes::{Pools, routes, to_https},
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
    mut served: Served,
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
    let passed = &http.endings.passed;
    let own = http.names.iter().filter(|host| !passed.contains_key(*host));
    let own: BTreeSet<&str> = own.map(String::as_str).collect();
    let address = http.own().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    for (host, backend) in passed {
        if !is_bound(&http.spec, HttpProtocol::Https, host) {
            continue;
        }
        let lead = found.lead(&backend.name, backend.port);
        let Some(port) = served.https else {
            continue;
        };
        let lead = lead.unwrap_or_else(|| {
            // The name is taken, and whoever asks for it is sent away: a wildcard beside it is not for it.
            let pool = format!("{}/{host}", found.nobody(backend));
            served.offered.push(Offered::Pool(Pool {
                name: pool.clone(),
                tenant: http.tenant.clone(),
                ..Pool::default()
            }));
            Lead {
                pool,
                client_ip: ClientIp::Hidden,
            }
        });
        served.offered.push(Offered::Frontend(Frontend {
            name: passed_name(&http.name, host),
            tenant: http.tenant.clone(),
            address,
            port,
            protocol: Protocol::TlsPassthrough {
                server_names: vec![host.clone()],
            },
            pool: lead.pool,
            client_ip: lead.client_ip,
        }));
    }
    let is_both = |host: &&String| {
        let mut all = [HttpProtocol::Http, HttpProtocol::Https].into_iter();
        all.all(|protocol| is_bound(&http.spec, protocol, host))
    };
    let sent: Vec<String> = passed.keys().filter(is_both).cloned().collect();
    for (way, names) in ways(http, &own) {
        let mut all = routes(&http.spec.rules, &names, &mut found);
        let mut hosts: Vec<String> = names.iter().map(|&host| host.to_owned()).collect();
        let redirected = served.https.filter(|_| http.spec.https_redirect);
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
        let port = served.https.filter(|_| way != Way::Plain);
        let certificates = match port {
            Some(_) => shown(&http.endings.certificates, &hosts),
            None => Vec::new(),
        };
        let https = port.filter(|_| !certificates.is_empty());
        let plain = served.http.filter(|_| way != Way::Tls);
        if !hosts.is_empty() && (plain.is_some() || https.is_some()) {
            served.offered.push(Offered::Site(Site {
                name: format!("{}{}", http.name, way.suffix()),
                tenant: http.tenant.clone(),
                address,
                http: plain,
                https,
                hosts,
                redirect: way == Way::Both && http.spec.https_redirect && https.is_some(),
                certificates,
                routes: all,
            }));
        }
    }
    // Where nothing is asked for no client is sent.
    let is_asked = |protocol| binds(&http.spec, protocol).next().is_some();
    if !http.spec.listeners.is_empty() {
        served.http = served.http.filter(|_| is_asked(HttpProtocol::Http));
        served.https = served.https.filter(|_| is_asked(HttpProtocol::Https));
    }
    if let (Some(rest), Some(port)) = (&http.endings.rest, served.https) {
        // Names that nobody has are answered with 404, under that certificate.
        served.offered.push(Offered::Site(Site {
            name: passed_name(&http.name, ALL),
            tenant: http.tenant.clone(),
            address,
            http: None,
            https: Some(port),
            hosts: vec![ALL.to_owned()],
            redirect: false,
            certificates: vec![rest.clone()],
            routes: Vec::new(),
        }));
    }
    served.unresolved = found.unresolved.into_iter().collect();
    served.hosts = found.hosts;
    served
}

/// What a name that is passed through is called at gateways.
pub fn passed_name(name: &Name, host: &str) -> String {
    format!("{name}/{host}")
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
fn ways<'a>(http: &Http, own: &BTreeSet<&'a str>) -> BTreeMap<Way, BTreeSet<&'a str>> {
    let mut ways: BTreeMap<Way, BTreeSet<&str>> = [(Way::Both, BTreeSet::new())].into();
    for &host in own {
        let plain = is_bound(&http.spec, HttpProtocol::Http, host);
        let way = match (plain, is_bound(&http.spec, HttpProtocol::Https, host)) {
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
fn is_bound(spec: &HttpLoadBalancerSpec, protocol: HttpProtocol, host: &str) -> bool {
    let is_it = |it: &HttpListener| it.hosts.is_empty() || it.hosts.iter().any(|one| one == host);
    spec.listeners.is_empty() || binds(spec, protocol).any(is_it)
}

fn binds(
    spec: &HttpLoadBalancerSpec,
    protocol: HttpProtocol,
) -> impl Iterator<Item = &HttpListener> {
    let all = spec.listeners.iter();
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
