//! Ingresses of a real API server.

use std::time::Duration;

use k8s_openapi::api::networking::v1::Ingress;
use kedge_manager_controller::{certificates::Found, managers};
use kedge_tests_kube::{eventually, manifests, stays};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    agents::{Agent, patient},
    gone,
    world::{LIMIT, TENANT, World, merge},
};

#[tokio::test(flavor = "multi_thread")]
async fn ingresses_are_offered_told_and_taken_back() {
    let Some(world) = World::start().await else {
        return;
    };
    world.node("edge-a", true).await;
    let agent = Agent::start(&world, "one", patient()).await;
    world.service("web", node_port()).await;
    world
        .service(
            "inner",
            json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}}),
        )
        .await;

    // An Ingress of our class, and what becomes of it.
    world
        .ingress(
            "shop",
            json!({"spec": {"rules": [rule("web"), {"host": "inner.example.net",
        "http": {"paths": [path("inner")]}}]}}),
        )
        .await;
    let route = world.route_of("shop", |_| true).await;
    assert_eq!(
        route["spec"]["hostnames"],
        json!(["inner.example.net", "shop.example.net"])
    );
    assert_eq!(route["spec"]["source"]["kind"], "Ingress");
    let backend = &route["spec"]["rules"][0]["backends"][0];
    let led = world
        .led_to(backend["name"].as_str().unwrap())
        .await
        .unwrap();
    assert_eq!(led["spec"]["exposure"], "Routed");
    assert_eq!(led["spec"]["source"]["name"], "web");
    let service = world.find("web").await.unwrap();
    let node_port = service.spec.unwrap().ports.unwrap()[0].node_port;
    assert_eq!(
        led["spec"]["endpoints"][0]["ports"][0]["port"],
        json!(node_port)
    );
    let finalizers = world
        .find_ingress("shop")
        .await
        .unwrap()
        .metadata
        .finalizers;
    assert_eq!(finalizers.unwrap(), ["kedge.dev/ingress"]);

    // What has no node port gets one beside it, until it has its own.
    assert!(route["spec"]["rules"][1].get("backends").is_some());
    let beside = world.beside("inner").await.unwrap();
    let spec = beside.spec.unwrap();
    assert_eq!(spec.type_.as_deref(), Some("NodePort"));
    assert_eq!(spec.selector.unwrap()["app"], "inner");
    world
        .patch("inner", json!({"spec": {"type": "NodePort"}}))
        .await;
    eventually("what stood beside it is gone", LIMIT, async || {
        world.beside("inner").await.is_none()
    })
    .await;

    // Where it is reached.
    world
        .at("shop", |shown| {
            shown[0]["ip"] == "203.0.113.7" && shown[0]["ports"][0]["port"] == 8088
        })
        .await;

    // A certificate is read where the namespace lets the agent, and nowhere else.
    let chain = world.secret("cert").await;
    world
        .patch_ingress(
            "shop",
            json!({"spec": {"tls": [{"hosts": ["shop.example.net"],
        "secretName": "cert"}]}}),
        )
        .await;
    world.told("shop", "CertificateForbidden").await;
    world.lets_read("shop").await;
    let route = world
        .route_of("shop", |route| route["spec"].get("tls").is_some())
        .await;
    assert_eq!(
        route["spec"]["tls"][0]["hosts"],
        json!(["shop.example.net"])
    );
    let secret = route["spec"]["tls"][0]["secretRef"].as_str().unwrap();
    assert!(secret.starts_with("kedge-tls-cert.shop."), "{secret}");
    eventually("the manager has it", LIMIT, async || {
        world.chains().await == [(secret.to_owned(), chain.clone())]
    })
    .await;
    let renewed = world.secret("cert").await;
    assert_ne!(renewed, chain);
    eventually("the manager has the renewed one", LIMIT, async || {
        world.chains().await == [(secret.to_owned(), renewed.clone())]
    })
    .await;

    // What cannot be done is said, and nothing of it is offered.
    world
        .ingress(
            "odd",
            json!({"metadata": {"annotations": {"kedge.dev/limit": "1"}}}),
        )
        .await;
    world.told("odd", "AnnotationNotSupported").await;
    assert!(world.route("odd").is_none());
    // Others' Ingresses are left alone.
    world
        .ingress("other", json!({"spec": {"ingressClassName": "nginx"}}))
        .await;
    stays(
        "it is not touched",
        Duration::from_millis(300),
        async || {
            world.route("other").is_none()
                && world
                    .find_ingress("other")
                    .await
                    .unwrap()
                    .metadata
                    .finalizers
                    .is_none()
        },
    )
    .await;

    // Another's class: what was written is taken back.
    world
        .patch_ingress("shop", json!({"spec": {"ingressClassName": "nginx"}}))
        .await;
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/ingress-nginx"}});
    manifests::apply(&world.client, &[class]).await;
    world.at("shop", |shown| *shown == json!([])).await;
    eventually("nothing of ours is left", LIMIT, async || {
        let held = world
            .find_ingress("shop")
            .await
            .unwrap()
            .metadata
            .finalizers;
        held.is_none()
            && world.route("shop").is_none()
            && world.routed().is_empty()
            && world.chains().await.is_empty()
    })
    .await;
    world
        .patch_ingress("shop", json!({"spec": {"ingressClassName": "kedge"}}))
        .await;
    world.route_of("shop", |_| true).await;

    // Deleted: nothing is left, at the manager or in the cluster.
    for name in ["shop", "odd", "other"] {
        world.delete_ingress(name).await;
    }
    eventually("it is gone", LIMIT, async || {
        world.find_ingress("shop").await.is_none() && world.route("shop").is_none()
    })
    .await;
    gone(&world, "web").await;
    eventually("nothing leads to its backends", LIMIT, async || {
        world.routed().is_empty()
    })
    .await;
    assert_eq!(agent.stop().await, Ok(()));
}

