//! What the manager may not see or write, and kinds that come after it: each costs those who need it,
//! as long as it lasts.

use std::{fs, time::Duration};

use kedge_agent_lab::kube::keys;
use kedge_manager_controller::Manager;
use kedge_tests_kube::{
    bare::{BALANCER, Bare, SPACE},
    elemental::kinds,
    eventually, foreign, manifests,
    objects::{Kind, condition, text},
    stays,
};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{LIMIT, asked, ends_well, filled, leads, loses_its_lease, pooled};

#[tokio::test]
async fn a_right_that_is_taken_away_holds_up_what_needs_it_until_it_is_given_back() {
    let Some(bare) = pooled(9).await else {
        return;
    };
    let manager = limited(&bare, &[every(&[kinds::GROUP])]).await;
    asked(&bare, &manager, "first").await;

    let looking = rule(&[kinds::GROUP], &["*"], &["get", "list", "watch"]);
    grant(&bare, &[looking]).await;
    bare.ask(SPACE, "second").await;
    eventually("the rule that is missing is told", LIMIT, async || {
        tells(&manager, &["elementalclusters", "patch"]).await
    })
    .await;
    eventually("its LoadBalancer tells as well", LIMIT, async || {
        let published = published(&bare, "second").await;
        let rule = format!(
            "{{apiGroups: [\"{}\"], resources: [\"elementalclusters\"], verbs: [\"patch\"]}}",
            kinds::GROUP
        );
        published.starts_with("False/Forbidden: ") && published.contains(&rule)
    })
    .await;
    assert_eq!(bare.endpoint(SPACE, "second").await, None);
    assert!(published(&bare, "first").await.starts_with("True/"));
    grant(&bare, &[every(&[kinds::GROUP])]).await;
    filled(&bare, &manager, "second").await;
    eventually("it is published", LIMIT, async || {
        published(&bare, "second").await.starts_with("True/")
    })
    .await;
    ends_well(&bare, manager).await;
}

#[tokio::test]
async fn a_kind_that_may_not_be_seen_holds_up_those_who_need_it_alone() {
    let Some(bare) = Bare::start().await else {
        return;
    };
    let other = "elemental";
    bare.space(other).await;
    for space in [SPACE, other] {
        bare.pool(space, 9).await;
    }
    // What every decision looks at: it starts, and says what it waits for.
    let but_machines = [
        "elementalclusters",
        "elementalclusters/status",
        "elementalhosts",
    ];
    let elemental = || rule(&[kinds::GROUP], &but_machines, &["*"]);
    let but_hosts = [
        "tenants",
        "edgegateways",
        "loadbalancers",
        "loadbalancers/status",
        "vippools",
        "vippools/status",
        "tcploadbalancers",
        "httploadbalancers",
    ];
    let ours = rule(&["kedge.dev"], &but_hosts, &["*"]);
    let manager = limited_to(&bare, &[ours, elemental()]).await;
    bare.ask(SPACE, "edge").await;
    let hosts = ["EdgeHost of kedge.dev", "edgehosts", "watch"];
    eventually("the rule that is missing is told", LIMIT, async || {
        tells(&manager, &hosts).await
    })
    .await;
    stays("it decides nothing", Duration::from_secs(2), async || {
        !leads(&manager) && bare.endpoint(SPACE, "edge").await.is_none()
    })
    .await;
    let served = tokio::net::TcpStream::connect(manager.address).await;
    assert!(served.is_ok(), "hosts are answered");

    // What few need: the others go on.
    let machine = json!({"apiVersion": foreign::MACHINE.api_version(), "kind": "Machine",
        "metadata": {"name": "cp-a", "namespace": other}, "spec": {"clusterName": "edge",
            "infrastructureRef": {"apiGroup": kinds::GROUP, "kind": "ElementalMachine",
                "name": "cp-a"}}});
    manifests::apply(&bare.client, &[machine]).await;
    bare.ask(other, "edge").await;
    grant_to(&bare, &[every(&["kedge.dev"]), elemental()]).await;
    filled(&bare, &manager, "edge").await;
    eventually("the other rule is told", LIMIT, async || {
        tells(&manager, &["ElementalMachine", "elementalmachines"]).await
            && !tells(&manager, &hosts).await
    })
    .await;
    stays("nothing of it", Duration::from_secs(2), async || {
        bare.endpoint(other, "edge").await.is_none()
    })
    .await;
    grant(&bare, &[every(&[kinds::GROUP])]).await;
    eventually("it is filled too", LIMIT, async || {
        bare.endpoint(other, "edge").await.is_some()
    })
    .await;
    assert!(!tells(&manager, &["KEDGE-CAPI-0005"]).await);
    ends_well(&bare, manager).await;
}

