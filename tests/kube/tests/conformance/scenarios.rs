//! What is done, and what comes of it, on any store.

use kedge_tests_kube::{bare::BALANCER, foreign, objects::Kind};
use serde_json::{Value, json};

/// Something a person does, and what comes of it.
pub struct Scenario {
    pub name: &'static str,
    pub steps: &'static [Step],
}

/// One step: documents and hosts that appear, objects that go, and the outcome that is waited for.
pub struct Step {
    pub documents: fn() -> Vec<Value>,
    pub removed: &'static [(&'static str, Kind)],
    pub hosts: &'static [(&'static str, &'static str)],
    pub outcome: &'static [(&'static str, &'static str)],
}

const NOTHING: Step = Step {
    documents: Vec::new,
    removed: &[],
    hosts: &[],
    outcome: &[],
};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "an endpoint that is left out is filled from the pool",
        steps: &[Step {
            documents: || vec![cluster("c"), blank("c", json!({}))],
            outcome: &[
                ("ElementalCluster/c/endpoint", "10.20.14.10:6443"),
                ("LoadBalancer/c/endpoint", "10.20.14.10:6443"),
                ("LoadBalancer/c/EndpointPublished", "True Published"),
                ("LoadBalancer/c/Exists", "True Allocated"),
                ("LoadBalancer/c/IsReachable", "False NoActiveTargets"),
                ("Cluster/c/endpoint", "10.20.14.10:6443"),
            ],
            ..NOTHING
        }],
    },
    Scenario {
        name: "an empty host is a blank",
        steps: &[Step {
            documents: || {
                let empty = json!({"controlPlaneEndpoint": {"host": "", "port": 0}});
                vec![cluster("c"), blank("c", empty)]
            },
            outcome: &[("ElementalCluster/c/endpoint", "10.20.14.10:6443")],
            ..NOTHING
        }],
    },
    Scenario {
        name: "what a user set stays",
        steps: &[Step {
            documents: || {
                let set = json!({"controlPlaneEndpoint": {"host": "192.0.2.7", "port": 6443}});
                vec![cluster("c"), blank("c", set)]
            },
            outcome: &[
                ("ElementalCluster/c/endpoint", "192.0.2.7:6443"),
                ("LoadBalancer/c/EndpointPublished", "True UserProvided"),
            ],
            ..NOTHING
        }],
    },
    Scenario {
        name: "a paused cluster is left alone until it is resumed",
        steps: &[
            Step {
                documents: || {
                    let mut paused = cluster("c");
                    paused["spec"]["paused"] = json!(true);
                    vec![
                        paused,
                        blank("c", json!({})),
                        cluster("d"),
                        blank("d", json!({})),
                    ]
                },
                // The other one shows that the manager looked.
                outcome: &[
                    ("ElementalCluster/d/endpoint", "10.20.14.10:6443"),
                    ("ElementalCluster/c/endpoint", "none"),
                ],
                ..NOTHING
            },
            Step {
                documents: || vec![cluster("c")],
                outcome: &[("ElementalCluster/c/endpoint", "10.20.14.11:6443")],
                ..NOTHING
            },
        ],
    },
    Scenario {
        name: "somebody else's cluster is not touched, and one of ours is provisioned",
        steps: &[Step {
            documents: || {
                let managed = |name: &str, by: &str| {
                    let mut infra = blank(name, json!({}));
                    infra["metadata"]["annotations"]["cluster.x-k8s.io/managed-by"] = json!(by);
                    infra
                };
                vec![
                    cluster("theirs"),
                    managed("theirs", "somebody"),
                    cluster("ours"),
                    managed("ours", "kedge"),
                ]
            },
            outcome: &[
                ("ElementalCluster/ours/endpoint", "10.20.14.10:6443"),
                ("ElementalCluster/ours/provisioned", "true"),
                ("ElementalCluster/theirs/endpoint", "none"),
                ("ElementalCluster/theirs/provisioned", "none"),
            ],
            ..NOTHING
        }],
    },
    Scenario {
        name: "a pool that is used up says so, and serves who waits once there is room",
        steps: &[
            Step {
                documents: || {
                    let all = ["a", "b"].map(|name| [cluster(name), blank(name, json!({}))]);
                    all.concat()
                },
                outcome: &[
                    ("LoadBalancer/a/EndpointPublished", "True Published"),
                    ("LoadBalancer/b/EndpointPublished", "True Published"),
                ],
                ..NOTHING
            },
            Step {
                documents: || vec![cluster("c"), blank("c", json!({}))],
                outcome: &[
                    ("LoadBalancer/c/EndpointPublished", "False PoolExhausted"),
                    ("ElementalCluster/c/endpoint", "none"),
                ],
                ..NOTHING
            },
            Step {
                documents: || {
                    let pool = json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "VIPPool",
                        "metadata": {"name": "lan"},
                        "spec": {"addresses": ["10.20.14.10-10.20.14.12"], "prefix": 24}});
                    vec![pool]
                },
                outcome: &[
                    ("LoadBalancer/c/EndpointPublished", "True Published"),
                    ("ElementalCluster/c/endpoint", "10.20.14.12:6443"),
                ],
                ..NOTHING
            },
        ],
    },
    Scenario {
        name: "a LoadBalancer of a cluster that is not there waits for it",
        steps: &[
            Step {
                documents: || {
                    vec![balancer(
                        "c",
                        json!({"mode": "VIP", "vip": {"address": "10.20.14.77"}}),
                    )]
                },
                outcome: &[("LoadBalancer/c/EndpointPublished", "False WaitingForOwner")],
                ..NOTHING
            },
            Step {
                documents: || {
                    let mut plain = blank("c", json!({}));
                    plain["metadata"]["annotations"] = json!({});
                    vec![cluster("c"), plain]
                },
                outcome: &[
                    ("LoadBalancer/c/EndpointPublished", "True Published"),
                    ("ElementalCluster/c/endpoint", "10.20.14.77:6443"),
                ],
                ..NOTHING
            },
        ],
    },
    Scenario {
        name: "the endpoint of a tunnel is the gateway's",
        steps: &[Step {
            documents: || {
                let mut infra = blank("c", json!({}));
                infra["metadata"]["annotations"] = json!({"kedge.dev/endpoint-mode": "Tunnel",
                    "kedge.dev/gateway": "gw"});
                vec![cluster("c"), infra]
            },
            outcome: &[("ElementalCluster/c/endpoint", "203.0.113.7:30000")],
            ..NOTHING
        }],
    },
    Scenario {
        name: "hosts are targets, and are told their VIP",
        steps: &[
            Step {
                hosts: &[("edge-a", "10.20.14.21"), ("edge-b", "10.20.14.22")],
                documents: || {
                    let mut plain = blank("c", json!({}));
                    plain["metadata"]["annotations"] = json!({});
                    let spec = json!({"mode": "VIP", "vip": {"address": "10.20.14.10"},
                        "targetKind": {"apiGroup": "kedge.dev", "kind": "EdgeHost"},
                        "selector": {"matchLabels": {"role": "control-plane"}}});
                    vec![cluster("c"), plain, balancer("c", spec)]
                },
                outcome: &[
                    ("ElementalCluster/c/endpoint", "10.20.14.10:6443"),
                    ("LoadBalancer/c/targets", ""),
                    ("host/edge-a/vips", ""),
                ],
                ..NOTHING
            },
            Step {
                documents: || {
                    let mut plain = balancer(
                        "c",
                        json!({"mode": "VIP",
                        "vip": {"address": "10.20.14.10"},
                        "targetKind": {"apiGroup": "kedge.dev", "kind": "EdgeHost"},
                        "selector": {"matchExpressions": [
                            {"key": "kedge.dev/site", "operator": "Exists"}]}}),
                    );
                    plain["metadata"]["labels"] = json!({"changed": "yes"});
                    vec![plain]
                },
                outcome: &[
                    ("LoadBalancer/c/targets", "edge-a active edge-b active"),
                    ("host/edge-a/vips", "10.20.14.10 252"),
                    ("host/edge-b/vips", "10.20.14.10 252"),
                ],
                ..NOTHING
            },
        ],
    },
    Scenario {
        name: "a LoadBalancer that is removed while its cluster lives serves on",
        steps: &[
            Step {
                documents: || {
                    let mut plain = blank("c", json!({}));
                    plain["metadata"]["annotations"] = json!({});
                    let spec = json!({"mode": "VIP", "vip": {"address": "10.20.14.10"}});
                    vec![cluster("c"), plain, balancer("c", spec)]
                },
                outcome: &[("LoadBalancer/c/EndpointPublished", "True Published")],
                ..NOTHING
            },
            Step {
                removed: &[("c", BALANCER)],
                outcome: &[
                    ("ElementalCluster/c/endpoint", "10.20.14.10:6443"),
                    ("LoadBalancer/c/Degraded", "True DeletionBlocked"),
                ],
                ..NOTHING
            },
        ],
    },
    Scenario {
        name: "a TCPLoadBalancer keeps its ports, and of two that want one the later one waits",
        steps: &[
            Step {
                documents: || vec![tcp("web", &[("http", 80)])],
                outcome: &[
                    ("TCPLoadBalancer/web/ports", "http=80"),
                    ("TCPLoadBalancer/web/Accepted", "True Accepted"),
                    ("TCPLoadBalancer/web/Programmed", "False Pending"),
                    ("TCPLoadBalancer/web/BackendsHealthy", "False NoBackends"),
                ],
                ..NOTHING
            },
            Step {
                documents: || vec![tcp("other", &[("http", 80), ("alt", 8080)])],
                outcome: &[
                    ("TCPLoadBalancer/other/Accepted", "False PortInUse"),
                    ("TCPLoadBalancer/other/ports", "alt=8080 http=none"),
                    ("TCPLoadBalancer/web/Accepted", "True Accepted"),
                ],
                ..NOTHING
            },
            // A port that its user takes away goes, although the manager has a field of it.
            Step {
                documents: || vec![tcp("web", &[("https", 443)])],
                outcome: &[
                    ("TCPLoadBalancer/web/ports", "https=443"),
                    ("TCPLoadBalancer/other/ports", "alt=8080 http=80"),
                    ("TCPLoadBalancer/other/Accepted", "True Accepted"),
                ],
                ..NOTHING
            },
            Step {
                documents: || {
                    let mut inside = tcp("inside", &[("http", 81)]);
                    inside["spec"]["exposure"] = json!("Internal");
                    vec![inside]
                },
                removed: &[("web", TCP), ("other", TCP)],
                outcome: &[
                    ("TCPLoadBalancer/inside/Accepted", "False Unsupported"),
                    ("TCPLoadBalancer/inside/ports", "http=none"),
                    ("TCPLoadBalancer/web/Accepted", "none"),
                    ("TCPLoadBalancer/web/ports", ""),
                    ("TCPLoadBalancer/other/Accepted", "none"),
                    ("TCPLoadBalancer/other/ports", ""),
                ],
                ..NOTHING
            },
        ],
    },
];

