//! Whose a name is at a gateway, and which names a tenant may ask for.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use kedge_control::frontend::is_server_name;
use kedge_crd::{HttpLoadBalancer, HttpLoadBalancerSpec, Tenant};

use super::own::Place;
use crate::store::Name;

/// A name at a gateway, and the tenant that has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The address it is asked for at; `None` where it is the gateway's own.
    pub own: Option<IpAddr>,
    /// The name.
    pub host: String,
    /// The tenant.
    pub tenant: String,
}

/// The names of gateways, and the tenants that have them.
#[derive(Debug, Default)]
pub struct Names {
    given: BTreeMap<Place, BTreeMap<String, String>>,
}

/// Another tenant has a name, or a wildcard above it. Which of the two may change with what is given in the
/// same plan, and whose it is is none of the asker's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken;

impl Names {
    /// Enters a name that a tenant has. Who was entered first keeps it.
    pub fn enter(&mut self, at: &Place, host: &str, tenant: &str) {
        let names = self.given.entry(at.clone()).or_default();
        let entry = names.entry(host.to_owned());
        entry.or_insert_with(|| tenant.to_owned());
    }

    /// Whether no other tenant has a name.
    pub fn is_free(&self, at: &Place, host: &str, tenant: &str) -> bool {
        let owner = self.given.get(at).and_then(|names| names.get(host));
        owner.is_none_or(|owner| owner == tenant)
    }

    /// Gives a name to a tenant. One below another tenant's wildcard is that tenant's: giving it away would move
    /// its requests.
    ///
    /// # Errors
    ///
    /// Another tenant has it.
    pub fn claim(&mut self, at: &Place, host: &str, tenant: &str) -> Result<(), Taken> {
        let names = self.given.entry(at.clone()).or_default();
        match names.get(host) {
            Some(owner) if owner == tenant => return Ok(()),
            Some(_) => return Err(Taken),
            None => {}
        }
        let is_others = |above: String| names.get(&above).is_some_and(|it| it != tenant);
        if above(host).any(is_others) {
            return Err(Taken);
        }
        names.insert(host.to_owned(), tenant.to_owned());
        Ok(())
    }
}

/// The wildcards that a name is below.
fn above(host: &str) -> impl Iterator<Item = String> {
    let mut rest = host.strip_prefix("*.").unwrap_or(host);
    std::iter::from_fn(move || {
        (_, rest) = rest.split_once('.')?;
        Some(format!("*.{rest}"))
    })
}

/// Whether a tenant may ask for a name: one label below `<tenant>.<domain>`, or one its admin listed.
pub fn may_ask(tenant: &Tenant, host: &str) -> bool {
    let Some(dns) = &tenant.spec.dns else {
        return false;
    };
    let is_own = zone(tenant).is_some_and(|zone| is_one_below(host, &zone));
    let plain = host.strip_prefix("*.").unwrap_or(host);
    is_own
        || dns.allowed_hostnames.iter().any(|allowed| {
            let below = allowed.strip_prefix('*');
            allowed == host || below.is_some_and(|below| plain.ends_with(below))
        })
}

/// Whether it holds an address for others, and serves nothing itself.
pub fn holds(spec: &HttpLoadBalancerSpec) -> bool {
    spec.address.is_some() && spec.hostnames.is_empty() && spec.rules.is_empty()
}

/// Whether a tenant's load balancer may have what it asks for, if only its generated name.
pub fn may_any(tenant: &Tenant, spec: &HttpLoadBalancerSpec) -> bool {
    let is_listed = spec.hostnames.iter().any(|host| may_ask(tenant, host));
    let is_for_all = asks_for_all(spec) && may_ask(tenant, ALL);
    holds(spec) || is_listed || is_for_all || zone(tenant).is_some()
}

/// Whether one asks for every name that nobody else has without listing that.
pub const fn asks_for_all(spec: &HttpLoadBalancerSpec) -> bool {
    spec.hostnames.is_empty() || spec.other_hostnames
}

/// What a load balancer without names asks for: every name that nobody else has, where its tenant may have that.
pub fn ask_for_all(tenant: &Tenant, spec: &mut HttpLoadBalancerSpec) {
    let is_listed = spec.hostnames.iter().any(|host| host == ALL);
    if asks_for_all(spec) && !is_listed && may_ask(tenant, ALL) {
        spec.hostnames.push(ALL.to_owned());
    }
}

/// Whether a name is one label below a zone.
fn is_one_below(host: &str, zone: &str) -> bool {
    let label = host.strip_suffix(zone);
    let label = label.and_then(|label| label.strip_suffix('.'));
    label.is_some_and(|label| !label.is_empty() && !label.contains('.'))
}

/// The domain below which a tenant's names are made. A Tenant is one cluster, and its name is nobody else's,
/// which a Cluster's need not be.
pub fn zone(tenant: &Tenant) -> Option<String> {
    let domain = tenant.spec.dns.as_ref()?.domain.as_ref()?;
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    let zone = format!("{}.{domain}", tenant.metadata.name);
    is_server_name(&zone).then_some(zone)
}

