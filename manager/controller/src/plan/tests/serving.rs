//! What hosts and gateways get, and how that is told.

use kedge_control::agent::HostConfig;
use kedge_core::vip::RouterState;
use serde_json::json;

use super::world::{NS, VIP, World, cluster, demo};
use crate::{snapshot::Hearing, store::Name};

fn served() -> World {
    let mut world = demo();
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.enrol(host);
    }
    world
}

fn host(name: &str) -> Name {
    Name::new(NS, name)
}

#[test]
fn the_hosts_of_a_cluster_get_its_vip_with_spaced_priorities() {
    let plan = served().settle();
    let config = |name: &str| -> &HostConfig { &plan.hosts[&host(name)] };
    let priorities: Vec<u8> = ["edge-a", "edge-b", "edge-c"]
        .iter()
        .map(|name| config(name).vips[0].priority.get())
        .collect();
    assert_eq!(priorities, [254, 251, 248]);
    let text = serde_json::to_value(&config("edge-a").vips).unwrap();
    let vrid = config("edge-a").vips[0].vrid;
    assert_eq!(
        text,
        json!([{"name": "edge", "addresses": ["10.20.14.10"], "vrid": vrid, "priority": 254,
            "advertIntervalSeconds": 0.1, "interface": null, "health": "auto"}])
    );
    assert_eq!(
        vrid,
        kedge_core::vip::Vrid::derive("10.20.14.10".parse().unwrap())
    );
}

#[test]
fn hosts_and_gateways_know_each_other_by_single_overlay_addresses() {
    let plan = served().settle();
    let tunnel = plan.hosts[&host("edge-a")].tunnel.as_ref().unwrap();
    assert_eq!(
        serde_json::to_value(tunnel).unwrap(),
        json!({"addresses": ["fd6b:6564:6765::2/128", "198.18.0.2/32"], "mtu": 1420, "peers": [
            {"name": "gw-0", "publicKey": "key-gw", "endpoint": "203.0.113.7:51820",
             "allowedIPs": ["fd6b:6564:6765::1/128", "198.18.0.1/32"], "keepaliveSeconds": 25}]})
    );
    let gateway = &plan.gateways[&(Name::new("kedge-system", "gw"), "gw-0".to_owned())];
    let peers = &gateway.tunnel.as_ref().unwrap().peers;
    assert_eq!(peers.len(), 3);
    assert_eq!(
        serde_json::to_value(&peers[2]).unwrap(),
        json!({"name": "store-014/edge-c", "publicKey": "key-edge-c",
            "allowedIPs": ["fd6b:6564:6765::4/128", "198.18.0.4/32"], "keepaliveSeconds": 0,
            "tenant": "store-014"})
    );
}

#[test]
fn hosts_are_told_where_their_gateway_is_beside_its_usual_port_if_it_is() {
    let mut world = served();
    let plan = world.settle();
    let told = |plan: &crate::plan::Plan| {
        let host = plan.hosts[&host("edge-a")].clone();
        let peer = host.tunnel.unwrap().peers.remove(0);
        (peer.other_endpoint, peer.tls_endpoint)
    };
    assert_eq!(told(&plan), (None, None));
    let before = plan.hosts[&host("edge-a")].generation;
    world.write(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\n\
         metadata: {name: gw, namespace: kedge-system}\n\
         spec: {tunnel: {publicEndpoints: [{host: 203.0.113.7, port: 51820}], otherPort: 443, tlsPort: 8443}, \
         ports: {range: {from: 30000, to: 30099}}}\n",
    );
    let plan = world.settle();
    let at = |port: u16| Some(format!("203.0.113.7:{port}"));
    assert_eq!(told(&plan), (at(443), at(8443)));
    assert!(plan.hosts[&host("edge-a")].generation > before);
}

