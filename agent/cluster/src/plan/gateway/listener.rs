//! Gateways and their listeners: what is accepted, and what they are told.

use std::collections::BTreeSet;

use kedge_control::exposure::ExposedCertificate;
use kedge_crd::Condition;
use serde_json::{Value, json};

use super::{
    is_granted,
    own::{self, Own},
    ports::Ports,
    said::{met, say},
};
use crate::{
    apply::Kind,
    certificates::Certificate,
    gateway_api::{Class, GROUP, Gateway, Listener, Reference, RouteKind, Routed},
    plan::{http::Http, owner::Owner},
    snapshot::{GatewayApi, Key, Snapshot},
};

/// A Gateway of ours.
pub struct Judged<'a> {
    /// The Gateway.
    pub gateway: &'a Gateway,
    /// Why it is not accepted.
    refused: Option<Reason>,
    /// The address it asks for.
    pub own: Option<Own>,
    /// Its listeners.
    pub listeners: Vec<Place<'a>>,
}

/// A listener of a Gateway.
pub struct Place<'a> {
    /// The listener.
    pub listener: &'a Listener,
    /// Why it is not accepted.
    pub refused: Option<Reason>,
    /// Why another one has its place.
    conflict: Option<Reason>,
    /// What of it is not resolved.
    unresolved: Option<Reason>,
    /// The certificate that ends TLS.
    pub certificate: Option<ExposedCertificate>,
    /// The kinds of routes that may be attached.
    takes: Vec<Routed>,
    /// The names that routes have here.
    pub held: Vec<(Routed, Vec<String>)>,
    /// How many routes are attached.
    pub attached: u32,
}

/// Where TLS ends for what comes to a listener.
pub enum Ends<'a> {
    /// There is none.
    Plain,
    /// At the gateway, with a certificate if that is there.
    Here(Option<&'a ExposedCertificate>),
    /// At the backend.
    Passed,
}

