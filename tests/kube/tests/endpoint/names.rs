//! Names in the place of addresses, and the way of the management side through the gateway.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Secret;
use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST, ELEMENTAL},
    objects::Kind,
    stays,
};
use kube::Api;
use serde_json::json;
use std::time::Duration;

use crate::site::{BALANCER, GATEWAY_ADDRESS, Site, address};

const PLANE: Kind = kedge_tests_kube::foreign::CONTROL_PLANE;

#[tokio::test]
async fn a_name_that_resolves_becomes_the_endpoint_and_one_that_does_not_is_waited_for() {
    let Some(site) = Site::new().await else {
        return;
    };
    // No name server is asked for a label of this length.
    let nowhere = format!("{}.example", "a".repeat(64));
    let (client, space) = (&site.client, &site.space);
    let mut made = Vec::new();
    for (name, hostname) in [("here", "localhost"), ("nowhere", nowhere.as_str())] {
        let asked = json!({"spec": {
            "clusterName": name, "mode": "VIP", "vip": {"poolRef": {"name": "lan"}},
            "dns": {"hostname": hostname},
        }});
        site.create(BALANCER, name, asked).await;
        let infra = json!({"spec": {}});
        made.push(Cluster::bare(client, space, name, ELEMENTAL, infra, json!({})).await);
    }
    site.until("provisioned", async || made[0].is_provisioned().await)
        .await;
    assert_eq!(address(&made[0].cluster().await), "localhost:6443");
    site.says("here", "DNSReady", "True/Resolved").await;
    site.says("nowhere", "DNSReady", "False/DNSNotResolvable")
        .await;
    site.says("nowhere", "EndpointPublished", "False/WaitingForDNS")
        .await;
    site.says("nowhere", "IsReachable", "False/DNSNotResolvable")
        .await;
    let infra = made[1].infrastructure().await.unwrap();
    assert_eq!(address(&infra), "");
}

#[tokio::test]
async fn a_kubeconfig_leads_through_the_gateway_when_it_is_made_anew_too_and_is_led_back() {
    let Some(site) = Site::new().await else {
        return;
    };
    let asked = json!({"spec": {
        "clusterName": "edge", "mode": "VIP", "vip": {"poolRef": {"name": "lan"}},
        "gatewayRef": {"name": "gw", "namespace": site.space}, "managementAccess": "Gateway",
    }});
    site.create(BALANCER, "edge", asked).await;
    let (client, space) = (&site.client, &site.space);
    let names = |name: &str| json!({"clusterConfiguration": {"apiServer": {"certSANs": [name]}}});
    let (infra, other) = (json!({"spec": {}}), names("api.example.org"));
    let cluster = Cluster::with(client, space, "edge", EDGE_TEST, infra, other).await;
    // A later name in the certificate means a rollout: nothing is published before.
    let said = site
        .says("edge", "EndpointPublished", "False/SANMissing")
        .await;
    assert!(
        said.contains("KubeadmControlPlane") && said.contains(GATEWAY_ADDRESS),
        "{said}"
    );
    let spec = json!({"spec": {"kubeadmConfigSpec": names(GATEWAY_ADDRESS)}});
    site.merge(PLANE, "edge", spec).await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), space);
    let config = async || {
        let secret = secrets.get_opt("edge-kubeconfig").await.unwrap()?;
        let value = secret.data?.remove("value")?;
        let value = String::from_utf8(value.0).unwrap();
        kube::config::Kubeconfig::from_yaml(&value).ok()
    };
    let server = async || config().await?.clusters[0].cluster.clone()?.server;
    let through = format!("https://{GATEWAY_ADDRESS}:3000");
    let leads = async || server().await.is_some_and(|to| to.starts_with(&through));
    site.until("the kubeconfig leads through the gateway", leads)
        .await;
    site.says("edge", "ManagementReady", "True/Rewritten").await;
    // Everything else is as Cluster API wrote it: it still authenticates.
    let user = config().await.unwrap().auth_infos[0]
        .auth_info
        .clone()
        .unwrap();
    let key = user.client_certificate_data.unwrap();
    let key = String::from_utf8(STANDARD.decode(key).unwrap()).unwrap();
    assert!(key.starts_with("-----BEGIN CERTIFICATE"), "{key}");
    let version = async || {
        let secret = secrets.get("edge-kubeconfig").await.unwrap();
        secret.metadata.resource_version
    };
    let before = version().await;
    stays(
        "nothing is written again",
        Duration::from_secs(3),
        async || version().await == before,
    )
    .await;
    // The provider makes it anew, with the endpoint in it.
    secrets
        .delete("edge-kubeconfig", &Default::default())
        .await
        .unwrap();
    site.until("it is there again and leads there", leads).await;
    // Whoever reaches the endpoint again needs no gateway.
    let direct = json!({"spec": {"managementAccess": "Endpoint"}});
    site.merge(BALANCER, "edge", direct).await;
    let endpoint = format!("https://{}", address(&cluster.cluster().await));
    site.until("it is led back to the endpoint", async || {
        server().await.as_ref() == Some(&endpoint)
    })
    .await;
    site.until("nothing is said of it any more", async || {
        site.said("edge", "ManagementReady").await == "/: "
    })
    .await;
    let before = version().await;
    stays("it is left alone", Duration::from_secs(3), async || {
        version().await == before
    })
    .await;
}
