//! What the manager may do, and that it needs all of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    rbac::v1::PolicyRule,
};
use kedge_tests_kube::{
    assets::{Program, ready},
    chart,
    objects::{Kind, condition},
};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use crate::{
    fleet::Fleet,
    installed::{SPACES, installed, values},
};

#[test]
fn no_rule_of_the_chart_has_a_wildcard_and_secrets_are_of_named_namespaces_only() {
    if !ready(&[Program::Helm]) {
        return;
    }
    chart::lint(&values());
    let mut bound = 0;
    for object in chart::template(&values(), &[]) {
        let kind = object["kind"].as_str().unwrap();
        for rule in rules(&object) {
            let all = [&rule.api_groups, &rule.resources];
            let all = all.into_iter().flatten().flatten().chain(&rule.verbs);
            assert!(all.clone().all(|word| !word.contains('*')), "{object:#}");
            let secrets = rule.resources.iter().flatten().any(|it| it == "secrets");
            assert!(!secrets || kind == "Role", "{object:#}");
            bound += usize::from(secrets);
        }
    }
    // Its own, and for each of the namespaces tokens and kubeconfigs.
    assert_eq!(bound, 1 + SPACES * 2);
}

#[tokio::test]
async fn a_served_cluster_needs_every_right_the_manager_has_and_no_other() {
    let Some(ours) = installed().await else {
        return;
    };
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({})).await else {
        return;
    };
    fleet
        .site
        .delete(kedge_tests_kube::foreign::MACHINE, "cp-a")
        .await;
    fleet
        .site
        .gone(kedge_tests_kube::foreign::MACHINE, "cp-a")
        .await;
    let offers = json!({"spec": {
        "ports": [{"name": "http", "port": 80}],
        "endpoints": [{"hostSelector": {"matchLabels": {}}}],
    }});
    fleet.site.create(TCP_BALANCER, "web", offers).await;
    let names = json!({"spec": {"rules": [{"backends": [{"name": "web", "port": 80}]}]}});
    fleet.site.create(HTTP_BALANCER, "front", names).await;
    let told = async || {
        let web = fleet.site.get(TCP_BALANCER, "web").await.unwrap();
        let front = fleet.site.get(HTTP_BALANCER, "front").await.unwrap();
        [web, front]
            .iter()
            .all(|it| !condition(it, "Accepted").is_null())
    };
    fleet
        .site
        .until("it is told what becomes of it", told)
        .await;
    let granted: BTreeSet<Right> = chart::template(&values(), &[])
        .iter()
        .filter(|object| object["metadata"]["name"] != "kedge-uninstall")
        .flat_map(rules)
        .flat_map(rights)
        .collect();
    let (used, refused) = asked(ours.stack().server().audit());
    assert_eq!(refused, BTreeMap::new(), "the manager was refused");
    let spare: BTreeSet<&Right> = granted.difference(&used).collect();
    let elsewhere: BTreeSet<Right> = ELSEWHERE
        .iter()
        .map(|(verb, group, resource, _)| right(verb, group, resource))
        .collect();
    let unexplained: Vec<_> = spare
        .into_iter()
        .filter(|it| !elsewhere.contains(*it))
        .collect();
    assert_eq!(unexplained, [] as [&Right; 0], "granted and never used");
    println!("{} rights used, {} granted", used.len(), granted.len());
}

const TCP_BALANCER: Kind = Kind::new("kedge.dev", "v1alpha1", "TCPLoadBalancer");
const HTTP_BALANCER: Kind = Kind::new("kedge.dev", "v1alpha1", "HTTPLoadBalancer");

/// What tells the manager so is a host of its own.
const OFFERS: &str = "what a tenant's cluster offers";

/// The plugin asks for it, within the request that names the owner.
const OWNERS: &str = "owners that hold up their deletion";

