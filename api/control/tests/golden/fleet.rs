//! The manager at its socket.

use kedge_control::{
    Document,
    local::{
        FleetBackend, FleetCondition, FleetEndpoint, FleetEndpointList, FleetHost, FleetHostList,
        FleetLoadBalancer, FleetLoadBalancerList, FleetPort, ManagerStatus,
    },
};

use crate::{golden, roles::role, text};

#[test]
fn the_fleet() {
    let condition = FleetCondition {
        kind: text("EndpointPublished"),
        status: text("True"),
        reason: text("Published"),
        message: text("10.20.14.10:6443"),
    };
    golden(
        "fleet-endpoint-list",
        &Document::new(FleetEndpointList {
            items: vec![FleetEndpoint {
                namespace: text("store-014"),
                cluster: text("edge"),
                load_balancer: text("edge"),
                endpoint: Some(text("10.20.14.10:6443")),
                mode: text("VIP"),
                from: text("pool edge-lan"),
                reached_via: text("gw 203.0.113.7:30000"),
                owner: text("edge-a"),
                since: Some(text("2026-01-01T00:00:00Z")),
                because: text("10.20.14.10 was the lowest free address of VIPPool edge-lan"),
                conditions: vec![condition.clone()],
                problems: Vec::new(),
            }],
        }),
    );
    golden(
        "fleet-host-list",
        &Document::new(FleetHostList {
            items: vec![FleetHost {
                namespace: text("store-014"),
                name: text("edge-a"),
                tenant: text("store-014"),
                host_ref: text("ElementalHost/edge-a"),
                cluster: text("edge"),
                address: text("10.20.14.11"),
                overlay: vec![text("fd6b:6564:6765::a/128")],
                alive: true,
                vips: vec![text("edge Active")],
                gateway: text("gw-0"),
                applied_generation: 7,
                generation: 7,
                version: text("0.1.0"),
                conditions: vec![condition.clone()],
            }],
        }),
    );
    golden(
        "fleet-load-balancer-list",
        &Document::new(FleetLoadBalancerList {
            items: vec![FleetLoadBalancer {
                namespace: text("tenant-shop"),
                name: text("web"),
                tenant: text("shop"),
                source: text("Service shop/web"),
                gateway: text("kedge-system/gw"),
                addresses: vec![text("203.0.113.7")],
                ports: vec![FleetPort {
                    name: text("http"),
                    protocol: text("TCP"),
                    port: Some(80),
                    listener_port: Some(30_080),
                }],
                hosts: vec![FleetBackend {
                    host: text("edge-a"),
                    address: text("198.18.0.2"),
                    up: true,
                }],
                since: Some(text("2026-01-01T00:00:00Z")),
                conditions: vec![condition.clone()],
                ..FleetLoadBalancer::default()
            }],
        }),
    );
    golden(
        "manager-status",
        &Document::new(ManagerStatus {
            role: role(),
            store: text("directory /srv/kedge"),
            agent_api: text("203.0.113.9:9443"),
            ca_pin: text("pin"),
            clusters: 3,
            endpoints: 2,
            hosts: 3,
            hosts_alive: 2,
            problems: Vec::new(),
        }),
    );
}
