//! The chart's manager.

use std::time::Instant;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kedge_tests_kube::chart;
use kube::Api;
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    pods::{Pods, restarts},
};

/// Installs the chart, and waits until its managers are ready and what they may be.
pub async fn runs(cluster: &Cluster) {
    for namespace in ["kedge-system", "tenant-shop", "tenant-plant"] {
        cluster.kubectl(&["create", "namespace", namespace]);
    }
    // The manager, the agent of Services and the Job ask for nothing that this forbids.
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["label", "namespace", "kedge-system", restricted]);
    println!("{}", chart::install(&cluster.server, &values()));
    let pods = Pods::of(cluster, "manager");
    for pod in pods.are_ready(2).await {
        assert_eq!(restarts(&pod), 0, "{pod:?}");
        let processes = pods.processes(&pod);
        assert_eq!(processes.len(), 1, "{processes:?}");
        processes[0].assert_confined();
        let log = pods.log(&pod);
        assert!(log.contains("the manager serves"), "{log}");
    }
}

/// What the chart is installed with.
pub fn values() -> Value {
    json!({"tenantNamespaces": ["tenant-shop", "tenant-plant"]})
}

/// The one that leads is deleted, and then the chart, whose Job stops the others.
pub async fn ends(cluster: &Cluster) {
    let pods = Pods::of(cluster, "manager");
    let log = pods.log(&pods.leader("kedge-manager").await.unwrap());
    assert!(log.contains("leads=true"), "{log}");
    pods.are_led_by_another("kedge-manager").await;
    let begun = Instant::now();
    println!("{}", chart::remove_by_job(&cluster.server));
    println!("the chart is gone: {:.1} s", begun.elapsed().as_secs_f64());
    assert!(pods.all().await.is_empty());
    let jobs = Pods::of(cluster, "uninstall");
    assert!(
        jobs.all().await.is_empty(),
        "the Job goes when it succeeded"
    );
}

/// Where the agent API is inside the cluster.
pub async fn address(cluster: &Cluster) -> String {
    let at = service(cluster).await.cluster_ip.unwrap();
    format!("https://{at}:9443")
}

/// Its Service.
pub async fn service(cluster: &Cluster) -> ServiceSpec {
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), "kedge-system");
    let service = services.get("kedge-manager").await.unwrap();
    service.spec.unwrap()
}
