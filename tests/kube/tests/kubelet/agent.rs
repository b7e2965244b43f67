//! The agent of Services, as its guide sets it up.

use std::{fs, path::Path, process::Command};

use k8s_openapi::api::core::v1::Service;
use kube::Api;

use crate::{
    cluster::Cluster,
    manager,
    pods::{Pods, restarts, waits},
    token,
};

/// Sets it up, and waits until both are ready and what they may be.
pub async fn runs(cluster: &Cluster) {
    let site = cluster.folder("site.yaml");
    fs::write(&site, SITE).unwrap();
    cluster.kubectl(&["apply", "--filename", site.to_str().unwrap()]);
    token::put(
        cluster,
        ["--tenant", "shop"],
        "kedge-system",
        "kedge-services-token",
    )
    .await;
    let overlay = overlay(cluster).await;
    println!("{}", cluster.kubectl(&["apply", "--kustomize", &overlay]));
    let pods = Pods::of(cluster, "services");
    for pod in pods.are_ready(2).await {
        assert_eq!(restarts(&pod), 0, "{pod:?}");
        let processes = pods.processes(&pod);
        assert_eq!(processes.len(), 1, "{processes:?}");
        processes[0].assert_confined();
    }
}

/// A Service gets its address; and so does another one, when the Pod that leads was deleted.
pub async fn works(cluster: &Cluster) {
    offered(cluster, "web", 80).await;
    let pods = Pods::of(cluster, "services");
    let log = pods.log(&pods.leader(LEASE).await.unwrap());
    println!("{log}");
    assert!(log.contains("this agent speaks for the cluster"), "{log}");
    pods.are_led_by_another(LEASE).await;
    offered(cluster, "api", 81).await;
    for name in ["web", "api"] {
        cluster.kubectl(&[
            "--namespace=shop",
            "delete",
            "service",
            name,
            "--timeout=30s",
        ]);
    }
    let balancers = [
        "--namespace=tenant-shop",
        "get",
        "tcploadbalancers",
        "--output=name",
    ];
    waits("nothing is offered", async || {
        cluster.kubectl(&balancers).is_empty()
    })
    .await;
}

/// The manifests, and where the manager is.
async fn overlay(cluster: &Cluster) -> String {
    let folder = cluster.folder("overlay");
    fs::create_dir(&folder).unwrap();
    let services =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/kustomize/services");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(services)
        .arg(&folder)
        .status();
    assert!(copied.unwrap().success());
    let manager = manager::address(cluster).await;
    let text = format!(
        "resources: [services]
patches:
  - patch: |-
      apiVersion: v1
      kind: ConfigMap
      metadata: {{name: kedge-agent, namespace: kedge-system}}
      data: {{manager: '{manager}'}}
"
    );
    fs::write(folder.join("kustomization.yaml"), text).unwrap();
    folder.display().to_string()
}

async fn offered(cluster: &Cluster, name: &str, port: u16) {
    let file = cluster.folder("service.yaml");
    fs::write(
        &file,
        SERVICE
            .replace("NAME", name)
            .replace("PORT", &port.to_string()),
    )
    .unwrap();
    cluster.kubectl(&["apply", "--filename", file.to_str().unwrap()]);
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), "shop");
    waits(&format!("{name} has an address"), async || {
        let status = services.get(name).await.unwrap().status.unwrap_or_default();
        let all = status
            .load_balancer
            .and_then(|it| it.ingress)
            .unwrap_or_default();
        all.iter().any(|it| it.ip.as_deref() == Some("203.0.113.7"))
    })
    .await;
    let balancers = [
        "--namespace=tenant-shop",
        "get",
        "tcploadbalancers",
        "--output=name",
    ];
    let balancers = cluster.kubectl(&balancers);
    assert!(balancers.contains(&format!("{name}.shop.")), "{balancers}");
}

const LEASE: &str = "kedge-services";
const SERVICE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: shop}
spec:
  type: LoadBalancer
  loadBalancerClass: kedge.dev/gateway
  selector: {app: NAME}
  ports: [{name: http, port: PORT}]
";
const SITE: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: EdgeGateway
metadata: {name: gw, namespace: kedge-system}
spec:
  service: {addresses: [203.0.113.7]}
  # For so long a port rests that was given back, and what is deleted stays.
  envoy: {drain: 1s}
  tunnel: {publicEndpoints: [{host: 203.0.113.7, port: 51820}]}
---
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: shop}
spec:
  namespace: tenant-shop
  gatewayRef: {name: gw, namespace: kedge-system}
---
apiVersion: kedge.dev/v1alpha1
kind: EdgeHost
metadata: {name: kedge-services, namespace: tenant-shop}
spec: {exposures: true}
";
