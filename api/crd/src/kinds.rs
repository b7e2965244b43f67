//! The table of our kinds, and the CustomResourceDefinition of each.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::{
    EdgeGatewaySpec, EdgeHostSpec, HttpLoadBalancerSpec, LoadBalancerSpec, TcpLoadBalancerSpec,
    TenantSpec, VipPoolSpec,
    meta::{GROUP, Resource, VERSION},
    schema,
};

/// One of our kinds, as an API server knows it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The kind.
    pub kind: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name for people in a hurry.
    pub short: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    about: &'static str,
    in_clusters: bool,
    columns: &'static [(&'static str, &'static str, &'static str)],
    selectable: &'static [&'static str],
    rules: &'static [(&'static str, &'static str)],
    parts: fn() -> (Value, Value),
}

const READY: (&str, &str, &str) = (
    "Ready",
    "string",
    r#".status.conditions[?(@.type=="Ready")].status"#,
);
const AGE: (&str, &str, &str) = ("Age", "date", ".metadata.creationTimestamp");

/// Our kinds.
pub const KINDS: [Kind; 7] = [
    Kind {
        kind: TenantSpec::KIND,
        plural: "tenants",
        short: "tn",
        namespaced: TenantSpec::NAMESPACED,
        about: "A user cluster or site: who may enrol and what it may use.",
        in_clusters: false,
        columns: &[
            ("Namespace", "string", ".status.namespace"),
            ("Hosts", "integer", ".status.hosts"),
            ("LBs", "integer", ".status.usage.loadBalancers"),
            ("Ports", "integer", ".status.usage.ports"),
            ("Addresses", "integer", ".status.usage.addresses"),
            READY,
            AGE,
        ],
        selectable: &[".spec.namespace"],
        rules: &[],
        parts: parts::<TenantSpec>,
    },
    Kind {
        kind: EdgeHostSpec::KIND,
        plural: "edgehosts",
        short: "eh",
        namespaced: EdgeHostSpec::NAMESPACED,
        about: "A machine that runs kedge agent.",
        in_clusters: false,
        columns: &[
            ("Tenant", "string", ".spec.tenant"),
            ("Address", "string", ".status.addresses[0].address"),
            (
                "Cluster",
                "string",
                r".metadata.labels.cluster\.x-k8s\.io/cluster-name",
            ),
            ("Tunnel", "string", ".status.tunnel.gateway"),
            ("VIPs", "string", ".status.vips[*].address"),
            READY,
            AGE,
        ],
        selectable: &[".spec.tenant", ".spec.access"],
        rules: &[],
        parts: parts::<EdgeHostSpec>,
    },
    Kind {
        kind: EdgeGatewaySpec::KIND,
        plural: "edgegateways",
        short: "eg",
        namespaced: EdgeGatewaySpec::NAMESPACED,
        about: "The tunnel hub of the load-balancer side, a group of instances.",
        in_clusters: false,
        columns: &[
            ("Endpoint", "string", ".spec.tunnel.publicEndpoints[0].host"),
            ("Peers", "integer", ".status.peers"),
            ("Envoys", "integer", ".status.envoysReady"),
            READY,
            AGE,
        ],
        selectable: &[],
        rules: &[],
        parts: parts::<EdgeGatewaySpec>,
    },
    Kind {
        kind: LoadBalancerSpec::KIND,
        plural: "loadbalancers",
        short: "lb",
        namespaced: LoadBalancerSpec::NAMESPACED,
        about: "How the API of one cluster is reached.",
        in_clusters: true,
        columns: &[
            ("Cluster", "string", ".spec.clusterName"),
            ("Mode", "string", ".spec.mode"),
            ("Endpoint", "string", ".status.endpoint.host"),
            ("Targets", "integer", ".status.targetCount"),
            ("Active", "integer", ".status.activeCount"),
            READY,
            AGE,
        ],
        selectable: &[".spec.clusterName", ".spec.mode"],
        rules: &[(
            "!has(oldSelf.spec) || !has(oldSelf.spec.mode) || !has(oldSelf.status) || \
             !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == \
             'Exists' && c.status == 'True') || (has(self.spec.mode) && self.spec.mode == \
             oldSelf.spec.mode)",
            "mode is immutable once the load balancer exists",
        )],
        parts: parts::<LoadBalancerSpec>,
    },
    Kind {
        kind: TcpLoadBalancerSpec::KIND,
        plural: "tcploadbalancers",
        short: "tlb",
        namespaced: TcpLoadBalancerSpec::NAMESPACED,
        about: "Ports of a tenant's Service, offered at the gateway.",
        in_clusters: false,
        columns: &[
            ("Source", "string", ".spec.source.name"),
            ("Ports", "string", ".spec.ports[*].port"),
            ("Ingress", "string", ".status.ingress[0].ip"),
            ("Active", "integer", ".status.activeEndpoints"),
            READY,
            AGE,
        ],
        selectable: &[".spec.source.kind", ".spec.source.name"],
        rules: &[],
        parts: parts::<TcpLoadBalancerSpec>,
    },
    Kind {
        kind: HttpLoadBalancerSpec::KIND,
        plural: "httploadbalancers",
        short: "hlb",
        namespaced: HttpLoadBalancerSpec::NAMESPACED,
        about: "Names and paths of a tenant's Ingress or route, offered at the gateway.",
        in_clusters: false,
        columns: &[
            ("Hosts", "string", ".spec.hostnames"),
            ("Ingress", "string", ".status.ingress[0].ip"),
            READY,
            AGE,
        ],
        selectable: &[".spec.source.kind", ".spec.source.name"],
        rules: &[],
        parts: parts::<HttpLoadBalancerSpec>,
    },
    Kind {
        kind: VipPoolSpec::KIND,
        plural: "vippools",
        short: "vp",
        namespaced: VipPoolSpec::NAMESPACED,
        about: "Addresses our own provider gives to load balancers.",
        in_clusters: true,
        columns: &[
            ("Total", "integer", ".status.ipAddresses.total"),
            ("Free", "integer", ".status.ipAddresses.free"),
            ("Used", "integer", ".status.ipAddresses.used"),
            AGE,
        ],
        selectable: &[],
        rules: &[],
        parts: parts::<VipPoolSpec>,
    },
];

