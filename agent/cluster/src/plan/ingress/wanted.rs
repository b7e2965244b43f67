//! What is asked of the manager for an Ingress.

use k8s_openapi::api::networking::v1::{HTTPIngressPath, Ingress, IngressBackend, IngressSpec};
use kedge_crd::{
    HttpLoadBalancerSpec,
    http::{HttpBackend, HttpPath, HttpRule, PathKind, Tls},
};

use super::{refusal::Refusal, tls::tls};
use crate::{
    names::{HTTPS_REDIRECT, PREFIX, TLS_PASSTHROUGH},
    plan::{
        backend::{self, Backend, PortName},
        http::Asked,
        owner::Owner,
        trouble::Trouble,
    },
    snapshot::{Key, Snapshot},
};

/// What is asked of the manager for an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The HTTPLoadBalancer with all it needs.
    pub asked: Asked,
    /// What of it is not served.
    pub troubles: Vec<Trouble>,
}

/// What an Ingress asks for by annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Plain requests are sent to HTTPS.
    pub redirect: bool,
    /// TLS ends at the backend.
    pub passthrough: bool,
}

/// What is asked of the manager for an Ingress.
///
/// # Errors
///
/// Something it asks for is not done, so that nothing of it is.
pub fn wanted(snapshot: &Snapshot, ingress: &Ingress) -> Result<Wanted, Refusal> {
    let wishes = wishes(ingress)?;
    let spec = ingress.spec.clone().unwrap_or_default();
    let mut wanted = Wanted::default();
    wanted.asked.spec.source = Some(Owner::from(ingress).source());
    wanted.asked.spec.https_redirect = wishes.redirect;
    wanted.asked.spec.hostnames = hostnames(&spec);
    let namespace = Key::of(ingress).namespace;
    let mut rules = Rules {
        snapshot,
        namespace: &namespace,
        passthrough: wishes.passthrough,
        wanted: &mut wanted,
    };
    rules.take(&spec)?;
    if wanted.asked.spec.rules.is_empty() {
        return Err(Refusal::NoRules);
    }
    if wishes.passthrough {
        passes_through(&spec, &wanted, wishes)?;
        wanted.asked.spec.tls = vec![Tls {
            hosts: wanted.asked.spec.hostnames.clone(),
            passthrough: true,
            ..Tls::default()
        }];
    } else {
        tls(snapshot, &namespace, &spec, &mut wanted);
        let lacking = wanted.troubles.iter().find(|trouble| trouble.is_of_tls());
        if wishes.redirect && (wanted.asked.spec.tls.is_empty() || lacking.is_some()) {
            let trouble = lacking.cloned();
            return Err(Refusal::Redirect { trouble });
        }
    }
    fits(&wanted.asked.spec)?;
    Ok(wanted)
}

/// What an Ingress asks for by annotations.
///
/// # Errors
///
/// One of ours is not known, or has another value than it may have.
pub fn wishes(ingress: &Ingress) -> Result<Wishes, Refusal> {
    let mut wishes = Wishes::default();
    for (key, value) in ingress.metadata.annotations.iter().flatten() {
        let wish = match key.as_str() {
            HTTPS_REDIRECT => &mut wishes.redirect,
            TLS_PASSTHROUGH => &mut wishes.passthrough,
            other if other.starts_with(PREFIX) => {
                let why = "nobody here honours it";
                let key = key.clone();
                return Err(Refusal::Annotation { key, why });
            }
            _ => continue,
        };
        *wish = match value.as_str() {
            "true" => true,
            "false" => false,
            _ => {
                let why = "the values it may have are \"true\" and \"false\"";
                let key = key.clone();
                return Err(Refusal::Annotation { key, why });
            }
        };
    }
    Ok(wishes)
}

fn hostnames(spec: &IngressSpec) -> Vec<String> {
    let rules = spec.rules.iter().flatten();
    let mut all: Vec<String> = rules
        .filter_map(|rule| rule.host.clone())
        .filter(|host| !host.is_empty())
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The rules while they are made.
struct Rules<'a> {
    snapshot: &'a Snapshot,
    namespace: &'a str,
    passthrough: bool,
    wanted: &'a mut Wanted,
}

