//! Every outcome of an endpoint plan, and why.

use serde_json::json;

use super::world::{NS, VIP, World, cluster, demo, site};

/// Settles a world and says what became of a cluster's endpoint: mode, endpoint, reason.
fn outcome(world: &mut World, name: &str) -> (String, Option<String>, String) {
    let plan = world.settle();
    let found = plan
        .endpoints
        .into_iter()
        .find(|item| item.cluster == name)
        .unwrap();
    (found.mode, found.endpoint, found.because)
}

fn lb(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {{name: {name}, namespace: {NS}}}\n\
         spec: {{clusterName: {name}, {spec}}}\n"
    )
}

#[test]
fn a_blank_endpoint_of_any_shape_is_filled_from_the_pool() {
    for blank in [
        "",
        "controlPlaneEndpoint: {host: '', port: 0}",
        "controlPlaneEndpoint: {}",
    ] {
        let mut world = site();
        world.write(&cluster("c", VIP, blank));
        let (mode, endpoint, because) = outcome(&mut world, "c");
        assert_eq!(
            (mode.as_str(), endpoint.as_deref()),
            ("VIP", Some("10.20.14.10:6443"))
        );
        assert_eq!(
            because,
            "10.20.14.10 was the lowest free address of VIPPool edge-lan"
        );
        let filled = json!({"host": "10.20.14.10", "port": 6443});
        assert_eq!(world.endpoints("c"), (Some(filled.clone()), Some(filled)));
        let published = world.condition("c", "EndpointPublished");
        assert_eq!(
            published,
            format!("True: Published: 10.20.14.10:6443: {because}")
        );
        assert!(
            world
                .condition("c", "ControlPlaneUnblocked")
                .starts_with("True: EndpointSet")
        );
    }
}

#[test]
fn a_port_a_user_left_beside_a_blank_host_is_kept() {
    let mut world = site();
    world.write(&cluster(
        "c",
        VIP,
        "controlPlaneEndpoint: {host: '', port: 8443}",
    ));
    assert_eq!(
        outcome(&mut world, "c").1.as_deref(),
        Some("10.20.14.10:8443")
    );
}

#[test]
fn an_endpoint_once_filled_stays_whatever_becomes_of_its_pool() {
    let mut world = site();
    world.write(&cluster("c", VIP, ""));
    outcome(&mut world, "c");
    world.remove("kedge.dev", "VIPPool", "edge-lan");
    assert_eq!(
        outcome(&mut world, "c").1.as_deref(),
        Some("10.20.14.10:6443")
    );
    let mut world = site();
    world.write(&cluster("b", VIP, ""));
    outcome(&mut world, "b");
    world.write(&cluster("a", VIP, ""));
    assert_eq!(
        outcome(&mut world, "a").1.as_deref(),
        Some("10.20.14.14:6443")
    );
    assert_eq!(
        outcome(&mut world, "b").1.as_deref(),
        Some("10.20.14.10:6443")
    );
}

#[test]
fn nothing_is_done_for_a_cluster_nobody_asked_about() {
    let mut world = site();
    world.write(&cluster("blank", "", ""));
    world.write(&cluster(
        "set",
        "",
        "controlPlaneEndpoint: {host: h, port: 1}",
    ));
    let (mode, endpoint, because) = outcome(&mut world, "blank");
    assert_eq!((mode.as_str(), endpoint), ("", None));
    assert!(because.starts_with("nobody asked"), "{because}");
    let (mode, endpoint, _) = outcome(&mut world, "set");
    assert_eq!((mode.as_str(), endpoint.as_deref()), ("User", Some("h:1")));
    let kinds = world
        .objects
        .by_key
        .keys()
        .filter(|key| key.kind == "LoadBalancer");
    assert_eq!(kinds.count(), 0);
}