/// A reason of a condition, and its words.
pub type Reason = (&'static str, String);

impl<'a> Judged<'a> {
    /// What is accepted of a Gateway.
    pub fn of(
        (snapshot, api): (&Snapshot, &GatewayApi),
        class: &Class,
        gateway: &'a Gateway,
    ) -> Self {
        let spec = &gateway.spec;
        let parameters = spec.infrastructure.as_ref();
        let parameters = parameters.and_then(|it| it.get("parametersRef"));
        let refused = if let Some(other) = own::unsupported(gateway) {
            let text = format!("spec.addresses: {other} is no IP address");
            Some(("UnsupportedAddress", text))
        } else if parameters.is_some_and(|it| !it.is_null()) {
            let text = "spec.infrastructure.parametersRef: there are no parameters";
            Some(("InvalidParameters", text.to_owned()))
        } else {
            None
        };
        let own = Own::of(class, gateway).filter(|_| refused.is_none());
        // At an address of its own any port may be had.
        let ports = own.is_none().then(|| Ports::of(snapshot));
        let ports = ports.unwrap_or_default();
        let listeners = spec.listeners.iter();
        Self {
            gateway,
            own,
            refused,
            listeners: listeners
                .map(|it| Place::of((snapshot, api), gateway, it, &ports))
                .collect(),
        }
    }

    /// Whether routes may be attached at all.
    pub const fn is_accepted(&self) -> bool {
        self.refused.is_none()
    }

    /// What tells what is served at its address from what is at others: nothing for the shared ones.
    pub fn at(&self) -> String {
        let own = self.own.as_ref();
        own.map(|own| own.at.clone()).unwrap_or_default()
    }

    /// Says how it is.
    pub fn say(&self, http: &mut Http<'_>) {
        let (gateway, now) = (self.gateway, http.snapshot.now.clone());
        let held = self
            .own
            .as_ref()
            .map(|own| own.asked(gateway, &self.listeners));
        let found = own::addresses(http, gateway, self.own.as_ref().zip(held.as_ref()));
        let usable = self.listeners.iter().filter(|it| it.is_usable()).count();
        let invalid = usable < self.listeners.len();
        let accepted = match &self.refused {
            Some((reason, text)) => Condition::new("Accepted", false, reason, text.clone()),
            None if usable == 0 => Condition::new(
                "Accepted",
                false,
                "ListenersNotValid",
                "no listener is usable",
            ),
            None if invalid => {
                let text = "some listeners are not usable";
                Condition::new("Accepted", true, "ListenersNotValid", text)
            }
            None => Condition::new("Accepted", true, "Accepted", ""),
        };
        let is_fine = self.refused.is_none() && usable > 0;
        let programmed = match (is_fine, &found.lacks) {
            (false, _) => Condition::new("Programmed", false, "Invalid", "it is not accepted"),
            (true, Some((reason, text))) => {
                Condition::new("Programmed", false, reason, text.clone())
            }
            (true, None) => Condition::new("Programmed", true, "Programmed", ""),
        };
        let listeners: Vec<Value> = self
            .listeners
            .iter()
            .map(|place| place.said(gateway, is_fine, &now))
            .collect();
        let addresses = if is_fine { found.addresses } else { Vec::new() };
        let addresses: Vec<Value> = addresses.iter().map(|it| address(it)).collect();
        let status = json!({"addresses": addresses, "listeners": listeners});
        say(
            http,
            (Kind::Gateway, gateway),
            status,
            vec![accepted, programmed],
        );
        if let Some(held) = held {
            http.want(Owner::from(gateway), held);
        }
    }
}

impl<'a> Place<'a> {
    fn of(
        (snapshot, api): (&Snapshot, &GatewayApi),
        gateway: &Gateway,
        listener: &'a Listener,
        ports: &Ports,
    ) -> Self {
        let kinds = listener
            .allowed_routes
            .as_ref()
            .map(|it| it.kinds.as_slice());
        let kinds = kinds.unwrap_or_default();
        let served = kinds_of(api, listener);
        let is_of = |kind: &RouteKind, of: &Routed| {
            kind.kind == of.kind() && kind.group.as_deref().unwrap_or(GROUP) == GROUP
        };
        let is_named = |of: &Routed| kinds.is_empty() || kinds.iter().any(|kind| is_of(kind, of));
        let is_served = |kind: &RouteKind| served.iter().any(|of| is_of(kind, of));
        let conflict = conflict(gateway, listener);
        // Two ways to end TLS at one port are told as such.
        let is_mixed = listener.protocol == TLS && conflict.is_some();
        let mut place = Self {
            listener,
            refused: refused(listener, ports).filter(|_| !is_mixed),
            conflict,
            unresolved: None,
            certificate: None,
            takes: served.iter().copied().filter(is_named).collect(),
            held: Vec::new(),
            attached: 0,
        };
        if !kinds.iter().all(is_served) {
            let all: Vec<&str> = served.iter().map(|of| of.kind()).collect();
            let text = format!("allowedRoutes.kinds: served are {}", all.join(", "));
            place.unresolved = Some(("InvalidRouteKinds", text));
        }
        if listener.protocol == HTTPS {
            match certificate(snapshot, api, gateway, listener) {
                Ok(found) => place.certificate = Some(found),
                Err(reason) => place.unresolved = Some(reason),
            }
        }
        place
    }

    /// Where TLS ends.
    pub fn ends(&self) -> Ends<'_> {
        match self.listener.protocol.as_str() {
            HTTPS => Ends::Here(self.certificate.as_ref()),
            TLS => Ends::Passed,
            _ => Ends::Plain,
        }
    }

    /// Whether routes of a kind may be attached.
    pub fn takes(&self, of: Routed) -> bool {
        self.takes.contains(&of)
    }

    /// Whether it is for every name.
    pub fn is_for_all(&self) -> bool {
        let hostname = self.listener.hostname.as_deref();
        hostname.unwrap_or_default().is_empty()
    }

    /// Whether routes may be attached to it.
    pub const fn is_open(&self) -> bool {
        self.refused.is_none() && self.conflict.is_none()
    }

    fn is_usable(&self) -> bool {
        self.is_open() && !self.takes.is_empty() && !matches!(self.ends(), Ends::Here(None))
    }

    fn said(&self, gateway: &Gateway, is_fine: bool, now: &str) -> Value {
        let condition = |kind: &str, reason: &Option<Reason>| match reason {
            Some((reason, text)) => Condition::new(kind, false, reason, text.clone()),
            None => Condition::new(kind, true, kind, ""),
        };
        let conflicted = match &self.conflict {
            Some((reason, text)) => Condition::new("Conflicted", true, reason, text.clone()),
            None => Condition::new("Conflicted", false, "NoConflicts", ""),
        };
        let refused = self.refused.clone().or_else(|| self.conflict.clone());
        let programmed = match is_fine && self.is_usable() {
            true => Condition::new("Programmed", true, "Programmed", ""),
            false => Condition::new("Programmed", false, "Invalid", "it is not usable"),
        };
        let new = vec![
            condition("Accepted", &refused),
            condition("ResolvedRefs", &self.unresolved),
            conflicted,
            programmed,
        ];
        let all = gateway.status.get("listeners").and_then(Value::as_array);
        let mut all = all.into_iter().flatten();
        let name = Some(self.listener.name.as_str());
        let old = all.find(|it| it.get("name").and_then(Value::as_str) == name);
        let conditions = met(old.unwrap_or(&Value::Null), new, gateway, now);
        // Of TLS that is not passed through there are no routes here.
        let has_kinds = self.listener.protocol != TLS || self.refused.is_none();
        let kinds = self.takes.iter().filter(|_| has_kinds);
        let kinds = kinds.map(|of| json!({"group": GROUP, "kind": of.kind()}));
        let kinds: Vec<Value> = kinds.collect();
        json!({"name": self.listener.name, "attachedRoutes": self.attached,
            "supportedKinds": kinds, "conditions": conditions})
    }
}