impl Rules<'_> {
    fn take(&mut self, spec: &IngressSpec) -> Result<(), Refusal> {
        let rules = spec.rules.iter().flatten();
        let named = |host: Option<&str>| host.is_some_and(|host| !host.is_empty());
        // What stands first decides among equals: a rule for a name goes before one for all.
        let (with_name, without): (Vec<_>, Vec<_>) =
            rules.partition(|rule| named(rule.host.as_deref()));
        for rule in with_name.into_iter().chain(without) {
            let host = rule.host.as_deref().filter(|host| named(Some(host)));
            let paths = rule.http.as_ref().map(|http| http.paths.as_slice());
            for path in paths.unwrap_or_default() {
                let leads = self.leads(&path.backend);
                let path = match self.passthrough {
                    true => None,
                    false => Some(compared(path)?),
                };
                self.put(host, path, leads);
            }
        }
        if let Some(rest) = &spec.default_backend {
            let leads = self.leads(rest);
            self.put(None, None, leads);
        }
        Ok(())
    }

    /// What requests are led to; `None` where that is not possible.
    fn leads(&mut self, backend: &IngressBackend) -> Option<HttpBackend> {
        match self.resolve(backend) {
            Ok(found) => {
                let leads = HttpBackend {
                    name: found.name.clone(),
                    port: found.port,
                    weight: None,
                    request_headers: None,
                    response_headers: None,
                };
                self.wanted.asked.doors.extend(found.door);
                self.wanted.asked.backends.insert(found.name, found.spec);
                Some(leads)
            }
            Err(trouble) => {
                if let Trouble::Opening { key, port } = &trouble {
                    self.wanted.asked.doors.insert((key.clone(), *port));
                }
                if !self.wanted.troubles.contains(&trouble) {
                    self.wanted.troubles.push(trouble);
                }
                None
            }
        }
    }

    fn resolve(&self, asked: &IngressBackend) -> Result<Backend, Trouble> {
        let Some(service) = &asked.service else {
            let resource = asked.resource.clone().unwrap_or_default();
            return Err(Trouble::Resource {
                kind: resource.kind,
                name: resource.name,
            });
        };
        let key = Key::new(self.namespace, &service.name);
        let port = service.port.clone().unwrap_or_default();
        let port = match (port.name.filter(|name| !name.is_empty()), port.number) {
            (Some(name), _) => PortName::Name(name),
            (None, number) => PortName::Number(number.unwrap_or_default()),
        };
        let found = backend::backend(self.snapshot, &key, &port)?;
        if found.speaks_tls && !self.passthrough {
            let port = found.port;
            return Err(Trouble::BackendTls { key, port });
        }
        Ok(found)
    }

    /// Adds to the rule of the same name and backend, or makes one.
    fn put(&mut self, host: Option<&str>, path: Option<HttpPath>, leads: Option<HttpBackend>) {
        let hosts: Vec<String> = host.map(str::to_owned).into_iter().collect();
        let backends: Vec<HttpBackend> = leads.into_iter().collect();
        let mut rules = self.wanted.asked.spec.rules.iter_mut();
        let same = rules.find(|rule| {
            let has_room = !rule.paths.is_empty() && rule.paths.len() < MAX_PATHS;
            rule.hosts == hosts && rule.backends == backends && has_room
        });
        match (same, path) {
            (Some(rule), Some(path)) => rule.paths.push(path),
            (_, path) => self.wanted.asked.spec.rules.push(HttpRule {
                hosts,
                paths: path.into_iter().collect(),
                backends,
                ..HttpRule::default()
            }),
        }
    }
}

/// How a path is compared. A slash at the end of a prefix says nothing.
fn compared(path: &HTTPIngressPath) -> Result<HttpPath, Refusal> {
    let text = path.path.as_deref().unwrap_or_default();
    let text = if text.is_empty() { "/" } else { text };
    let kind = match path.path_type.as_str() {
        "Exact" => Some(PathKind::Exact),
        "Prefix" => None,
        "ImplementationSpecific" if text.contains(EXPRESSION) => {
            let path = text.to_owned();
            return Err(Refusal::Path { path });
        }
        "ImplementationSpecific" => None,
        value => {
            let value = value.to_owned();
            return Err(Refusal::PathType { value });
        }
    };
    let text = match kind {
        None => text.trim_end_matches('/'),
        Some(_) => text,
    };
    let text = if text.is_empty() { "/" } else { text };
    Ok(HttpPath {
        path: text.to_owned(),
        kind,
    })
}

/// Whether TLS can be passed through: then a name is all that is seen of a connection.
fn passes_through(spec: &IngressSpec, wanted: &Wanted, wishes: Wishes) -> Result<(), Refusal> {
    let refused = |why| Err(Refusal::Passthrough { why });
    let secrets = spec.tls.iter().flatten();
    let mut secrets = secrets.filter_map(|tls| tls.secret_name.as_ref());
    if secrets.any(|name| !name.is_empty()) {
        return refused("spec.tls names a Secret, and where TLS is passed through none is shown");
    }
    if wishes.redirect {
        return refused("plain requests are not sent to HTTPS where TLS is passed through");
    }
    for rule in spec.rules.iter().flatten() {
        let paths = rule.http.as_ref().map(|http| http.paths.as_slice());
        let paths = paths.unwrap_or_default();
        let is_whole = |path: &HTTPIngressPath| {
            let text = path.path.as_deref().unwrap_or_default();
            path.path_type != "Exact" && matches!(text, "" | "/")
        };
        if !matches!(paths, [path] if is_whole(path)) {
            return refused("each rule needs one path, which is / and not Exact");
        }
        let host = rule.host.as_deref().unwrap_or_default();
        if host.is_empty() || host.starts_with('*') {
            return refused("each rule needs a host, which is no wildcard");
        }
    }
    if spec.default_backend.is_some() {
        return refused("a default backend has no name");
    }
    let count = wanted.asked.spec.rules.len();
    if count > wanted.asked.spec.hostnames.len() {
        return refused("two rules have one host");
    }
    let trouble = wanted.troubles.first().cloned();
    trouble.map_or(Ok(()), |trouble| Err(Refusal::PassthroughTo { trouble }))
}

/// Whether a load balancer takes it all.
fn fits(spec: &HttpLoadBalancerSpec) -> Result<(), Refusal> {
    let counts = [
        ("names", spec.hostnames.len(), MAX_HOSTS),
        ("pairs of a name and a backend", spec.rules.len(), MAX_RULES),
        ("certificates", spec.tls.len(), MAX_TLS),
    ];
    for (what, count, most) in counts {
        if count > most {
            return Err(Refusal::TooMany { what, count, most });
        }
    }
    Ok(())
}

/// As many names, rules, paths of a rule and certificates as an HTTPLoadBalancer takes.
const MAX_HOSTS: usize = 32;
const MAX_RULES: usize = 64;
const MAX_PATHS: usize = 32;
const MAX_TLS: usize = 16;
/// What makes a path an expression to ingress-nginx and others.
const EXPRESSION: [char; 11] = ['*', '(', ')', '[', ']', '{', '}', '|', '^', '$', '\\'];
