//! What a gateway serves of an HTTPLoadBalancer: a site, and a frontend for each name that is passed through.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use kedge_control::{
    frontend::{ClientIp, Frontend, Protocol},
    site::Site,
};
use kedge_crd::http::HttpBackend;

use super::{
    Http, Served,
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
    let mut all = routes(&http.spec.rules, &own, &mut found);
    let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    for (host, backend) in passed {
        let lead = found.lead(backend);
        let (Some(lead), Some(port)) = (lead, served.https) else {
            continue;
        };
        served.offered.push(Offered::Frontend(Frontend {
            name: passed_name(&http.name, host),
            tenant: http.tenant.clone(),
            address: nowhere,
            port,
            protocol: Protocol::TlsPassthrough {
                server_names: vec![host.clone()],
            },
            pool: lead.pool,
            client_ip: lead.client_ip,
        }));
    }
    let redirected = served.https.filter(|_| http.spec.https_redirect);
    // What is passed through is no plain request's, whatever else a rule is for.
    if redirected.is_some() && !passed.is_empty() {
        all.retain(|route| !route.hosts.is_empty() || !own.is_empty());
        for route in all.iter_mut().filter(|route| route.hosts.is_empty()) {
            route.hosts = own.iter().map(|&host| host.to_owned()).collect();
        }
    }
    let mut hosts: Vec<String> = own.iter().map(|&host| host.to_owned()).collect();
    if let Some(port) = redirected.filter(|_| !passed.is_empty()) {
        let names: Vec<String> = passed.keys().cloned().collect();
        hosts.extend(names.iter().cloned());
        all.push(to_https(names, port));
    }
    let certificates = match served.https {
        Some(_) => http.endings.certificates.clone(),
        None => Vec::new(),
    };
    let https = served.https.filter(|_| !certificates.is_empty());
    if !hosts.is_empty() && (served.http.is_some() || https.is_some()) {
        served.offered.push(Offered::Site(Site {
            name: http.name.to_string(),
            tenant: http.tenant.clone(),
            address: nowhere,
            http: served.http,
            https,
            hosts,
            redirect: http.spec.https_redirect && https.is_some(),
            certificates,
            routes: all,
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

/// Where the backends of one HTTPLoadBalancer lead.
struct Led<'a, F> {
    http: &'a Http,
    gateway: &'a Name,
    tcp: F,
    unresolved: BTreeSet<String>,
    hosts: BTreeMap<Name, IpAddr>,
}

impl<'t, F: Fn(&str) -> Option<&'t Tcp>> Led<'_, F> {
    fn lead(&mut self, backend: &HttpBackend) -> Option<Lead> {
        let HttpBackend { name, port, .. } = backend;
        let Some(tcp) = (self.tcp)(name) else {
            let text = format!("there is no TCPLoadBalancer {name}");
            self.unresolved.insert(text);
            return None;
        };
        match tcp.lead(&self.http.tenant, self.gateway, *port) {
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
    fn pool(&mut self, backend: &HttpBackend) -> Option<String> {
        let lead = self.lead(backend)?;
        if lead.client_ip == ClientIp::Hidden {
            return Some(lead.pool);
        }
        let name = &backend.name;
        self.unresolved.insert(format!(
            "TCPLoadBalancer {name} has spec.proxyProtocol, which requests are not sent with"
        ));
        None
    }

    fn nobody(&self, backend: &HttpBackend) -> String {
        // No port has a pool that is called so: gateways answer for it with 500.
        let HttpBackend { name, port, .. } = backend;
        format!("{}:{name}:{port}", self.http.name)
    }
}
