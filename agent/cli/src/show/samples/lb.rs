//! Load balancers: one that is served, one whose port another has, and one by its names.

use kedge_control::local::{
    FleetBackend, FleetCondition, FleetLoadBalancer, FleetLoadBalancerList, FleetPort,
};

pub(crate) fn load_balancers() -> FleetLoadBalancerList {
    let condition = |kind: &str, reason: &str, message: &str| FleetCondition {
        kind: kind.into(),
        status: if message.is_empty() { "True" } else { "False" }.into(),
        reason: reason.into(),
        message: message.into(),
    };
    let host = |host: &str, address: &str, up| FleetBackend {
        host: host.into(),
        address: address.into(),
        up,
    };
    let served = FleetLoadBalancer {
        kind: "TCPLoadBalancer".into(),
        namespace: "tenant-shop".into(),
        name: "web".into(),
        tenant: "shop".into(),
        source: "Service shop/web".into(),
        gateway: "kedge-system/gw".into(),
        addresses: vec!["203.0.113.7".into()],
        hostnames: Vec::new(),
        ports: vec![FleetPort {
            name: "http".into(),
            protocol: "TCP".into(),
            port: Some(80),
            listener_port: Some(80),
        }],
        hosts: vec![
            host("edge-a", "198.18.0.2", true),
            host("edge-b", "198.18.0.3", false),
        ],
        since: Some("2026-11-09T12:00:00Z".into()),
        conditions: vec![
            condition("Accepted", "Accepted", ""),
            condition("Programmed", "Programmed", ""),
            condition(
                "BackendsHealthy",
                "SomeUnhealthy",
                "the tunnel of edge-b is down: 1 of 2 serve",
            ),
            condition("Ready", "Ready", ""),
        ],
    };
    let taken = "80/TCP of EdgeGateway kedge-system/gw is TCPLoadBalancer tenant-shop/web's";
    let refused = FleetLoadBalancer {
        name: "other".into(),
        source: String::new(),
        addresses: Vec::new(),
        ports: vec![FleetPort {
            listener_port: None,
            ..served.ports.first().cloned().unwrap_or_default()
        }],
        hosts: Vec::new(),
        conditions: vec![
            condition("Accepted", "PortInUse", taken),
            condition("Ready", "PortInUse", taken),
        ],
        ..served.clone()
    };
    let port = |name: &str, port| FleetPort {
        name: name.into(),
        protocol: "TCP".into(),
        port: Some(port),
        listener_port: Some(port),
    };
    let expired = "the certificate in Secret kedge-tls-front ended at 2026-11-01T00:00:00Z";
    let named = FleetLoadBalancer {
        kind: "HTTPLoadBalancer".into(),
        name: "front".into(),
        source: "Ingress shop/front".into(),
        hostnames: vec![
            "front.shop.lb.example.net".into(),
            "shop.example.com".into(),
        ],
        ports: vec![port("http", 80), port("https", 443)],
        conditions: vec![
            condition("Accepted", "Accepted", ""),
            condition("CertificateReady", "Expired", expired),
            FleetCondition {
                status: "Unknown".into(),
                ..condition("DNSReady", "NotManaged", "no records are made here")
            },
            condition("Programmed", "Programmed", ""),
            condition("Ready", "Expired", expired),
        ],
        ..served.clone()
    };
    FleetLoadBalancerList {
        items: vec![named, refused, served],
    }
}
