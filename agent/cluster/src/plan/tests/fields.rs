//! Every field of a Service is honoured, or refused with a reason.

use serde_json::{Value, json};

use super::world::{World, service};

/// The reason and message of a Service with these changes; empty where it is served.
fn refused(changes: Value) -> String {
    let mut world = World::with([service("web", changes)]);
    world.settle();
    let said = world.said("web", "Accepted");
    if said.starts_with("True") {
        assert_eq!(world.offered().len(), 1);
        return String::new();
    }
    assert!(world.offered().is_empty(), "{said}");
    assert_eq!(said, world.said("web", "Ready"));
    assert!(world.service("web").metadata.finalizers.is_none());
    said.trim_start_matches("False ").to_owned()
}

fn spec(changes: Value) -> Value {
    let mut world = World::with([service("web", changes)]);
    world.settle();
    serde_json::to_value(world.spec("web")).unwrap()
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason() {
    let annotation = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let affinity = |seconds: u32| {
        json!({"spec": {"sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}})
    };
    let many: Vec<Value> = (1..40)
        .map(|port| json!({"name": format!("p{port}"), "port": port, "nodePort": 30000 + port}))
        .collect();
    let sources: Vec<String> = (0..65).map(|at| format!("10.0.{at}.0/24")).collect();
    let cases = [
        (
            json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24", "192.0.2.0/33"]}}),
            "SourceRangeInvalid",
        ),
        (
            json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.1"]}}),
            "SourceRangeInvalid",
        ),
        (
            json!({"spec": {"loadBalancerSourceRanges": ["::ffff:192.0.2.0/120"]}}),
            "SourceRangeInvalid",
        ),
        (
            json!({"spec": {"loadBalancerSourceRanges": sources}}),
            "TooManySourceRanges",
        ),
        (
            json!({"spec": {"allocateLoadBalancerNodePorts": false,
                "ports": [{"name": "http", "port": 80}]}}),
            "NodePortRequired",
        ),
        (
            json!({"spec": {"ports": [{"name": "s", "port": 80, "protocol": "SCTP", "nodePort": 30080}]}}),
            "ProtocolNotSupported",
        ),
        (json!({"spec": {"ports": []}}), "NoPorts"),
        (json!({"spec": {"ports": many}}), "TooManyPorts"),
        (affinity(60), "AffinityTimeoutNotSupported"),
        (
            json!({"spec": {"sessionAffinity": "Cookie"}}),
            "UnknownValue",
        ),
        (
            json!({"spec": {"externalTrafficPolicy": "Nearest"}}),
            "UnknownValue",
        ),
        (json!({"spec": {"ipFamilies": ["IPv9"]}}), "UnknownValue"),
        (
            json!({"spec": {"loadBalancerIP": "192.0.2.9"}}),
            "AddressNotAvailable",
        ),
        (
            annotation("metallb.io/loadBalancerIPs", "203.0.113.7, 192.0.2.9"),
            "AddressNotAvailable",
        ),
        (
            annotation("metallb.io/address-pool", ""),
            "AnnotationNotSupported",
        ),
        (
            annotation("kedge.dev/proxy-protocol", "v3"),
            "AnnotationNotSupported",
        ),
        (
            annotation("kedge.dev/vip-pools", "shop"),
            "AnnotationNotSupported",
        ),
        (
            json!({"spec": {"loadBalancerIP": "10.1.2.x"},
                "metadata": {"annotations": {"kedge.dev/vip-pool": "shop"}}}),
            "AddressNotAvailable",
        ),
        (
            json!({"metadata": {"annotations": {"kedge.dev/vip-pool": "shop",
                "metallb.io/loadBalancerIPs": "192.0.2.9,192.0.2.10"}}}),
            "AddressNotAvailable",
        ),
        (
            json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null},
                "metadata": {"annotations": {"kedge.dev/expose": "true"}}}),
            "TypeNotSupported",
        ),
    ];
    for (changes, reason) in cases {
        let said = refused(changes.clone());
        assert!(said.starts_with(reason), "{changes}: {said}");
        assert!(said.len() > reason.len() + 10, "{said} tells nothing");
    }
}

#[test]
fn what_is_somebody_elses_matter_or_asks_for_nothing_is_served() {
    let cases = [
        json!({"spec": {"loadBalancerSourceRanges": ["0.0.0.0/0"]}}),
        json!({"spec": {"loadBalancerSourceRanges": ["0.0.0.0/0", "::/0"],
            "ipFamilies": ["IPv6", "IPv4"]}}),
        json!({"spec": {"loadBalancerIP": "203.0.113.7"}}),
        json!({"metadata": {"annotations": {"metallb.io/allow-shared-ip": "x",
            "service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}}}),
        json!({"spec": {"externalIPs": ["192.0.2.4"], "internalTrafficPolicy": "Local",
            "trafficDistribution": "PreferClose", "publishNotReadyAddresses": true}}),
        json!({"spec": {"ports": [{"port": 443, "nodePort": 30443, "appProtocol": "https"}]}}),
    ];
    for changes in cases {
        assert_eq!(refused(changes.clone()), "", "{changes}");
    }
}

#[test]
fn the_clients_that_may_come_are_told_each_once() {
    let told = |ranges: &[&str]| {
        let spec = spec(json!({"spec": {"loadBalancerSourceRanges": ranges,
            "ipFamilies": ["IPv4", "IPv6"]}}));
        spec["sourceRanges"].clone()
    };
    assert_eq!(told(&[]), json!(null));
    assert_eq!(
        told(&[" 192.0.2.7/24", "192.0.2.0/24 ", "2001:db8::/32"]),
        json!(["192.0.2.0/24", "2001:db8::/32"])
    );
    assert_eq!(told(&["0.0.0.0/0"]), json!(["0.0.0.0/0"]), "of one family");
    assert_eq!(told(&["0.0.0.0/0", "::/0"]), json!(null), "everybody");
}

#[test]
fn what_can_be_done_is_asked_for() {
    let spec = spec(json!({"spec": {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        "ipFamilies": ["IPv6", "IPv4"],
        "ports": [
            {"port": 53, "protocol": "UDP", "nodePort": 30053},
            {"name": "stream", "port": 132, "protocol": "SCTP", "nodePort": 30132},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "nodePort": 30054},
        ]}, "metadata": {"annotations": {"kedge.dev/proxy-protocol": "v2"}}}));
    assert_eq!(
        spec,
        json!({
            "source": {"kind": "Service", "namespace": "shop", "name": "web", "uid": "web0000-1111"},
            "ports": [
                {"name": "port-53", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53},
            ],
            "endpoints": [{
                "hostSelector": {"matchExpressions":
                    [{"key": "kedge.dev/host", "operator": "In", "values": ["a", "b"]}]},
                "addressFamily": "IPv6",
                "ports": [{"name": "port-53", "port": 30053}, {"name": "dns-tcp", "port": 30054}],
            }],
            "sessionAffinity": "ClientIP",
            "proxyProtocol": "V2",
        })
    );
}

#[test]
fn an_address_of_its_own_is_asked_for_by_pool_and_perhaps_by_name() {
    let asked = |annotations: Value, ip: Value| {
        let spec =
            spec(json!({"spec": {"loadBalancerIP": ip}, "metadata": {"annotations": annotations}}));
        spec["address"].clone()
    };
    let pool = json!({"kedge.dev/vip-pool": "shop"});
    assert_eq!(asked(json!({}), json!(null)), json!(null));
    assert_eq!(asked(pool.clone(), json!(null)), json!({"pool": "shop"}));
    // Whether the pool has it, the manager knows: it need not be one of the gateway's.
    let named = json!({"pool": "shop", "ip": "192.0.2.9"});
    assert_eq!(asked(pool, json!("192.0.2.9")), named);
    let metallb =
        json!({"metallb.io/address-pool": "shop", "metallb.io/loadBalancerIPs": "192.0.2.9"});
    assert_eq!(asked(metallb, json!(null)), named);
}

#[test]
fn local_traffic_is_led_to_the_hosts_alone_that_have_it() {
    let local = json!({"spec": {"externalTrafficPolicy": "Local", "healthCheckNodePort": 31999}});
    let mut world = World::with([service("web", local)]);
    world.slice("web-1", "web", &["b"]);
    world.settle();
    let hosts = |world: &World| {
        let spec = serde_json::to_value(world.spec("web")).unwrap();
        spec["endpoints"][0]["hostSelector"]["matchExpressions"][0]["values"].clone()
    };
    assert_eq!(hosts(&world), json!(["b"]));
    world.slice("web-1", "web", &["a", "b"]);
    world.settle();
    assert_eq!(hosts(&world), json!(["a", "b"]));
    world.snapshot.slices.clear();
    world.settle();
    assert_eq!(
        hosts(&world),
        Value::Null,
        "nobody: an empty list is left out"
    );
}