#[test]
fn the_hosts_of_a_mesh_and_their_gateway_know_who_they_are_and_nobody_else_is_told() {
    let mut world = served();
    let plan = world.settle();
    assert!(
        plan.hosts.values().all(|host| host.mesh.is_none()),
        "nobody asked for it"
    );
    for (name, direct) in [("edge-a", "Auto"), ("edge-b", "Never")] {
        world.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: {name}, namespace: \
             {NS}}}\nspec: {{tunnel: {{topology: Mesh, directPath: {direct}}}}}\n"
        ));
    }
    let plan = world.settle();
    let mesh = |name: &str| serde_json::to_value(&plan.hosts[&host(name)].mesh).unwrap();
    assert_eq!(
        mesh("edge-a"),
        json!({"directPath": "auto", "peers": [{"name": "store-014/edge-b",
            "publicKey": "key-edge-b", "addresses": ["fd6b:6564:6765::3/128", "198.18.0.3/32"]}]})
    );
    assert_eq!(mesh("edge-b")["directPath"], "never");
    assert_eq!(mesh("edge-b")["peers"][0]["name"], "store-014/edge-a");
    assert_eq!(mesh("edge-c"), serde_json::Value::Null);
    let gateway = plan.gateways.values().next().unwrap();
    assert_eq!(
        serde_json::to_value(&gateway.meshes).unwrap(),
        json!([{"hosts": ["store-014/edge-a", "store-014/edge-b"]}])
    );
    // Who is banned is in no mesh any more, at once.
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: edge-b, namespace: {NS}}}\n\
         spec: {{access: Banned, tunnel: {{topology: Mesh}}}}\n"
    ));
    let plan = world.settle();
    let mesh = plan.hosts[&host("edge-a")].mesh.as_ref().unwrap();
    assert!(mesh.peers.is_empty(), "{mesh:?}");
    let gateway = plan.gateways.values().next().unwrap();
    assert_eq!(gateway.meshes[0].hosts, ["store-014/edge-a"]);
}

#[test]
fn a_gateway_gets_a_listener_for_a_tunnel_and_for_management_access() {
    let mut world = served();
    let members = |world: &mut World| {
        let plan = world.settle();
        let gateway = plan.gateways.values().next().unwrap().clone();
        let listeners = gateway.listeners.iter().map(|listener| {
            let members = listener
                .members
                .iter()
                .map(|member| format!("{}:{}", member.address, member.port));
            (
                listener.name.clone(),
                listener.port,
                members.collect::<Vec<_>>(),
            )
        });
        (gateway.generation, listeners.collect::<Vec<_>>())
    };
    let in_order = [2, 3, 4]
        .map(|last| format!("fd6b:6564:6765::{last}:6443"))
        .to_vec();
    let (generation, listeners) = members(&mut world);
    let tunnel = (
        "store-014/edge-tunnel/api".to_owned(),
        30001,
        in_order.clone(),
    );
    let vip = ("store-014/edge/api".to_owned(), 30000, in_order.clone());
    assert_eq!(listeners, [tunnel.clone(), vip]);
    // The holder of the VIP comes first, and only that listener changes.
    world.vip_state(
        "edge-b",
        "edge",
        RouterState::Active,
        "2026-01-01T00:00:01Z",
    );
    let (after, listeners) = members(&mut world);
    assert_eq!(listeners[0], tunnel);
    assert_eq!(listeners[1].2[0], in_order[1]);
    assert_eq!(after, generation + 1);
    assert_eq!(
        members(&mut world).0,
        after,
        "generations grow on change only"
    );
}

#[test]
fn of_two_hosts_that_claim_the_vip_the_latest_that_is_heard_holds_it() {
    let mut world = served();
    world.vip_state(
        "edge-a",
        "edge",
        RouterState::Active,
        "2026-01-01T00:00:09.5Z",
    );
    world.vip_state(
        "edge-b",
        "edge",
        RouterState::Active,
        "2026-01-01T00:00:10Z",
    );
    world.settle();
    assert_eq!(world.balancer("edge").1.vip.unwrap().holder, "edge-b");
    assert!(
        world
            .condition("edge", "IsReachable")
            .contains("edge-b holds the VIP")
    );
    world.hearing("edge-b", Hearing::Silent);
    world.settle();
    assert_eq!(world.balancer("edge").1.vip.unwrap().holder, "edge-a");
    world.hearing("edge-a", Hearing::Silent);
    world.settle();
    assert!(
        world
            .condition("edge", "IsReachable")
            .starts_with("False: NoActiveTargets")
    );
}