#[tokio::test]
async fn a_right_that_is_missing_as_a_manager_begins_to_lead_is_asked_for_again() {
    let Some(bare) = pooled(9).await else {
        return;
    };
    let manager = limited(&bare, &[every(&[kinds::GROUP])]).await;
    asked(&bare, &manager, "first").await;

    // What watches follow goes on; what a new leader lists is refused.
    let but_list = ["get", "watch", "create", "update", "patch", "delete"];
    let ours = [every(&["kedge.dev"]), every(&[kinds::GROUP])];
    let mut without = ours.to_vec();
    without.push(rule(&["ipam.cluster.x-k8s.io"], &["*"], &but_list));
    grant_but_addresses(&bare, &without).await;
    let kubeconfig = bare.kubeconfig_with("limited", "/users/0/user/as", json!("limited"));
    let limited = keys::connect(&fs::read_to_string(kubeconfig).unwrap()).await;
    let addresses = foreign::ADDRESS.of(&limited.unwrap(), SPACE);
    eventually("the list is refused", LIMIT, async || {
        let list = addresses.list(&ListParams::default()).await;
        matches!(list, Err(kube::Error::Api(status)) if status.code == 403)
    })
    .await;
    loses_its_lease(&bare, &manager).await;
    bare.ask(SPACE, "second").await;
    stays(
        "no address is given unseen",
        Duration::from_secs(2),
        async || bare.endpoint(SPACE, "second").await.is_none(),
    )
    .await;
    grant_to(&bare, &ours).await;
    filled(&bare, &manager, "second").await;
    ends_well(&bare, manager).await;
}

#[tokio::test]
async fn kinds_that_are_installed_after_the_manager_are_found_and_claims_of_v1beta1_served() {
    let Some(bare) = Bare::with_ours_alone().await else {
        return;
    };
    bare.pool(SPACE, 9).await;
    let manager = bare.manager().await;
    bare.install_core("v1beta1").await;
    bare.cluster(SPACE, "edge").await;
    bare.install_elemental().await;
    bare.infrastructure(SPACE, "edge").await;
    assert_eq!(filled(&bare, &manager, "edge").await, "10.20.14.10:6443");

    // One of somebody else, who knows no other version either.
    let claim = foreign::CLAIM_V1BETA1;
    let pool = json!({"apiGroup": "kedge.dev", "kind": "VIPPool", "name": "lan"});
    let asked = json!({"apiVersion": claim.api_version(), "kind": claim.kind,
        "metadata": {"name": "nic", "namespace": SPACE}, "spec": {"poolRef": pool}});
    manifests::apply(&bare.client, &[asked]).await;
    let claims = claim.of(&bare.client, SPACE);
    eventually("the claim is served", LIMIT, async || {
        let claim = claims.get("nic").await.unwrap();
        condition(&claim, "Ready")["status"] == "True"
            && text(&claim, "/status/addressRef/name") == "nic"
    })
    .await;
    let addresses = Kind::new(claim.group, claim.version, foreign::ADDRESS.kind);
    let addresses = addresses.of(&bare.client, SPACE);
    let address = addresses.get("nic").await.unwrap();
    assert_eq!(text(&address, "/spec/address"), "10.20.14.11");
    let ready = claims.get("nic").await.unwrap();
    let form = condition(&ready, "Ready")
        .get("observedGeneration")
        .cloned();
    assert_eq!(form, None, "the form of v1beta1");
    claims.delete("nic", &Default::default()).await.unwrap();
    eventually("both are gone", LIMIT, async || {
        claims.get_opt("nic").await.unwrap().is_none()
            && addresses.get_opt("nic").await.unwrap().is_none()
    })
    .await;
    manager.stop().await;
}

/// A manager that may do what it must everywhere but in Elemental's kinds, where it may do this.
async fn limited(bare: &Bare, elemental: &[Value]) -> Manager {
    grant(bare, elemental).await;
    start(bare).await
}

/// A manager that may do what it must in Cluster API's kinds, and this in ours and Elemental's.
async fn limited_to(bare: &Bare, rules: &[Value]) -> Manager {
    grant_to(bare, rules).await;
    start(bare).await
}

async fn start(bare: &Bare) -> Manager {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "limited"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
            "name": "limited"}]});
    manifests::apply(&bare.client, &[binding]).await;
    let kubeconfig = bare.kubeconfig_with("limited", "/users/0/user/as", json!("limited"));
    Manager::start(&Bare::options_by(kubeconfig)).await.unwrap()
}

async fn grant(bare: &Bare, elemental: &[Value]) {
    let mut rules = vec![every(&["kedge.dev"])];
    rules.extend_from_slice(elemental);
    grant_to(bare, &rules).await;
}

async fn grant_to(bare: &Bare, rules: &[Value]) {
    let mut all = vec![every(&["ipam.cluster.x-k8s.io"])];
    all.extend_from_slice(rules);
    grant_but_addresses(bare, &all).await;
}

async fn grant_but_addresses(bare: &Bare, rules: &[Value]) {
    let mut all = vec![every(&[
        "",
        "cluster.x-k8s.io",
        "coordination.k8s.io",
        "apiextensions.k8s.io",
        "events.k8s.io",
    ])];
    all.extend_from_slice(rules);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "limited"}, "rules": all});
    manifests::apply(&bare.client, &[role]).await;
}

fn every(groups: &[&str]) -> Value {
    rule(groups, &["*"], &["*"])
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// Whether a problem of the manager contains all of these words.
async fn tells(manager: &Manager, words: &[&str]) -> bool {
    let problems = manager.world.state().await.problems();
    let texts = problems.iter().map(|problem| format!("{problem:?}"));
    let codes = problems.iter().map(|problem| problem.code.to_string());
    let mut all = texts.zip(codes).map(|(text, code)| text + &code);
    all.any(|text| words.iter().all(|word| text.contains(word)))
}

/// What the LoadBalancer of a cluster says of its endpoint.
async fn published(bare: &Bare, name: &str) -> String {
    let all = BALANCER.of(&bare.client, SPACE);
    let Some(balancer) = all.get_opt(name).await.unwrap() else {
        return String::new();
    };
    let said = condition(&balancer, "EndpointPublished");
    let word = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}: {}", word("status"), word("reason"), word("message"))
}