/// What this scenario has no use for, and what does.
const ELSEWHERE: &[(&str, &str, &str, &str)] = &[
    ("get", "kedge.dev", "edgegateways", "gateways that enrol"),
    ("get", "kedge.dev", "tcploadbalancers", OFFERS),
    ("get", "kedge.dev", "httploadbalancers", OFFERS),
    ("list", "kedge.dev", "tcploadbalancers", OFFERS),
    ("list", "kedge.dev", "httploadbalancers", OFFERS),
    ("create", "kedge.dev", "tcploadbalancers", OFFERS),
    ("create", "kedge.dev", "httploadbalancers", OFFERS),
    ("patch", "kedge.dev", "tcploadbalancers", OFFERS),
    ("patch", "kedge.dev", "httploadbalancers", OFFERS),
    ("delete", "kedge.dev", "tcploadbalancers", OFFERS),
    ("delete", "kedge.dev", "httploadbalancers", OFFERS),
    (
        "get",
        "coordination.k8s.io",
        "leases",
        "while another leads",
    ),
    ("list", "", "secrets", "servers that do not stream lists"),
    ("delete", "", "secrets", "tokens that expired long ago"),
    ("patch", "kedge.dev", "edgegateways", "gateways that enrol"),
    ("patch", "kedge.dev", "tenants", "hosts that are banned"),
    (
        "patch",
        "kedge.dev",
        "vippools",
        "pools whose addresses are in use",
    ),
    (
        "create",
        "kedge.dev",
        "loadbalancers",
        "clusters that ask by annotation",
    ),
    (
        "delete",
        "kedge.dev",
        "loadbalancers",
        "clusters that ask by annotation",
    ),
    ("delete", "kedge.dev", "edgehosts", "enrolments that fail"),
    (
        "patch",
        "cluster.x-k8s.io",
        "clusters",
        "endpoints that follow their target",
    ),
    (
        "update",
        "kedge.dev",
        "edgehosts/managed",
        "the admission policy",
    ),
    (
        "update",
        "kedge.dev",
        "edgegateways/managed",
        "the admission policy",
    ),
    (
        "update",
        "kedge.dev",
        "loadbalancers/managed",
        "the admission policy",
    ),
    (
        "update",
        "kedge.dev",
        "tcploadbalancers/managed",
        "the admission policy",
    ),
    ("update", "kedge.dev", "loadbalancers/finalizers", OWNERS),
    ("update", "kedge.dev", "vippools/finalizers", OWNERS),
    ("update", IPAM, "ipaddressclaims/finalizers", OWNERS),
    ("get", "", "secrets", "kubeconfigs behind gateways"),
    ("patch", "", "secrets", "tokens that are used"),
    ("delete", IPAM, "ipaddressclaims", "clusters that go"),
    ("delete", IPAM, "ipaddresses", "claims that go"),
    (
        "list",
        IPAM,
        "inclusterippools",
        "claims at the in-cluster provider",
    ),
    (
        "watch",
        IPAM,
        "inclusterippools",
        "claims at the in-cluster provider",
    ),
    (
        "list",
        IPAM,
        "globalinclusterippools",
        "claims at the in-cluster provider",
    ),
    (
        "watch",
        IPAM,
        "globalinclusterippools",
        "claims at the in-cluster provider",
    ),
    (
        "list",
        PLANES,
        "kubeadmcontrolplanes",
        "clusters with a control plane",
    ),
    (
        "watch",
        PLANES,
        "kubeadmcontrolplanes",
        "clusters with a control plane",
    ),
    (
        "list",
        PLANES,
        "rke2controlplanes",
        "clusters with a control plane",
    ),
    (
        "watch",
        PLANES,
        "rke2controlplanes",
        "clusters with a control plane",
    ),
    (
        "list",
        PLANES,
        "kthreescontrolplanes",
        "clusters with a control plane",
    ),
    (
        "watch",
        PLANES,
        "kthreescontrolplanes",
        "clusters with a control plane",
    ),
    ("list", INFRA, "elementalclusters", "clusters of Elemental"),
    ("watch", INFRA, "elementalclusters", "clusters of Elemental"),
    ("patch", INFRA, "elementalclusters", "clusters of Elemental"),
    ("patch", INFRA, "elementalhosts", "clusters of Elemental"),
    (
        "list",
        INFRA,
        "elementalmachinetemplates",
        "hosts that are reserved",
    ),
    (
        "watch",
        INFRA,
        "elementalmachinetemplates",
        "hosts that are reserved",
    ),
    ("list", TEST, "edgetestmachines", "hosts of machines"),
    ("watch", TEST, "edgetestmachines", "hosts of machines"),
    (
        "list",
        TEST,
        "edgetestmachinetemplates",
        "hosts that are reserved",
    ),
    (
        "watch",
        TEST,
        "edgetestmachinetemplates",
        "hosts that are reserved",
    ),
    (
        "patch",
        "events.k8s.io",
        "events",
        "what happens again within six minutes",
    ),
];
const IPAM: &str = "ipam.cluster.x-k8s.io";
const PLANES: &str = "controlplane.cluster.x-k8s.io";
const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const TEST: &str = kedge_tests_kube::edgetest::CLUSTER.group;