#[test]
fn an_endpoint_whose_server_fails_its_probe_is_not_called_reachable() {
    let mut world = served();
    let since = "2026-01-01T00:00:09Z";
    world.vip_state("edge-a", "edge", RouterState::Active, since);
    let said = |world: &mut World, host: &str, answers: Option<bool>| {
        world.report(host, |report| report.vips[0].answers = answers);
        world.settle();
        world.condition("edge", "IsReachable")
    };
    // Nothing has answered yet, as before the first bootstrap.
    let holds = "True: Serving: edge-a holds the VIP";
    assert_eq!(said(&mut world, "edge-a", None), holds);
    assert_eq!(said(&mut world, "edge-a", Some(true)), holds);
    let failed = said(&mut world, "edge-a", Some(false));
    let text = "False: ProbeFailed: edge-a holds the VIP, and its server behind it fails";
    assert!(failed.starts_with(text), "{failed}");
    let (_, status) = world.balancer("edge");
    let ready = kedge_crd::condition::find(&status.conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "ProbeFailed");
    // Another one's server may be dead: it is not the one that is dialled.
    world.vip_state("edge-b", "edge", RouterState::Backup, since);
    said(&mut world, "edge-a", Some(true));
    assert_eq!(said(&mut world, "edge-b", Some(false)), holds);
}

#[test]
fn a_manager_that_just_started_believes_what_it_wrote_last() {
    let mut world = served();
    world.vip_state(
        "edge-a",
        "edge",
        RouterState::Active,
        "2026-01-01T00:00:09Z",
    );
    world.settle();
    for live in world.live.hosts.values_mut() {
        live.hearing = Hearing::Unknown;
        live.report = None;
    }
    world.live.gateways.clear();
    let before = world.objects.clone();
    world.settle();
    assert_eq!(world.objects, before);
}

#[test]
fn a_target_that_is_disabled_suspended_or_unbound_takes_no_part() {
    let mut world = served();
    world.settle();
    let machine = |annotations: &str| {
        format!(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {{name: edge-cp-a, namespace: {NS}, \
             labels: {{cluster.x-k8s.io/cluster-name: edge, cluster.x-k8s.io/control-plane: ''}}{annotations}}}\n\
             spec: {{clusterName: edge, infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, \
             kind: ElementalMachine, name: edge-cp-a}}}}\n"
        )
    };
    world.write(&machine(", annotations: {kedge.dev/lb-disabled: ''}"));
    let plan = world.settle();
    assert_eq!(plan.hosts[&host("edge-a")].vips, []);
    assert_eq!(
        plan.hosts[&host("edge-b")].vips[0].priority.get(),
        251,
        "others keep their place"
    );
    world.write(&machine(""));
    assert_eq!(world.settle().hosts[&host("edge-a")].vips.len(), 1);
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\nmetadata: {{name: edge-a, namespace: {NS}}}\nspec: {{access: Suspended}}\n"
    ));
    let plan = world.settle();
    assert_eq!(plan.hosts[&host("edge-a")].vips, []);
    let gateway = plan.gateways.values().next().unwrap();
    assert_eq!(gateway.tunnel.as_ref().unwrap().peers.len(), 2);
    assert_eq!(gateway.listeners[0].members.len(), 2);
}

