//! Records for external-dns: one DNSEndpoint for each tenant that asks for it, with its wildcard, the other
//! names its HTTPLoadBalancers were given, and those of its control planes, which must resolve before there
//! is one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use kedge_crd::{
    Condition, Resource as _, Status, Tenant, TenantSpec,
    balancer::Mode,
    tenant::{self, DnsProvider},
};
use serde_json::{Value, json};

use super::{
    Service,
    desired::Desired,
    gateway::public_addresses,
    http::{ALL, Http, may_ask, zone},
    marks::TENANT_LABEL,
    tcp::gateway_of,
};
use crate::{
    managers,
    snapshot::{Snapshot, key},
    store::{Name, ObjectKey},
};

/// The kind, by group and name (external-dns `apis/v1alpha1`).
pub const KIND: (&str, &str) = ("externaldns.k8s.io", "DNSEndpoint");

/// Whether records are asked of external-dns.
#[must_use]
pub fn is_asked(tenant: &Tenant) -> bool {
    let dns = tenant.spec.dns.as_ref();
    dns.and_then(|dns| dns.provider) == Some(DnsProvider::DnsEndpoint)
}

/// The object that holds a tenant's records.
#[must_use]
pub fn object(tenant: &Tenant) -> ObjectKey {
    let name = Name::new(
        tenant::namespace(tenant),
        format!("kedge-{}", tenant.metadata.name),
    );
    ObjectKey::new(KIND.0, KIND.1, name)
}

/// Whether the records are handed over, where they are asked for.
#[must_use]
pub fn condition(snapshot: &Snapshot, tenant: &Tenant) -> Condition {
    let said = |status, reason: &str, text| Condition::new("DNSReady", status, reason, text);
    if !snapshot.environment.serves(KIND.0, KIND.1) {
        let text = format!(
            "no {} of {} is served: install external-dns with its CRD and `--source=crd`, and give the manager \
             the rights (chart value `externalDNS.enabled`)",
            KIND.1, KIND.0
        );
        return said(Status::False, "KindMissing", text);
    }
    let object = object(tenant);
    let layers = snapshot.objects.get(&object);
    let observed = layers.and_then(|layers| {
        let seen = layers
            .user
            .as_ref()?
            .value
            .pointer("/status/observedGeneration")?
            .as_i64();
        let server = layers.server.as_ref()?.generation;
        Some(seen? >= server?)
    });
    match observed {
        Some(true) => said(
            Status::True,
            "Observed",
            format!("external-dns has {object}"),
        ),
        _ => {
            let text = format!("external-dns was not heard of {object} yet");
            said(Status::Unknown, "Published", text)
        }
    }
}

/// Wants the records of every tenant that asks for them.
pub fn write(snapshot: &Snapshot, services: &[Service], http: &[Http], wanted: &mut Desired) {
    if !snapshot.environment.serves(KIND.0, KIND.1) {
        return;
    }
    for (name, tenant) in snapshot
        .tenants
        .iter()
        .filter(|(_, tenant)| is_asked(tenant))
    {
        let space = tenant::namespace(tenant);
        // Of two tenants of a namespace, LoadBalancers are the first one's.
        let is_first = snapshot
            .tenant_of(&space)
            .is_some_and(|first| first.metadata.name == *name);
        let mut records = Records::default();
        records.wildcard(snapshot, tenant);
        let mut first = BTreeSet::new();
        for http in http.iter().filter(|http| http.tenant() == name) {
            records.custom(snapshot, tenant, http, &mut first);
        }
        let own = services.iter().filter(|_| is_first);
        for service in own.filter(|service| service.balancer.name.namespace == space) {
            records.control_plane(snapshot, tenant, service);
        }
        if records.0.is_empty() {
            continue;
        }
        let object = object(tenant);
        let spec = json!({"endpoints": records.endpoints()});
        wanted.own(
            &object,
            &format!("{}/v1alpha1", KIND.0),
            managers::DNS,
            spec,
        );
        wanted.label(&object, managers::DNS, TENANT_LABEL, name);
        let layers = snapshot
            .objects
            .get(&key::<TenantSpec>(&Name::new("", name)));
        let server = layers.and_then(|layers| layers.server.as_ref());
        if let Some(server) = server.filter(|server| !server.uid.is_empty()) {
            let owner = json!([{"apiVersion": TenantSpec::api_version(), "kind": TenantSpec::KIND,
                "name": name, "uid": server.uid}]);
            wanted.owners(&object, managers::DNS, owner);
        }
    }
}

