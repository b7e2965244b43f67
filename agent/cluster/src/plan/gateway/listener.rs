//! Gateways and their listeners: what is accepted, and what they are told.

use std::collections::BTreeSet;

use kedge_control::exposure::ExposedCertificate;
use kedge_crd::Condition;
use serde_json::{Value, json};

use super::{
    is_granted,
    said::{met, say},
};
use crate::{
    apply::Kind,
    certificates::Certificate,
    gateway_api::{GROUP, Gateway, Listener, Reference},
    plan::http::Http,
    snapshot::{GatewayApi, Key, Snapshot},
};

/// A Gateway of ours.
pub struct Judged<'a> {
    /// The Gateway.
    pub gateway: &'a Gateway,
    /// Why it is not accepted.
    refused: Option<Reason>,
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
    /// Whether HTTPRoutes may be attached.
    pub takes_routes: bool,
    /// How many routes are attached.
    pub attached: u32,
}

/// A reason of a condition, and its words.
pub type Reason = (&'static str, String);

impl<'a> Judged<'a> {
    /// What is accepted of a Gateway.
    pub fn of(snapshot: &Snapshot, api: &GatewayApi, gateway: &'a Gateway) -> Self {
        let spec = &gateway.spec;
        let parameters = spec.infrastructure.as_ref();
        let parameters = parameters.and_then(|it| it.get("parametersRef"));
        let refused = if !spec.addresses.is_empty() {
            let text = "spec.addresses: it has the addresses of its tenant's gateway";
            Some(("UnsupportedAddress", text.to_owned()))
        } else if parameters.is_some_and(|it| !it.is_null()) {
            let text = "spec.infrastructure.parametersRef: there are no parameters";
            Some(("InvalidParameters", text.to_owned()))
        } else {
            None
        };
        let ports = served(snapshot);
        let listeners = spec.listeners.iter();
        Self {
            gateway,
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

    /// Says how it is.
    pub fn say(&self, http: &mut Http<'_>) {
        let (gateway, now) = (self.gateway, http.snapshot.now.clone());
        let offered = http.snapshot.offered.as_ref();
        let addresses = offered.map(|it| it.addresses.clone()).unwrap_or_default();
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
        let programmed = match (is_fine, addresses.is_empty()) {
            (false, _) => Condition::new("Programmed", false, "Invalid", "it is not accepted"),
            (true, true) => {
                let text = "the manager names no address of the gateway";
                Condition::new("Programmed", false, "AddressNotAssigned", text)
            }
            (true, false) => Condition::new("Programmed", true, "Programmed", ""),
        };
        let listeners: Vec<Value> = self
            .listeners
            .iter()
            .map(|place| place.said(gateway, is_fine, &now))
            .collect();
        let addresses = if is_fine { addresses } else { Vec::new() };
        let addresses: Vec<Value> = addresses.iter().map(|it| address(it)).collect();
        let status = json!({"addresses": addresses, "listeners": listeners});
        say(
            http,
            (Kind::Gateway, gateway),
            status,
            vec![accepted, programmed],
        );
    }
}

impl<'a> Place<'a> {
    fn of(
        (snapshot, api): (&Snapshot, &GatewayApi),
        gateway: &Gateway,
        listener: &'a Listener,
        ports: &BTreeSet<i32>,
    ) -> Self {
        let kinds = listener
            .allowed_routes
            .as_ref()
            .map(|it| it.kinds.as_slice());
        let kinds = kinds.unwrap_or_default();
        let is_route = |kind: &crate::gateway_api::RouteKind| {
            kind.kind == "HTTPRoute" && kind.group.as_deref().unwrap_or(GROUP) == GROUP
        };
        let mut place = Self {
            listener,
            refused: refused(listener, ports),
            conflict: conflict(gateway, listener),
            unresolved: None,
            certificate: None,
            takes_routes: kinds.is_empty() || kinds.iter().any(is_route),
            attached: 0,
        };
        if !kinds.iter().all(is_route) {
            let text = "allowedRoutes.kinds: HTTPRoutes are served".to_owned();
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

    /// Whether TLS ends here.
    pub fn is_tls(&self) -> bool {
        self.listener.protocol == HTTPS
    }

    /// Whether routes may be attached to it.
    pub const fn is_open(&self) -> bool {
        self.refused.is_none() && self.conflict.is_none()
    }

    fn is_usable(&self) -> bool {
        self.is_open() && self.takes_routes && (!self.is_tls() || self.certificate.is_some())
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
        let kinds = match self.takes_routes {
            true => json!([{"group": GROUP, "kind": "HTTPRoute"}]),
            false => json!([]),
        };
        json!({"name": self.listener.name, "attachedRoutes": self.attached,
            "supportedKinds": kinds, "conditions": conditions})
    }
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

fn refused(listener: &Listener, ports: &BTreeSet<i32>) -> Option<Reason> {
    let tls = listener.tls.clone().unwrap_or_default();
    let mode = tls.mode.as_deref().unwrap_or("Terminate");
    match listener.protocol.as_str() {
        HTTP => {}
        HTTPS if mode == "Terminate" => {}
        HTTPS => {
            let text = format!("tls.mode {mode} is not served, Terminate is");
            return Some(("UnsupportedValue", text));
        }
        other => {
            let text = format!("{other} is not served, HTTP and HTTPS are");
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
    if !ports.is_empty() && !ports.contains(&listener.port) {
        let all: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let text = format!("the gateway serves HTTP at {}", all.join(", "));
        return Some(("PortUnavailable", text));
    }
    None
}

/// Whether listeners of one port are of two protocols.
fn conflict(gateway: &Gateway, listener: &Listener) -> Option<Reason> {
    let mut all = gateway.spec.listeners.iter();
    let other = all.find(|it| it.port == listener.port && it.protocol != listener.protocol)?;
    let text = format!("listener {} has port {} as well", other.name, other.port);
    Some(("ProtocolConflict", text))
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

/// The ports at which the manager has HTTPLoadBalancers served, as far as it says.
fn served(snapshot: &Snapshot) -> BTreeSet<i32> {
    let all = snapshot.offered.iter().flat_map(|it| it.http.values());
    let said = all.filter_map(|it| it.status.as_ref());
    let ports = said.flat_map(|it| &it.ingress).flat_map(|it| &it.ports);
    let mut ports: BTreeSet<i32> = ports.map(|it| i32::from(it.port.get())).collect();
    if ports.len() == 1 {
        // Where nothing has a certificate yet the port of HTTPS is not told.
        ports.clear();
    }
    ports
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