/// A TCPLoadBalancer.
pub const TCP: Kind = Kind::new("kedge.dev", "v1alpha1", "TCPLoadBalancer");

fn tcp(name: &str, ports: &[(&str, u16)]) -> Value {
    let ports = ports.iter();
    let ports = ports.map(|(name, port)| json!({"name": name, "port": port}));
    json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "TCPLoadBalancer",
        "metadata": {"name": name}, "spec": {
            "ports": ports.collect::<Vec<_>>(),
            "endpoints": [{"hostSelector": {"matchLabels": {"role": "nobody"}}}]}})
}

/// A Cluster.
pub fn cluster(name: &str) -> Value {
    json!({"apiVersion": foreign::CLUSTER.api_version(), "kind": "Cluster",
        "metadata": {"name": name, "finalizers": ["cluster.cluster.x-k8s.io"]},
        "spec": {"paused": false, "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ElementalCluster",
            "name": name}}})
}

/// Its ElementalCluster, which asks for a VIP of the pool.
pub fn blank(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "ElementalCluster",
        "metadata": {"name": name, "annotations": {
            "kedge.dev/endpoint-mode": "VIP", "kedge.dev/vip-pool": "lan"}}, "spec": spec})
}

fn balancer(cluster: &str, mut spec: Value) -> Value {
    spec["clusterName"] = json!(cluster);
    json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "LoadBalancer",
        "metadata": {"name": cluster}, "spec": spec})
}