fn parts<S: Resource<Status: JsonSchema> + JsonSchema>() -> (Value, Value) {
    (schema::structural::<S>(), schema::structural::<S::Status>())
}

impl Kind {
    /// The kind of that name.
    #[must_use]
    pub fn of(kind: &str) -> Option<&'static Self> {
        KINDS.iter().find(|known| known.kind == kind)
    }

    /// `group/version` of our kinds.
    #[must_use]
    pub fn api_version() -> String {
        TenantSpec::api_version()
    }

    /// The name of its CustomResourceDefinition.
    #[must_use]
    pub fn crd_name(&self) -> String {
        format!("{}.{GROUP}", self.plural)
    }

    /// The structural schema of its objects.
    #[must_use]
    pub fn schema(&self) -> Value {
        let (spec, status) = (self.parts)();
        let mut schema = json!({
            "description": self.about,
            "type": "object",
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec,
                "status": status,
            },
        });
        let rules = self.rules.iter();
        let rules: Vec<Value> = rules
            .map(|(rule, message)| json!({"rule": rule, "message": message}))
            .collect();
        if let Some(schema) = schema.as_object_mut().filter(|_| !rules.is_empty()) {
            schema.insert("x-kubernetes-validations".to_owned(), Value::from(rules));
        }
        schema
    }

    /// Its CustomResourceDefinition.
    #[must_use]
    pub fn crd(&self) -> Value {
        let columns = self
            .columns
            .iter()
            .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}));
        let columns: Vec<Value> = columns.collect();
        let selectable = self.selectable.iter().map(|path| json!({"jsonPath": path}));
        let selectable: Vec<Value> = selectable.collect();
        let mut version = json!({
            "name": VERSION,
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": self.schema()},
            "subresources": {"status": {}},
            "additionalPrinterColumns": columns,
        });
        if let Some(version) = version.as_object_mut().filter(|_| !selectable.is_empty()) {
            version.insert("selectableFields".to_owned(), Value::from(selectable));
        }
        let lower = self.kind.to_lowercase();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.crd_name(),
                "labels": self.labels(),
                // Without its definition every object of a kind is gone.
                "annotations": {"helm.sh/resource-policy": "keep"},
            },
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": lower,
                    "shortNames": [self.short],
                    "categories": self.categories(),
                },
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": [version],
            },
        })
    }

    fn categories(&self) -> Vec<&'static str> {
        let clusters = self.in_clusters.then_some("cluster-api");
        ["kedge"].into_iter().chain(clusters).collect()
    }

    /// `clusterctl move` looks only at kinds with its label. The second label moves them whoever owns
    /// them: a LoadBalancer that its Cluster does not own yet as well, and a gateway, which holds the
    /// identities of its instances.
    /// Cluster API finds the version of a kind it refers to by the label of its contract.
    fn labels(&self) -> Map<String, Value> {
        let mut labels = Map::new();
        let mut label = |key: &str, value: &str| {
            labels.insert(key.to_owned(), Value::from(value));
        };
        if self.in_clusters {
            label("cluster.x-k8s.io/v1beta1", VERSION);
            label("cluster.x-k8s.io/v1beta2", VERSION);
        }
        label("clusterctl.cluster.x-k8s.io", "");
        label("clusterctl.cluster.x-k8s.io/move", "");
        labels
    }
}