#[test]
fn a_users_value_is_never_overwritten_and_becomes_the_vip() {
    let mut world = site();
    world.write(&cluster(
        "c",
        VIP,
        "controlPlaneEndpoint: {host: 10.20.14.99, port: 6443}",
    ));
    let (mode, endpoint, _) = outcome(&mut world, "c");
    assert_eq!(
        (mode.as_str(), endpoint.as_deref()),
        ("User", Some("10.20.14.99:6443"))
    );
    assert!(
        world
            .condition("c", "EndpointPublished")
            .starts_with("True: UserProvided")
    );
    let (spec, _) = world.balancer("c");
    assert_eq!(
        spec.vip.unwrap().address,
        Some("10.20.14.99".parse().unwrap())
    );
    assert_eq!(
        world.endpoints("c").1,
        Some(json!({"host": "10.20.14.99", "port": 6443}))
    );

    let mut world = site();
    world.write(&cluster("c", "", ""));
    world.write(&lb(
        "c",
        "mode: VIP, endpoint: {host: api.example.org, port: 443}, vip: {poolRef: {name: edge-lan}}",
    ));
    assert_eq!(
        outcome(&mut world, "c").1.as_deref(),
        Some("api.example.org:443")
    );
    assert_eq!(
        world.balancer("c").0.vip.unwrap().address,
        Some("10.20.14.10".parse().unwrap())
    );
}

#[test]
fn a_host_without_a_port_is_the_users_to_finish() {
    let mut world = site();
    world.write(&cluster(
        "c",
        VIP,
        "controlPlaneEndpoint: {host: h, port: 0}",
    ));
    let (_, endpoint, because) = outcome(&mut world, "c");
    assert_eq!(endpoint, None);
    assert!(because.contains("no valid port"), "{because}");
    assert!(
        world
            .condition("c", "EndpointPublished")
            .starts_with("False: Conflict")
    );
}

#[test]
fn values_that_contradict_each_other_are_a_conflict_and_nothing_is_given_away() {
    let in_cluster = |endpoint: &str| {
        let mut world = site();
        let text = cluster("c", VIP, "");
        world.write(&text.replacen(
            "spec:\n",
            &format!("spec:\n  controlPlaneEndpoint: {endpoint}\n"),
            1,
        ));
        world
    };
    let mut world = in_cluster("{host: 10.0.0.9, port: 6443}");
    let (_, endpoint, because) = outcome(&mut world, "c");
    assert_eq!(endpoint, None);
    assert!(because.contains("already has 10.0.0.9:6443"), "{because}");
    assert!(
        world
            .condition("c", "EndpointPublished")
            .contains("KEDGE-CAPI-0002")
    );
    assert_eq!(world.balancer("c").0.vip.unwrap().address, None);

    let mut world = site();
    world.write(&cluster(
        "c",
        "",
        "controlPlaneEndpoint: {host: a, port: 1}",
    ));
    world.write(&lb(
        "c",
        "mode: VIP, endpoint: {host: b, port: 1}, vip: {poolRef: {name: edge-lan}}",
    ));
    assert!(
        outcome(&mut world, "c")
            .2
            .contains("says a:1 and the LoadBalancer says b:1")
    );

    // A user who later sets another value than the one that was filled is told so.
    let mut world = site();
    world.write(&cluster("c", VIP, ""));
    outcome(&mut world, "c");
    world.write(&cluster(
        "c",
        VIP,
        "controlPlaneEndpoint: {host: 10.9.9.9, port: 6443}",
    ));
    let (_, _, because) = outcome(&mut world, "c");
    assert!(
        because.contains("10.9.9.9:6443, which is not 10.20.14.10:6443"),
        "{because}"
    );
    assert_eq!(
        world.endpoints("c").0,
        Some(json!({"host": "10.9.9.9", "port": 6443}))
    );
    assert_eq!(
        world.balancer("c").0.vip.unwrap().address,
        Some("10.20.14.10".parse().unwrap())
    );
}

