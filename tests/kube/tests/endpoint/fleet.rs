//! A served cluster whose control-plane machines are made by hand, so that they are nodes: the
//! workload cluster is the management cluster itself.

use std::fs;

use k8s_openapi::api::core::v1::{Node, Secret};
use kedge_control::enrol::HostRef;
use kedge_core::vip::RouterState;
use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST},
    edge::Edge,
    edgetest, foreign,
    objects::text,
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::site::{BALANCER, Site, annotation, state};

pub const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kedge-lb";

pub struct Fleet {
    pub site: Site,
    pub cluster: Cluster,
    pub hosts: Vec<Edge>,
}

impl Fleet {
    /// Cluster `edge` with a VIP and these machines; the first holds the VIP.
    pub async fn of(machines: &[&str], more: Value) -> Option<Self> {
        let site = Site::new().await?;
        let mut spec = json!({
            "clusterName": "edge", "mode": "VIP", "vip": {"poolRef": {"name": "lan"}},
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        site.create(BALANCER, "edge", json!({"spec": spec})).await;
        let (client, space) = (&site.client, &site.space);
        let infra = json!({"spec": {}});
        let cluster = Cluster::bare(client, space, "edge", EDGE_TEST, infra, json!({})).await;
        site.until("provisioned", async || cluster.is_provisioned().await)
            .await;
        let mut fleet = Self {
            site,
            cluster,
            hosts: Vec::new(),
        };
        fleet
            .secret("edge-kubeconfig", "cluster.x-k8s.io/secret")
            .await;
        for (at, name) in machines.iter().enumerate() {
            fleet.machine(name).await;
            let host = fleet.host(name, at).await;
            host.is(if at == 0 {
                RouterState::Active
            } else {
                RouterState::Backup
            });
            fleet.hosts.push(host);
        }
        for name in machines {
            fleet.shows(name, "active", true).await;
            fleet
                .site
                .until(&format!("{name} is a node"), async || {
                    let machine = fleet.site.get(foreign::MACHINE, name).await.unwrap();
                    !text(&machine, "/status/nodeRef/name").is_empty()
                })
                .await;
        }
        Some(fleet)
    }

    /// Waits until a machine shows a state, and our hook or none.
    pub async fn shows(&self, machine: &str, wanted: &str, hooked: bool) {
        self.site
            .until(&format!("{machine} is {wanted}"), async || {
                let object = self.site.get(foreign::MACHINE, machine).await.unwrap();
                let hook = annotation(&object, PRE_DRAIN);
                state(&object) == wanted && (hook == "kedge-manager") == hooked
            })
            .await;
    }

    /// The host of a machine.
    async fn host(&self, name: &str, at: usize) -> Edge {
        let record = HostRef {
            api_group: edgetest::MACHINE.group.to_owned(),
            kind: edgetest::MACHINE.kind.to_owned(),
            name: name.to_owned(),
        };
        let address = format!("10.20.14.{}", 31 + at);
        let (ours, space) = (&self.site.ours, &self.site.space);
        Edge::enrol(ours, space, name, &address, Some(record)).await
    }

    async fn machine(&self, name: &str) {
        let (site, space) = (&self.site, &self.site.space);
        let data = format!("{name}-data");
        self.secret(&data, "cluster.x-k8s.io/secret").await;
        let labels = json!({
            foreign::CLUSTER_NAME: "edge", "cluster.x-k8s.io/control-plane": "",
        });
        let part = edgetest::MACHINE;
        let machine = json!({"metadata": {"labels": labels}, "spec": {
            "clusterName": "edge",
            "bootstrap": {"dataSecretName": data},
            "infrastructureRef": {"apiGroup": part.group, "kind": part.kind, "name": name},
        }});
        let labels = json!({"metadata": {"labels": labels}, "spec": {}});
        site.create(part, name, labels).await;
        site.create(foreign::MACHINE, name, machine).await;
        let nodes: Api<Node> = Api::all(site.client.clone());
        let node = json!({
            "metadata": {"name": format!("{space}-{name}")},
            "spec": {"providerID": format!("edgetest://{space}/{name}")},
        });
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }

    async fn secret(&self, name: &str, kind: &str) {
        let server = self.site.ours.stack().server();
        let value = fs::read_to_string(server.kubeconfig("admin")).unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.site.client.clone(), &self.site.space);
        let secret = json!({
            "metadata": {"name": name, "labels": {foreign::CLUSTER_NAME: "edge"}},
            "type": kind, "stringData": {"value": value},
        });
        let secret = serde_json::from_value(secret).unwrap();
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
    }
}
