//! What gateways offer of tenants' clusters.

use kedge_control::{
    Kind,
    local::{FleetCondition, FleetLoadBalancer, FleetLoadBalancerList, FleetPort},
};

use super::{Show, View, fleet::PENDING, pairs};
use crate::{
    style::{Mark, clean},
    table::Table,
};

impl Show for FleetLoadBalancerList {
    fn text(&self, view: &View) -> String {
        let mut titles = vec![
            "NAMESPACE",
            "NAME",
            "KIND",
            "TENANT",
            "ADDRESS",
            "PORTS",
            "HOSTS",
            "READY",
            "AGE",
        ];
        if view.wide {
            titles.extend(["GATEWAY", "SOURCE", "HOSTNAMES"]);
        }
        let mut table = Table::new(&titles);
        for it in &self.items {
            let mut cells = vec![
                it.namespace.clone(),
                it.name.clone(),
                kind(it).to_owned(),
                it.tenant.clone(),
                or(it.addresses.join(","), PENDING),
                listeners(it),
                format!("{}/{}", up(it), it.hosts.len()),
                if is_ready(it) { "yes" } else { "NO" }.to_owned(),
                view.age(it.since.as_deref().unwrap_or_default()),
            ];
            if view.wide {
                cells.extend([
                    it.gateway.clone(),
                    it.source.clone(),
                    it.hostnames.join(","),
                ]);
            }
            table.row(cells);
            if let Some(why) = wrong(it) {
                table.note(format!("  {} {}", view.style.hook(), reason(why)));
            }
        }
        let ill = self.items.iter().find(|it| wrong(it).is_some());
        let next = match (ill, self.items.first()) {
            (Some(ill), _) => format!("kedge lb explain {}", place(ill)),
            (None, Some(first)) => format!("kedge lb show {}", place(first)),
            (None, None) => "kedge fleet endpoints  (there is no load balancer)".to_owned(),
        };
        table.render() + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(place).collect()
    }
}

impl Show for FleetLoadBalancer {
    fn text(&self, view: &View) -> String {
        let mut text = format!("{}  {}\n", place(self), headline(self));
        text.push_str(&pairs(&[
            ("  tenant", self.tenant.clone()),
            ("  stands for", self.source.clone()),
            ("  gateway", self.gateway.clone()),
            ("  addresses", self.addresses.join(", ")),
            ("  hostnames", self.hostnames.join(", ")),
        ]));
        let mut ports = Table::new(&["PORT", "PROTOCOL", "ASKED-FOR", "CLIENTS-USE"]);
        for port in &self.ports {
            ports.row(vec![
                port.name.clone(),
                port.protocol.clone(),
                number(port.port),
                or(number(port.listener_port), PENDING),
            ]);
        }
        let mut hosts = Table::new(&["HOST", "OVERLAY", "TUNNEL"]);
        for host in &self.hosts {
            hosts.row(vec![
                host.host.clone(),
                host.address.clone(),
                if host.up { "up" } else { "DOWN" }.to_owned(),
            ]);
        }
        text.push_str(&ports.render());
        if !self.hosts.is_empty() {
            text.push_str(&hosts.render());
        }
        text + &view.next(&[format!("kedge lb explain {}", place(self))])
    }

    fn names(&self) -> Vec<String> {
        vec![place(self)]
    }
}

/// The same, as reasons.
pub struct Explained(pub FleetLoadBalancer);

impl Kind for Explained {
    const KIND: &'static str = FleetLoadBalancer::KIND;
}