#[test]
fn a_paused_cluster_is_left_alone_and_keeps_what_it_has() {
    for pause in ["Cluster", "annotation", "infra"] {
        let mut world = site();
        let plain = cluster("c", VIP, "");
        let paused = match pause {
            "Cluster" => plain.replacen("spec:\n", "spec:\n  paused: true\n", 1),
            "annotation" => plain.replacen(
                "namespace: store-014}",
                "namespace: store-014, annotations: {cluster.x-k8s.io/paused: ''}}",
                1,
            ),
            _ => plain.replace(VIP, &format!("{VIP}, cluster.x-k8s.io/paused: ''")),
        };
        world.write(&paused);
        assert_eq!(outcome(&mut world, "c").1, None, "{pause}");
        assert!(
            world.condition("c", "Paused").starts_with("True"),
            "{pause}"
        );
        assert_eq!(world.endpoints("c"), (None, None));
        world.write(&plain);
        assert_eq!(
            outcome(&mut world, "c").1.as_deref(),
            Some("10.20.14.10:6443")
        );
        world.write(&paused);
        assert_eq!(
            outcome(&mut world, "c").1.as_deref(),
            Some("10.20.14.10:6443")
        );
        assert!(world.endpoints("c").0.is_some(), "{pause}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let case = |annotations: &str, more: &str| {
        let mut world = site();
        world.write(&cluster("c", annotations, ""));
        if !more.is_empty() {
            world.write(more);
        }
        let (_, endpoint, because) = outcome(&mut world, "c");
        assert_eq!(endpoint, None, "{because}");
        let condition = world
            .objects
            .by_key
            .keys()
            .any(|key| key.kind == "LoadBalancer")
            .then(|| world.condition("c", "EndpointPublished"));
        format!(
            "{} | {because}",
            condition
                .unwrap_or_default()
                .split(": ")
                .nth(1)
                .unwrap_or("")
        )
    };
    let mode = |mode: &str, more: &str| format!("kedge.dev/endpoint-mode: {mode}{more}");
    assert!(case(&mode("Vip", ""), "").contains("`Vip`; it must be VIP, Tunnel or HostAddress"));
    assert!(case(&mode("VIP", ""), "").starts_with("WaitingForPool | no pool is named"));
    assert!(
        case(&mode("VIP", ", kedge.dev/vip-pool: x"), "")
            .starts_with("WaitingForPool | there is no VIPPool")
    );
    let foreign = lb(
        "c",
        "mode: VIP, vip: {poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: x}}",
    );
    assert!(
        case("", &foreign).starts_with(
            "WaitingForPool | the pool InClusterIPPool x is served by another provider"
        )
    );
    let empty = "apiVersion: kedge.dev/v1alpha1\nkind: VIPPool\nmetadata: {name: e, namespace: store-014}\nspec: {addresses: [10.0.0.1-x], prefix: 24}\n";
    assert!(
        case(&mode("VIP", ", kedge.dev/vip-pool: e"), empty)
            .starts_with("WaitingForPool | VIPPool e is not usable")
    );
    let v6 = lb("c", "mode: VIP, vip: {address: 'fd00::1'}");
    assert!(case("", &v6).starts_with("Forbidden | fd00::1 is an IPv6 address"));
    assert!(case("", &lb("c", "vip: {address: 10.0.0.1}")).contains("no spec.mode"));
    assert!(
        case(&mode("Tunnel", ", kedge.dev/gateway: a/b"), "")
            .starts_with("WaitingForGateway | there is no EdgeGateway a/b")
    );
    let mute = "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\nmetadata: {name: b, namespace: a}\nspec: {}\n";
    assert!(
        case(&mode("Tunnel", ", kedge.dev/gateway: a/b"), mute)
            .contains("neither service.addresses nor")
    );
    assert!(case(&mode("HostAddress", ""), "").starts_with(
        "WaitingForHost | no host is heard of with an address among the free ElementalHosts"
    ));
    let elsewhere = format!("{VIP}, cluster.x-k8s.io/managed-by: others");
    assert!(
        case(&elsewhere, "")
            .starts_with("Forbidden | the infrastructure cluster is managed by `others`")
    );
    let mut world = site();
    world.write(
        &cluster("c", VIP, "").replace("kind: ElementalCluster, name: c", "kind: Other, name: c"),
    );
    world.write(&lb("c", "mode: VIP, vip: {poolRef: {name: edge-lan}}"));
    assert!(
        outcome(&mut world, "c")
            .2
            .contains("there is no Other store-014/c")
    );
}

#[test]
fn an_exhausted_pool_is_told_and_recovers_when_an_address_is_freed() {
    let mut world = site();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        world.write(&cluster(name, VIP, ""));
    }
    assert_eq!(
        outcome(&mut world, "g").1.as_deref(),
        Some("10.20.14.19:6443")
    );
    let (_, endpoint, because) = outcome(&mut world, "h");
    assert_eq!(endpoint, None);
    assert_eq!(because, "VIPPool edge-lan has 0 of 7 addresses free");
    assert!(
        world
            .condition("h", "EndpointPublished")
            .ends_with("(KEDGE-IPAM-0003)")
    );
    world.remove("cluster.x-k8s.io", "Cluster", "c");
    assert_eq!(
        outcome(&mut world, "h").1.as_deref(),
        Some("10.20.14.15:6443")
    );
}