/// The targets of names, and for how long answers are kept, seconds.
#[derive(Debug, Default)]
struct Records(BTreeMap<String, (BTreeSet<String>, u32)>);

impl Records {
    fn put(&mut self, name: &str, targets: impl IntoIterator<Item = String>, ttl: u32) {
        let targets: BTreeSet<String> = targets.into_iter().collect();
        if !targets.is_empty() {
            self.0.entry(name.to_owned()).or_insert((targets, ttl));
        }
    }

    /// `*.<tenant>.<domain>` leads to the tenant's gateway.
    fn wildcard(&mut self, snapshot: &Snapshot, tenant: &Tenant) {
        let gateway = gateway_of(tenant).and_then(|name| snapshot.gateway(&name));
        if let (Some(zone), Some(gateway)) = (zone(tenant), gateway) {
            self.put(&format!("*.{zone}"), public_addresses(gateway), TTL);
        }
    }

    /// The names that the wildcard does not stand for: other ones, and those at another address. Of several load
    /// balancers with one name the first says where it leads; `first` are the names of those before.
    fn custom<'a>(
        &mut self,
        snapshot: &Snapshot,
        tenant: &Tenant,
        http: &'a Http,
        first: &mut BTreeSet<&'a str>,
    ) {
        let gateway = http.gateway().and_then(|name| snapshot.gateway(name));
        let Some(gateway) = gateway else { return };
        let below = zone(tenant).map(|zone| format!(".{zone}"));
        let is_covered = |name: &&String| below.as_ref().is_some_and(|below| name.ends_with(below));
        // Every name is none of its own.
        let own = http.names().iter().filter(|name| name.as_str() != ALL);
        for name in own.filter(|name| first.insert(name)) {
            match http.own() {
                Some(own) => self.put(name, [own.to_string()], TTL),
                None if is_covered(&name) => {}
                None => self.put(name, public_addresses(gateway), TTL),
            }
        }
    }

    /// The name of a control plane's endpoint, if the tenant may have it.
    fn control_plane(&mut self, snapshot: &Snapshot, tenant: &Tenant, service: &Service) {
        let spec = &service.balancer.spec;
        let Some(dns) = &spec.dns else { return };
        let Some(name) = dns.hostname.as_ref().filter(|name| may_ask(tenant, name)) else {
            return;
        };
        let targets: Vec<String> = match (spec.mode, &service.decided.gateway) {
            (Some(Mode::Vip), _) => {
                let vip = spec.vip.as_ref();
                let second = vip.and_then(|vip| vip.second.as_ref()?.address);
                let first = vip.and_then(|vip| vip.address);
                let both = first.into_iter().chain(second);
                both.map(|address| address.to_string()).collect()
            }
            (Some(Mode::Tunnel), Some(Ok(used))) => {
                let gateway = snapshot.gateway(&used.name);
                gateway.map(public_addresses).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let ttl = dns.ttl.map(|ttl| ttl.duration().as_secs());
        let ttl = ttl
            .and_then(|ttl| u32::try_from(ttl).ok())
            .unwrap_or(ENDPOINT_TTL);
        self.put(name, targets, ttl);
    }

    /// The records as external-dns reads them. A name that leads to addresses leads to no name beside them
    /// (RFC 1034 section 3.6.2).
    fn endpoints(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for (name, (targets, ttl)) in &self.0 {
            let of = |is_it: fn(&IpAddr) -> bool| {
                let parsed = targets.iter().filter(|target| {
                    target
                        .parse::<IpAddr>()
                        .is_ok_and(|address| is_it(&address))
                });
                parsed.collect::<Vec<_>>()
            };
            let mut put = |kind: &str, targets: Vec<&String>| {
                if !targets.is_empty() {
                    all.push(
                        json!({"dnsName": name, "recordType": kind, "recordTTL": ttl,
                        "targets": targets}),
                    );
                }
            };
            let (four, six) = (of(IpAddr::is_ipv4), of(IpAddr::is_ipv6));
            if four.is_empty() && six.is_empty() {
                put("CNAME", targets.iter().take(1).collect());
            }
            put("A", four);
            put("AAAA", six);
        }
        all
    }
}

/// Seconds: an address moves rarely.
const TTL: u32 = 300;
/// As the schema of LoadBalancers says.
const ENDPOINT_TTL: u32 = 60;
