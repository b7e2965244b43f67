//! The status of an HTTPLoadBalancer.

use std::collections::BTreeSet;

use kedge_control::frontend::Protocol;
use kedge_crd::{
    Condition, HttpLoadBalancerStatus, Status, Tenant,
    condition::merge,
    http::HostnameStatus,
    tenant::DnsProvider,
    traffic::{Ingress, IngressPort, Transport},
};

use super::{Http, Served, names::zone};
use crate::{
    plan::{
        dns as records,
        gateway::public_addresses,
        offered::Offered,
        programmed::{Asked, programmed},
        report::clean,
    },
    snapshot::Snapshot,
};

/// The status, with what stays of the last one.
pub fn status(snapshot: &Snapshot, http: &Http) -> HttpLoadBalancerStatus {
    let mut conditions = vec![accepted(http)];
    if let Some(served) = http.served() {
        conditions.push(programmed(snapshot, http.gateway.as_ref(), &asked(served)));
        conditions.push(resolved(served));
        conditions.extend(http.endings.condition());
    }
    let missing = conditions
        .iter()
        .find(|condition| condition.status != Status::True);
    let ready = match missing {
        Some(missing) => {
            let text = format!("{}: {}", missing.kind, missing.message);
            Condition::new("Ready", missing.status, &missing.reason, text)
        }
        None => Condition::new("Ready", true, "Ready", ""),
    };
    // Nobody here makes records: whether one is there does not make it ready.
    conditions.extend(dns(snapshot, http));
    conditions.push(ready);
    let hostnames = http.names.iter().map(|host| HostnameStatus {
        hostname: host.clone(),
        dns: Status::Unknown,
        tls: tls(http, host),
    });
    HttpLoadBalancerStatus {
        generated_hostname: http.generated.clone(),
        served_by: match (&http.gateway, http.counts()) {
            (Some(gateway), true) => gateway.to_string(),
            _ => String::new(),
        },
        address: http.own.clone(),
        ingress: ingress(snapshot, http),
        hostnames: hostnames.collect(),
        conditions: merge(&http.last.conditions, conditions, &snapshot.now),
    }
}

fn accepted(http: &Http) -> Condition {
    // What keeps all of it from being served is told first.
    let whole = http.refused.iter().find(|refusal| refusal.is_whole());
    match whole.or_else(|| http.refused.first()) {
        Some(first) => {
            let texts: BTreeSet<String> = http.refused.iter().map(ToString::to_string).collect();
            let texts: Vec<String> = texts.into_iter().take(TOLD).collect();
            let text = clean(&texts.join("; "));
            Condition::new("Accepted", false, first.reason(), text)
        }
        None => Condition::new("Accepted", true, "Accepted", ""),
    }
}

/// What of it an instance may not serve: its name at gateways, and for people.
fn asked(served: &Served) -> Asked {
    let part = |part: &Offered| match part {
        Offered::Site(site) => Some((site.name.clone(), "its names".to_owned())),
        Offered::Frontend(frontend) => {
            let Protocol::TlsPassthrough { server_names } = &frontend.protocol else {
                return None;
            };
            let told = format!("TLS for {}", server_names.join(", "));
            Some((frontend.name.clone(), told))
        }
        Offered::Pool(_) => None,
    };
    Asked {
        parts: served.offered.iter().filter_map(part).collect(),
        is_restricted: false,
    }
}

fn resolved(served: &Served) -> Condition {
    match &served.unresolved[..] {
        [] => Condition::new("ResolvedRefs", true, "ResolvedRefs", ""),
        all => {
            let text = clean(&all.join("; "));
            Condition::new("ResolvedRefs", false, "BackendNotFound", text)
        }
    }
}

fn dns(snapshot: &Snapshot, http: &Http) -> Option<Condition> {
    http.served()?;
    let tenant: &Tenant = snapshot.tenants.get(&http.tenant)?;
    let dns = tenant.spec.dns.as_ref();
    let provider = dns.and_then(|dns| dns.provider).unwrap_or_default();
    let said = |reason, text| Condition::new("DNSReady", Status::Unknown, reason, text);
    let record = match zone(tenant) {
        Some(zone) => format!("its names, such as *.{zone}, must lead to status.ingress"),
        None => "its names must lead to status.ingress".to_owned(),
    };
    Some(match provider {
        DnsProvider::None => said("NotManaged", format!("no records are made here: {record}")),
        DnsProvider::DnsEndpoint => return Some(records::condition(snapshot, tenant)),
        DnsProvider::Annotations | DnsProvider::Rfc2136 => {
            let text = format!("records are not made for HTTPLoadBalancers: {record}");
            said("Unsupported", text)
        }
    })
}

fn tls(http: &Http, host: &str) -> Status {
    let endings = &http.endings;
    let is_served = http.served().is_some_and(|served| !served.https.is_empty());
    if endings.ready.contains(host) {
        return is_served.into();
    }
    match endings.asked.contains(host) && !endings.is_unread {
        true => Status::False,
        false => Status::Unknown,
    }
}

/// Where clients come.
fn ingress(snapshot: &Snapshot, http: &Http) -> Vec<Ingress> {
    let gateway = http
        .gateway
        .as_ref()
        .and_then(|name| snapshot.gateway(name));
    let (Some(gateway), Some(served)) = (gateway, http.served()) else {
        return Vec::new();
    };
    let ports = served.http.iter().chain(&served.https);
    let ports = ports.map(|port| IngressPort {
        port: *port,
        protocol: Transport::Tcp,
    });
    let ports: Vec<IngressPort> = ports.collect();
    let addresses = match http.own() {
        Some(own) => vec![own.to_string()],
        None => public_addresses(gateway),
    };
    let ingress = addresses.into_iter().map(|address| {
        let ip = address.parse().ok();
        Ingress {
            hostname: ip.is_none().then_some(address),
            ip,
            ports: ports.clone(),
        }
    });
    ingress.take(INGRESS).collect()
}

/// As many as the schema takes.
const INGRESS: usize = 16;
/// As many refusals as anybody reads at once.
const TOLD: usize = 8;