#[test]
fn an_address_belongs_to_one_load_balancer() {
    let mut world = site();
    world.write(&cluster("a", "", ""));
    world.write(&cluster("b", "", ""));
    world.write(&lb("a", "mode: VIP, vip: {address: 10.20.14.10}"));
    world.write(&lb("b", "mode: VIP, vip: {address: 10.20.14.10}"));
    assert_eq!(
        outcome(&mut world, "a").1.as_deref(),
        Some("10.20.14.10:6443")
    );
    let (_, endpoint, because) = outcome(&mut world, "b");
    assert_eq!(endpoint, None);
    assert_eq!(
        because,
        format!("10.20.14.10 is already given to LoadBalancer {NS}/a")
    );
}

#[test]
fn a_tenant_may_be_kept_to_some_pools() {
    let mut world = site();
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: store-014}}\n\
         spec: {{namespace: {NS}, allowedPools: [other]}}\n"
    ));
    world.write(&cluster("c", VIP, ""));
    assert!(
        outcome(&mut world, "c")
            .2
            .contains("may not use VIPPool edge-lan")
    );
}

#[test]
fn mode_and_address_cannot_change_once_the_endpoint_exists() {
    let mut world = site();
    world.write(&cluster("c", "", ""));
    world.write(&lb("c", "mode: VIP, vip: {poolRef: {name: edge-lan}}"));
    outcome(&mut world, "c");
    world.write(&lb("c", "mode: Tunnel, gatewayRef: {name: gw}"));
    assert_eq!(
        outcome(&mut world, "c").1.as_deref(),
        Some("10.20.14.10:6443")
    );
    assert!(
        world
            .condition("c", "MatchesConfig")
            .starts_with("False: RolloutRequired: spec.mode")
    );
    world.write(&lb("c", "mode: VIP, vip: {address: 10.20.14.77}"));
    assert_eq!(
        outcome(&mut world, "c").1.as_deref(),
        Some("10.20.14.10:6443")
    );
    assert!(
        world
            .condition("c", "MatchesConfig")
            .contains("spec.vip.address")
    );
}

#[test]
fn the_demo_fills_its_three_modes() {
    let mut world = demo();
    assert_eq!(
        outcome(&mut world, "edge").1.as_deref(),
        Some("10.20.14.10:6443")
    );
    let (_, endpoint, because) = outcome(&mut world, "edge-tunnel");
    assert_eq!(endpoint.as_deref(), Some("203.0.113.7:30001"));
    assert_eq!(
        because,
        "port 30001 of EdgeGateway kedge-system/gw was the lowest free one"
    );
    assert!(
        outcome(&mut world, "edge-host")
            .2
            .starts_with("no host is heard of")
    );
    world.enrol("edge-b");
    world.enrol("edge-a");
    let (_, endpoint, because) = outcome(&mut world, "edge-host");
    assert_eq!(endpoint.as_deref(), Some("10.20.14.11:6443"));
    assert_eq!(
        because,
        "edge-a was the first host by name of the EdgeHosts with kedge.dev/site=store-014; it reports 10.20.14.11"
    );
}
