//! What the admission policies refuse, and what they let through.

use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST, endpoint},
    edgetest, eventually, manifests,
};
use kube::{
    Api, Client, Config,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{
    installed::installed,
    site::{BALANCER, HOST, LIMIT, Site},
};

#[tokio::test]
async fn an_endpoint_that_kedge_filled_is_changed_by_nobody_else_but_may_be_blanked() {
    let Some(_ours) = installed().await else {
        return;
    };
    let Some(site) = Site::new().await else {
        return;
    };
    let cluster = json!({"metadata": {"annotations": site.asks("VIP")}, "spec": {}});
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::bare(client, space, "edge", EDGE_TEST, cluster, json!({})).await;
    let filled = async || {
        let infra = cluster.infrastructure().await.unwrap();
        endpoint(&infra).map(|(host, _)| host)
    };
    eventually("it is filled", LIMIT, async || filled().await.is_some()).await;
    let ours = filled().await.unwrap();
    let infras = edgetest::CLUSTER.of(&site.client, &site.space);
    let set = |host: &str, more: Value| {
        let mut patch = json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}});
        patch["metadata"] = more;
        patch
    };
    let merge = async |patch: Value| {
        let how = PatchParams::default();
        infras.patch("edge", &how, &Patch::Merge(patch)).await
    };
    // A policy is in force a moment after it is there.
    eventually("another's value is refused", LIMIT, async || {
        let refused = merge(set("10.9.9.9", json!({}))).await;
        let told = refused.err().map(|err| err.to_string()).unwrap_or_default();
        told.contains("was filled by Kedge") && told.contains(&ours)
    })
    .await;
    assert_eq!(filled().await.as_deref(), Some(ours.as_str()));
    merge(json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .unwrap();
    let blank = json!({"spec": {"controlPlaneEndpoint": null}});
    merge(blank).await.unwrap();
    eventually("a blank is filled again", LIMIT, async || {
        filled().await.as_deref() == Some(ours.as_str())
    })
    .await;
    let explicit = json!({"annotations": {"kedge.dev/endpoint-takeover": "true"}});
    merge(set("10.9.9.9", explicit)).await.unwrap();
}

#[tokio::test]
async fn a_tenant_sets_no_field_of_the_manager_and_no_status() {
    let Some(_ours) = installed().await else {
        return;
    };
    let Some(site) = Site::new().await else {
        return;
    };
    let tenant = tenant(&site).await;
    let api = |kind: kedge_tests_kube::objects::Kind| {
        Api::<DynamicObject>::namespaced_with(tenant.clone(), &site.space, &kind.resource())
    };
    let how = PostParams::default();
    let refused = |made: kube::Result<DynamicObject>, because: &str| match made {
        Err(kube::Error::Api(status)) => {
            assert!(status.message.contains(because), "{}", status.message);
            true
        }
        Err(err) => panic!("{err}"),
        Ok(_) => false,
    };
    let plain = json!({"spec": {"tenant": "other"}});
    eventually("a host of another tenant", LIMIT, async || {
        let host = HOST.object("h", plain.clone());
        let made = api(HOST).create(&how, &host).await;
        let is_refused = refused(
            made,
            "spec.tenant of EdgeHosts is set by Kedge's manager alone",
        );
        if !is_refused {
            api(HOST).delete("h", &Default::default()).await.unwrap();
        }
        is_refused
    })
    .await;
    // What is the tenant's own is let through, and stays so beside what the manager adds.
    let spec =
        json!({"spec": {"clusterName": "c", "mode": "VIP", "vip": {"poolRef": {"name": "lan"}}}});
    let mut balancer = api(BALANCER)
        .create(&how, &BALANCER.object("lb", spec))
        .await
        .unwrap();
    balancer.data["spec"]["listeners"] = json!([{"name": "api", "port": 30001}]);
    let listeners = json!({"spec": {"listeners": balancer.data["spec"]["listeners"]}});
    let merged = api(BALANCER)
        .patch("lb", &PatchParams::default(), &Patch::Merge(listeners))
        .await;
    assert!(refused(merged, "listeners"));
    let drain = json!({"spec": {"drain": {"timeout": "5s"}}});
    api(BALANCER)
        .patch("lb", &PatchParams::default(), &Patch::Merge(drain))
        .await
        .unwrap();
    let status = json!({"status": {"endpoint": {"host": "10.1.1.1", "port": 6443}}});
    let merged = api(BALANCER)
        .patch_status("lb", &PatchParams::default(), &Patch::Merge(status))
        .await;
    assert!(refused(
        merged,
        "the status of Kedge's kinds is written by its manager alone"
    ));

    let request = |names: Value, annotations: Value| {
        HTTP.object(
            "web",
            json!({"metadata": {"annotations": annotations}, "spec": {
            "source": {"kind": "Ingress", "namespace": "d", "name": "web"}, "hostnames": names}}),
        )
    };
    let foreign = request(json!(["a.example.org"]), json!({}));
    assert!(refused(
        api(HTTP).create(&how, &foreign).await,
        ".lb.example.net"
    ));
    let chosen = json!({"kube-vip.io/loadbalancerIPs": "10.1.1.1"});
    let chosen = request(json!(["a.lb.example.net"]), chosen);
    assert!(refused(
        api(HTTP).create(&how, &chosen).await,
        "not chosen by annotations"
    ));
    let own = request(json!(["a.lb.example.net"]), json!({}));
    api(HTTP).create(&how, &own).await.unwrap();
}

const HTTP: kedge_tests_kube::objects::Kind =
    kedge_tests_kube::objects::Kind::new("kedge.dev", "v1alpha1", "HTTPLoadBalancer");

/// Somebody who may write all of our kinds in the site's namespace, as an `edit` role would let.
async fn tenant(site: &Site) -> Client {
    let space = &site.space;
    let own = json!({"namespace": space, "name": "tenant"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": own, "rules": [{"apiGroups": ["kedge.dev"],
            "resources": ["edgehosts", "loadbalancers", "loadbalancers/status",
                "tcploadbalancers", "httploadbalancers"],
            "verbs": ["get", "create", "patch", "update", "delete"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": own,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "namespace": space, "name": "tenant"}]});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own});
    manifests::apply_in(&site.client, space, &[account, role, binding]).await;
    let server = site.ours.stack().server();
    let file = server.kubeconfig_of_account(space, "tenant").await;
    let config = Kubeconfig::read_from(file).unwrap();
    let how = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &how).await;
    Client::try_from(config.unwrap()).unwrap()
}