/// The kinds of routes that a listener's protocol is for, of those there are.
fn kinds_of(api: &GatewayApi, listener: &Listener) -> Vec<Routed> {
    let all: &[Routed] = match listener.protocol.as_str() {
        HTTP | HTTPS => &[Routed::Http, Routed::Grpc],
        TLS => &[Routed::Tls],
        _ => &[],
    };
    all.iter().copied().filter(|of| api.knows(*of)).collect()
}

/// The Secrets that listeners of a Gateway name, where they may.
pub fn secrets(api: &GatewayApi, gateway: &Gateway) -> BTreeSet<Key> {
    let namespace = Key::of(gateway).namespace;
    let tls = gateway
        .spec
        .listeners
        .iter()
        .filter_map(|it| it.tls.as_ref());
    let all = tls.flat_map(|tls| &tls.certificate_refs);
    let keys = all.filter(|it| is_secret(it)).map(|it| key(it, &namespace));
    keys.filter(|key| is_granted(api, ("Gateway", &namespace), ("", "Secret", key)))
        .collect()
}

fn refused(listener: &Listener, ports: &Ports) -> Option<Reason> {
    let tls = listener.tls.clone().unwrap_or_default();
    let mode = tls.mode.as_deref().unwrap_or("Terminate");
    match listener.protocol.as_str() {
        HTTP => {}
        HTTPS if mode == "Terminate" => {}
        TLS if mode == "Passthrough" => {}
        HTTPS => {
            let text = format!("tls.mode {mode} is not served, Terminate is");
            return Some(("UnsupportedValue", text));
        }
        TLS => {
            let text = format!("tls.mode {mode} is not served for TLS, Passthrough is");
            return Some(("UnsupportedValue", text));
        }
        other => {
            let text = format!("{other} is not served, HTTP, HTTPS and TLS are");
            return Some(("UnsupportedProtocol", text));
        }
    }
    if tls.frontend_validation.is_some() {
        let text = "tls.frontendValidation: clients' certificates are not asked for";
        return Some(("UnsupportedValue", text.to_owned()));
    }
    if tls.certificate_refs.len() > 1 {
        let text = "tls.certificateRefs: one certificate is served for each listener";
        return Some(("UnsupportedValue", text.to_owned()));
    }
    let text = ports.refuse(listener.port, listener.protocol != HTTP)?;
    Some(("PortUnavailable", text))
}