#[test]
fn a_load_balancer_nobody_asks_for_goes_on_while_its_cluster_lives() {
    let mut world = served();
    world.settle();
    world.write(&cluster("edge", "", ""));
    world.remove("kedge.dev", "LoadBalancer", "edge-tunnel");
    let plan = world.settle();
    assert_eq!(plan.hosts[&host("edge-a")].vips.len(), 1);
    assert!(
        world
            .condition("edge", "Degraded")
            .starts_with("True: DeletionBlocked")
    );
    let gateway = plan.gateways.values().next().unwrap();
    assert_eq!(gateway.listeners.len(), 2);
    assert_eq!(
        gateway.listeners[1].members.len(),
        3,
        "its selector is remembered"
    );
    // Without the Cluster, but with its machines, too; without both it is released.
    world.remove("cluster.x-k8s.io", "Cluster", "edge");
    assert_eq!(world.settle().hosts[&host("edge-a")].vips.len(), 1);
    for machine in ["edge-cp-a", "edge-cp-b", "edge-cp-c"] {
        world.remove("cluster.x-k8s.io", "Machine", machine);
    }
    assert_eq!(world.settle().hosts[&host("edge-a")].vips, []);
    assert_eq!(
        world.endpoints("edge").1,
        None,
        "no object of others is made"
    );
}

#[test]
fn nothing_is_released_while_a_document_is_unreadable() {
    let mut world = served();
    world.settle();
    let before = world.objects.clone();
    world.objects.incomplete = true;
    world.remove("cluster.x-k8s.io", "Cluster", "edge");
    for machine in ["edge-cp-a", "edge-cp-b", "edge-cp-c"] {
        world.remove("cluster.x-k8s.io", "Machine", machine);
    }
    world.settle();
    let (spec, _) = world.balancer("edge");
    assert_eq!(
        spec.vip.unwrap().address,
        Some("10.20.14.10".parse().unwrap())
    );
    world.objects = before;
    world.settle();
    assert_eq!(
        world.endpoints("edge").0,
        Some(json!({"host": "10.20.14.10", "port": 6443}))
    );
}

#[test]
fn two_vips_of_one_lan_never_share_a_virtual_router_id() {
    let mut world = served();
    let narrow = format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: VIPPool\nmetadata: {{name: edge-lan, namespace: {NS}}}\n\
         spec: {{addresses: [10.20.14.14-10.20.14.19], prefix: 24, vrid: {{from: 7, to: 8}}}}\n"
    );
    world.write(&narrow);
    world.write(&cluster("vx", VIP, ""));
    world.write(&cluster("vy", VIP, ""));
    let plan = world.settle();
    let vrid = |name: &str| {
        world
            .balancer(name)
            .0
            .vip
            .unwrap()
            .vrid
            .map(|vrid| vrid.get())
    };
    let mut vrids = vec![vrid("edge"), vrid("vx")];
    vrids.sort();
    assert_eq!(vrids, [Some(7), Some(8)]);
    let last = plan
        .endpoints
        .iter()
        .find(|item| item.cluster == "vy")
        .unwrap();
    assert_eq!(
        last.because,
        "VIPPool edge-lan has no virtual router id free"
    );
    assert_eq!(vrid("vy"), None);
}

#[test]
fn the_tunnel_is_up_by_the_word_of_either_end() {
    let mut world = served();
    world.report("edge-a", |report| report.tunnel = None);
    world.settle();
    let active = |world: &World| world.balancer("edge-tunnel").1.active_targets;
    assert_eq!(active(&world), ["edge-b", "edge-c"]);
    world.gateway_hears(&["store-014/edge-a"]);
    world.settle();
    assert_eq!(active(&world), ["edge-a", "edge-b", "edge-c"]);
}

#[test]
fn a_reserved_host_that_moves_is_told_and_the_endpoint_stays() {
    let mut world = served();
    world.settle();
    world.report("edge-a", |report| {
        report.addresses[0].address = "10.20.14.200".to_owned()
    });
    world.settle();
    assert_eq!(
        world.endpoints("edge-host").0,
        Some(json!({"host": "10.20.14.11", "port": 6443}))
    );
    let matches = world.condition("edge-host", "MatchesConfig");
    assert!(
        matches.starts_with("False: RolloutRequired: edge-a now reports 10.20.14.200"),
        "{matches}"
    );
    // The choice stands even when the host is gone.
    world.hearing("edge-a", Hearing::Silent);
    world.settle();
    assert_eq!(
        world
            .balancer("edge-host")
            .0
            .host_address
            .unwrap()
            .host
            .as_deref(),
        Some("edge-a")
    );
}