#[tokio::test]
async fn who_may_what_is_this_list_and_nothing_beside_it() {
    let Some(ours) = installed().await else {
        return;
    };
    let client = ours.stack().server().client().await;
    let manager = "system:serviceaccount:kedge-system:kedge-manager";
    let uninstall = "system:serviceaccount:kedge-system:kedge-uninstall";
    let mut found = BTreeSet::new();
    for user in [manager, uninstall, "system:anonymous", "host", "tenant"] {
        for (group, resource) in OBJECTS {
            for space in ["edge-0", "kedge-system", "kube-system", ""] {
                for verb in VERBS {
                    if may(&client, user, (group, resource), space, verb).await {
                        let who = user.rsplit(':').next().unwrap();
                        let place = if space.is_empty() {
                            "everywhere"
                        } else {
                            space
                        };
                        found.insert(format!("{who} {verb} {resource} {place}"));
                    }
                }
            }
        }
    }
    let found: Vec<String> = found.into_iter().collect();
    assert_eq!(found, allowed());
}

/// What is asked for, of each identity.
const OBJECTS: [(&str, &str); 9] = [
    ("", "secrets"),
    ("", "pods"),
    ("", "configmaps"),
    ("apps", "deployments"),
    ("kedge.dev", "tenants"),
    ("kedge.dev", "loadbalancers/status"),
    ("cluster.x-k8s.io", "machines"),
    ("cluster.x-k8s.io", "clusters/status"),
    ("rbac.authorization.k8s.io", "clusterroles"),
];
const VERBS: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// The answers that are yes; all others are no.
fn allowed() -> Vec<String> {
    let everywhere = ["edge-0", "everywhere", "kedge-system", "kube-system"];
    let mut all = Vec::new();
    for who in ["kedge-manager", "kedge-uninstall"] {
        for place in everywhere {
            for verb in ["list", "watch", "patch"] {
                all.push(format!("{who} {verb} machines {place}"));
                all.push(format!("{who} {verb} tenants {place}"));
            }
            all.push(format!("{who} patch loadbalancers/status {place}"));
        }
    }
    // Tokens of a tenant, and the kubeconfigs of its clusters.
    for verb in ["get", "list", "watch", "create", "patch", "delete"] {
        all.push(format!("kedge-manager {verb} secrets edge-0"));
        all.push(format!("kedge-manager {verb} secrets kedge-system"));
    }
    all.sort();
    all
}

async fn may(
    client: &Client,
    user: &str,
    (group, resource): (&str, &str),
    space: &str,
    verb: &str,
) -> bool {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub.to_owned())),
        None => (resource, None),
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(vec!["system:authenticated".to_owned()]),
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                namespace: Some(space.to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = reviews.create(&PostParams::default(), &review).await;
    answer.unwrap().status.unwrap().allowed
}

/// Verb, group, and resource with its subresource.
type Right = (String, String, String);

fn right(verb: &str, group: &str, resource: &str) -> Right {
    (verb.to_owned(), group.to_owned(), resource.to_owned())
}

fn rules(object: &Value) -> Vec<PolicyRule> {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !["Role", "ClusterRole"].contains(&kind) || object["rules"].is_null() {
        return Vec::new();
    }
    serde_json::from_value(object["rules"].clone()).unwrap()
}

fn rights(rule: PolicyRule) -> Vec<Right> {
    let groups = rule.api_groups.unwrap_or_default();
    let resources = rule.resources.unwrap_or_default();
    let mut all = Vec::new();
    for group in &groups {
        for resource in &resources {
            all.extend(rule.verbs.iter().map(|verb| right(verb, group, resource)));
        }
    }
    all
}

/// What the manager asked for, and what of that it was refused and where.
fn asked(audit: std::path::PathBuf) -> (BTreeSet<Right>, BTreeMap<Right, String>) {
    let (mut used, mut refused) = (BTreeSet::new(), BTreeMap::new());
    for line in fs::read_to_string(audit).unwrap().lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let text = |pointer: &str| {
            let found = event.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let user = text("/user/username");
        if user != "system:serviceaccount:kedge-system:kedge-manager"
            || event.pointer("/objectRef/resource").is_none()
        {
            continue;
        }
        let mut resource = text("/objectRef/resource");
        let part = text("/objectRef/subresource");
        if !part.is_empty() {
            resource = format!("{resource}/{part}");
        }
        let right = (text("/verb"), text("/objectRef/apiGroup"), resource);
        let code = event
            .pointer("/responseStatus/code")
            .and_then(Value::as_i64);
        if code == Some(403) {
            refused.insert(right, text("/objectRef/namespace"));
            continue;
        }
        // What did not exist was created with the same request.
        if code == Some(201) && right.0 == "patch" {
            used.insert(("create".to_owned(), right.1.clone(), right.2.clone()));
        }
        used.insert(right);
    }
    // A streamed list is a watch.
    let lists: Vec<Right> = used
        .iter()
        .filter(|(verb, ..)| verb == "watch")
        .map(|(_, group, resource)| right("list", group, resource))
        .collect();
    used.extend(lists);
    (used, refused)
}