/// Whether another listener has the place of one: a port is for plain HTTP or for TLS, and a name for what ends
/// here or is passed through.
fn conflict(gateway: &Gateway, listener: &Listener) -> Option<Reason> {
    let others = gateway.spec.listeners.iter();
    let others = others.filter(|it| it.port == listener.port && it.name != listener.name);
    let is_tls = |it: &Listener| matches!(it.protocol.as_str(), HTTPS | TLS);
    let mode = |it: &Listener| it.tls.as_ref().and_then(|tls| tls.mode.clone());
    let host = |it: &Listener| it.hostname.clone().unwrap_or_default();
    for other in others {
        let is_same = other.protocol == listener.protocol;
        let reason = if is_same && listener.protocol == TLS && mode(other) != mode(listener) {
            "ProtocolConflict"
        } else if is_same {
            continue;
        } else if !is_tls(other) || !is_tls(listener) {
            "ProtocolConflict"
        } else if host(other) == host(listener) {
            "HostnameConflict"
        } else {
            continue;
        };
        let text = format!("listener {} has port {} as well", other.name, other.port);
        return Some((reason, text));
    }
    None
}

fn certificate(
    snapshot: &Snapshot,
    api: &GatewayApi,
    gateway: &Gateway,
    listener: &Listener,
) -> Result<ExposedCertificate, Reason> {
    let invalid = |text: String| Err(("InvalidCertificateRef", text));
    let all = listener
        .tls
        .as_ref()
        .map(|tls| tls.certificate_refs.as_slice());
    let Some(reference) = all.and_then(<[Reference]>::first) else {
        return invalid("tls.certificateRefs is empty".to_owned());
    };
    if !is_secret(reference) {
        return invalid("tls.certificateRefs: certificates come from Secrets".to_owned());
    }
    let namespace = Key::of(gateway).namespace;
    let key = key(reference, &namespace);
    if !is_granted(api, ("Gateway", &namespace), ("", "Secret", &key)) {
        let text = format!("no ReferenceGrant lets the Gateway refer to Secret {key}");
        return Err(("RefNotPermitted", text));
    }
    match snapshot.certificates.get(&key) {
        Some(Certificate::There(certificate)) => Ok(certificate.clone()),
        None | Some(Certificate::Missing) => invalid(format!("Secret {key} is not there")),
        Some(Certificate::Forbidden) => invalid(format!(
            "Secret {key} may not be read by the agent: bind ClusterRole kedge-agent-certificates \
             in namespace {}",
            key.namespace
        )),
        Some(Certificate::Unfit(why)) => invalid(format!("Secret {key}: {why}")),
    }
}

fn is_secret(reference: &Reference) -> bool {
    let group = reference.group.as_deref().unwrap_or_default();
    group.is_empty() && reference.kind.as_deref().unwrap_or("Secret") == "Secret"
}

fn key(reference: &Reference, namespace: &str) -> Key {
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    Key::new(namespace, &reference.name)
}

fn address(text: &str) -> Value {
    let kind = match text.parse::<std::net::IpAddr>() {
        Ok(_) => "IPAddress",
        Err(_) => "Hostname",
    };
    json!({"type": kind, "value": text})
}

const HTTP: &str = "HTTP";
const HTTPS: &str = "HTTPS";
const TLS: &str = "TLS";