pub fn node_port() -> Value {
    json!({"spec": {"type": "NodePort", "loadBalancerClass": null}})
}

fn path(service: &str) -> Value {
    json!({"path": "/", "pathType": "Prefix", "backend":
        {"service": {"name": service, "port": {"number": 80}}}})
}

fn rule(service: &str) -> Value {
    json!({"host": "shop.example.net", "http": {"paths": [path(service)]}})
}

impl World {
    fn ingresses(&self) -> Api<Ingress> {
        Api::namespaced(self.client.clone(), "shop")
    }

    /// An Ingress of our class; `changes` are merged into it.
    async fn ingress(&self, name: &str, changes: Value) {
        let mut whole = json!({"metadata": {"name": name},
            "spec": {"ingressClassName": "kedge", "rules": [rule("web")]}});
        merge(&mut whole, changes);
        let ingress = serde_json::from_value(whole).unwrap();
        let params = PostParams::default();
        self.ingresses().create(&params, &ingress).await.unwrap();
    }

    async fn patch_ingress(&self, name: &str, changes: Value) {
        let patch = Patch::Merge(&changes);
        let params = PatchParams::default();
        self.ingresses().patch(name, &params, &patch).await.unwrap();
    }

    async fn delete_ingress(&self, name: &str) {
        let params = DeleteParams::default();
        self.ingresses().delete(name, &params).await.unwrap();
    }

    async fn find_ingress(&self, name: &str) -> Option<Ingress> {
        self.ingresses().get_opt(name).await.unwrap()
    }

    /// Waits until the status of an Ingress has these addresses.
    async fn at(&self, name: &str, is_so: impl Fn(&Value) -> bool) {
        eventually(&format!("{name} has its addresses"), LIMIT, async || {
            let ingress = self.find_ingress(name).await.unwrap();
            let balancer = ingress.status.and_then(|status| status.load_balancer);
            let shown = balancer.and_then(|it| it.ingress).unwrap_or_default();
            is_so(&serde_json::to_value(shown).unwrap())
        })
        .await;
    }

    /// Waits for an event.
    async fn told(&self, name: &str, reason: &str) {
        eventually(&format!("{name}: {reason}"), LIMIT, async || {
            self.events(name).await.contains(&reason.to_owned())
        })
        .await;
    }

    /// The objects of a kind that the agent asks for.
    fn asked(&self, kind: &str) -> Vec<(String, Value)> {
        let all = self
            .manager
            .world
            .store
            .of_kind("kedge.dev", kind, Some(TENANT));
        let asked = all.by_key.iter();
        let asked = asked.filter(|(_, layers)| layers.owned.contains_key(managers::EXPOSED));
        asked
            .map(|(key, layers)| (key.name.name.clone(), layers.effective()))
            .collect()
    }

    /// The HTTPLoadBalancer of an Ingress.
    pub fn route(&self, ingress: &str) -> Option<Value> {
        let start = format!("{ingress}.shop.");
        let mut all = self.asked("HTTPLoadBalancer").into_iter();
        all.find(|(name, _)| name.starts_with(&start))
            .map(|(_, it)| it)
    }

    pub async fn route_of(&self, ingress: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{ingress} is offered"), LIMIT, async || {
            self.route(ingress).is_some_and(|route| is_so(&route))
        })
        .await;
        self.route(ingress).unwrap()
    }

    async fn led_to(&self, name: &str) -> Option<Value> {
        let all = self.asked("TCPLoadBalancer").into_iter();
        all.filter(|(it, _)| it == name).map(|(_, it)| it).next()
    }

    /// What HTTPLoadBalancers alone lead to.
    pub fn routed(&self) -> Vec<String> {
        let all = self.asked("TCPLoadBalancer").into_iter();
        all.filter(|(_, it)| it["spec"]["exposure"] == "Routed")
            .map(|(name, _)| name)
            .collect()
    }

    /// The chains of the agent's certificates at the manager, by name.
    async fn chains(&self) -> Vec<(String, String)> {
        let found = self.manager.world.store.certificates(TENANT, TENANT).await;
        let all = found.unwrap().into_iter();
        all.filter_map(|(name, found)| match found {
            Found::Pair(pair) => Some((name, pair.chain)),
            _ => None,
        })
        .collect()
    }

    /// A Secret with a new certificate; its chain.
    async fn secret(&self, name: &str) -> String {
        let made = rcgen::generate_simple_self_signed(["shop.example.net".to_owned()]).unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "shop"}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem()}});
        manifests::apply(&self.client, &[secret]).await;
        made.cert.pem()
    }

    /// As the event says it: the agent may read the Secrets of a namespace.
    async fn lets_read(&self, namespace: &str) {
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "kedge-agent-certificates", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "kedge-agent-certificates"},
            "subjects": [{"kind": "ServiceAccount", "name": "kedge-agent",
                "namespace": "kedge-system"}]});
        manifests::apply(&self.client, &[binding]).await;
    }
}