impl Show for Explained {
    fn text(&self, view: &View) -> String {
        let Self(it) = self;
        let mut text = format!("{}  {}\n", place(it), headline(it));
        for condition in &it.conditions {
            let mark = match condition.status.as_str() {
                "True" => Mark::Good,
                "Unknown" => Mark::Warning,
                _ => Mark::Bad,
            };
            let why = match condition.message.as_str() {
                "" => String::new(),
                // It repeats the one that is wrong.
                _ if condition.kind == READY => String::new(),
                _ => format!("  {}", reason(condition)),
            };
            let kind = clean(&condition.kind);
            text.push_str(&format!("  {} {kind}{why}\n", view.style.mark(mark)));
        }
        let next = match wrong(it) {
            Some(why) => remedy(it, why),
            None => format!("kedge lb show {}", place(it)),
        };
        text + &view.next(&[next])
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

/// Whether clients are served, in a line.
fn headline(it: &FleetLoadBalancer) -> String {
    if is_ready(it) {
        format!(
            "is served at {} {} by {} of {} hosts",
            clean(&it.addresses.join(", ")),
            clean(&listeners(it)),
            up(it),
            it.hosts.len()
        )
    } else {
        "is not served".to_owned()
    }
}

/// What to type, or to change.
fn remedy(it: &FleetLoadBalancer, why: &FleetCondition) -> String {
    let tenant = clean(&it.tenant);
    match why.reason.as_str() {
        "NoTenant" => format!(
            "kubectl get tenants  (one whose namespace is {})",
            clean(&it.namespace)
        ),
        "GatewayUnset" | "QuotaExceeded" | "HostnameNotAllowed" | "NoHostnames" => {
            format!("kubectl edit tenant {tenant}")
        }
        "GatewayMissing" | "GatewayNoAddress" | "PortsExhausted" | "Pending" | "NotServed" => {
            "kubectl get edgegateways --all-namespaces".to_owned()
        }
        "PortInUse" | "PortsResting" | "HostnameTaken" | "BackendNotFound" => {
            "kedge lb list".to_owned()
        }
        _ if why.kind == "CertificateReady" && why.reason != "Unsupported" => format!(
            "kubectl -n {} get secrets --field-selector type=kubernetes.io/tls",
            clean(&it.namespace)
        ),
        "NoBackends" | "NoneHealthy" | "SomeUnhealthy" | "UnknownHost" => {
            "kedge fleet hosts".to_owned()
        }
        _ => format!(
            "kubectl -n {} edit {} {}",
            clean(&it.namespace),
            kind(it).to_lowercase(),
            clean(&it.name)
        ),
    }
}

fn is_ready(it: &FleetLoadBalancer) -> bool {
    it.conditions
        .iter()
        .any(|condition| condition.kind == READY && condition.status == "True")
}

/// What is wrong with it first; `Ready` only repeats it.
fn wrong(it: &FleetLoadBalancer) -> Option<&FleetCondition> {
    it.conditions
        .iter()
        .find(|condition| condition.kind != READY && condition.status == "False")
}

fn reason(condition: &FleetCondition) -> String {
    format!(
        "{}: {}",
        clean(&condition.reason),
        clean(&condition.message)
    )
}

/// What it is, of the two kinds there are.
fn kind(it: &FleetLoadBalancer) -> &'static str {
    match it.kind.as_str() {
        "HTTPLoadBalancer" => "HTTPLoadBalancer",
        _ => "TCPLoadBalancer",
    }
}

fn place(it: &FleetLoadBalancer) -> String {
    format!("{}/{}", clean(&it.namespace), clean(&it.name))
}

/// How many hosts take new connections.
fn up(it: &FleetLoadBalancer) -> usize {
    it.hosts.iter().filter(|host| host.up).count()
}

fn listeners(it: &FleetLoadBalancer) -> String {
    let ports: Vec<String> = it.ports.iter().map(listener).collect();
    ports.join(",")
}

/// The port clients use, such as `80/TCP`; what was asked for in brackets until there is one.
fn listener(port: &FleetPort) -> String {
    match port.listener_port {
        Some(listener) => format!("{listener}/{}", port.protocol),
        None => format!("({})/{}", number(port.port), port.protocol),
    }
}

fn number(port: Option<u16>) -> String {
    port.map(|port| port.to_string()).unwrap_or_default()
}

fn or(text: String, other: &str) -> String {
    if text.is_empty() {
        other.to_owned()
    } else {
        text
    }
}

/// The condition that sums the others up.
const READY: &str = "Ready";