/// The names that are generated, by tenant: none is made twice.
#[derive(Debug, Default)]
pub struct Generated {
    taken: BTreeMap<String, BTreeSet<String>>,
}

impl Generated {
    /// Enters a name that was generated before.
    pub fn enter(&mut self, tenant: &str, host: &str) {
        let taken = self.taken.entry(tenant.to_owned()).or_default();
        taken.insert(host.to_owned());
    }

    /// The name of an HTTPLoadBalancer: the one it has, or that of what it stands for; with the namespace where
    /// another one of the tenant has that already.
    pub fn of(
        &mut self,
        tenant: &Tenant,
        name: &Name,
        object: &HttpLoadBalancer,
        last: &str,
    ) -> Option<String> {
        let zone = zone(tenant)?;
        if is_one_below(last, &zone) {
            return Some(last.to_owned());
        }
        let source = object.spec.source.as_ref();
        let source = source.filter(|source| !source.name.is_empty());
        let of_source = source.map(|source| source.name.clone());
        let in_space = source.map(|source| format!("{}-{}", source.name, source.namespace));
        let own = name.name.clone();
        let first = of_source.into_iter().chain(in_space).chain([own.clone()]);
        let numbered = (2_u16..).map(|number| format!("{own}-{number}"));
        let taken = self.taken.entry(tenant.metadata.name.clone()).or_default();
        let mut all = first.chain(numbered).take(MOST);
        let host = all.find_map(|text| {
            let host = format!("{}.{zone}", label(&text)?);
            (is_server_name(&host) && !taken.contains(&host)).then_some(host)
        })?;
        taken.insert(host.clone());
        Some(host)
    }
}

/// A name of Kubernetes as one label of DNS.
fn label(text: &str) -> Option<String> {
    let mut label = text.to_ascii_lowercase().replace(['.', '_'], "-");
    // A number that is put behind it must stay.
    while label.len() > 63 {
        label.remove(0);
    }
    let label = label.trim_matches('-');
    (!label.is_empty()).then(|| label.to_owned())
}

/// Every name that nobody else has. No name is below it: each is its tenant's before it is anybody's.
pub const ALL: &str = "*";

/// How many names are tried.
const MOST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(dns: &str) -> Tenant {
        let text =
            format!("{{\"metadata\": {{\"name\": \"store\"}}, \"spec\": {{\"dns\": {dns}}}}}");
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["apiVersion"] = "kedge.dev/v1alpha1".into();
        value["kind"] = "Tenant".into();
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_tenant_may_ask_for_what_is_below_its_own_domain_and_for_what_is_listed() {
        let of = tenant(
            "{\"domain\": \"lb.example.net\", \"allowedHostnames\": [\"shop.example.com\", \"*.example.org\"]}",
        );
        for (host, may) in [
            ("web.store.lb.example.net", true),
            ("*.store.lb.example.net", true),
            ("a.b.store.lb.example.net", false),
            ("store.lb.example.net", false),
            ("web.other.lb.example.net", false),
            ("xstore.lb.example.net", false),
            ("*.lb.example.net", false),
            ("shop.example.com", true),
            ("a.shop.example.com", false),
            ("*.example.org", true),
            ("a.b.example.org", true),
            ("*.a.example.org", true),
            ("example.org", false),
            ("badexample.org", false),
        ] {
            assert_eq!(may_ask(&of, host), may, "{host}");
        }
        assert!(!may_ask(&tenant("{}"), "shop.example.com"));
    }

    #[test]
    fn a_name_is_one_tenants_and_what_is_below_its_wildcard_too() {
        let place = |gateway: &str, own: Option<&str>| Place {
            gateway: Name::new("ns", gateway),
            own: own.map(|text| text.parse().unwrap()),
        };
        let gateway = place("gw", None);
        let mut names = Names::default();
        let mut claim = |host: &str, tenant: &str| names.claim(&gateway, host, tenant);
        assert_eq!(claim("a.example.com", "one"), Ok(()));
        assert_eq!(claim("a.example.com", "one"), Ok(()));
        assert_eq!(claim("a.example.com", "two"), Err(Taken));
        // Whoever asks for more than another has takes nothing from it.
        assert_eq!(claim("*.example.com", "two"), Ok(()));
        assert_eq!(claim("b.example.com", "one"), Err(Taken));
        assert_eq!(claim("*.c.example.com", "one"), Err(Taken));
        assert_eq!(claim("x.y.example.com", "one"), Err(Taken));
        assert_eq!(claim("b.example.com", "two"), Ok(()));
        assert_eq!(claim("example.com", "one"), Ok(()));
        for elsewhere in [place("other", None), place("gw", Some("203.0.113.20"))] {
            assert_eq!(names.claim(&elsewhere, "a.example.com", "two"), Ok(()));
        }
    }
}
