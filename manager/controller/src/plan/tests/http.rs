//! HTTPLoadBalancers: who is served, by which names, with which certificates, behind which condition.

use std::collections::BTreeMap;

use kedge_control::{
    frontend::Offer,
    report::{Unserved, UnservedReason},
    site::{Action, Site},
};
use serde_json::{Value, json};

use super::world::*;
use crate::{certificates::Pair, plan::Plan, snapshot::key, store::Name};

/// A site whose gateway serves HTTP, with hosts behind a TCPLoadBalancer that is led to.
pub fn ready() -> World {
    let mut world = site();
    world.write(GATEWAY);
    world.write(&tenant(
        "domain: lb.example.net, allowedHostnames: [shop.example.com, '*.example.org']",
    ));
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b"] {
        world.enrol(host);
    }
    world.offer("web", "", WEB);
    world.settle();
    world
}

pub const GATEWAY: &str = "apiVersion: kedge.dev/v1alpha1\nkind: EdgeGateway\nmetadata: {name: gw, \
    namespace: kedge-system}\nspec: {tunnel: {publicEndpoints: [{host: 203.0.113.7}]}, http: {}}\n";
const WEB: &str = "exposure: Routed, ports: [{name: http, port: 80}, {name: grpc, port: 81, appProtocol: \
    H2C}], endpoints: [{hostSelector: {}, ports: [{name: http, port: 30080}]}]";
pub const RULE: &str = "rules: [{backends: [{name: web, port: 80}]}]";

pub fn tenant(dns: &str) -> String {
    tenant_of(NS, dns, "")
}

pub fn tenant_of(name: &str, dns: &str, limits: &str) -> String {
    format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec: {{namespace: {NS}, \
         gatewayRef: {{name: gw}}, dns: {{{dns}}}, limits: {{{limits}}}}}\n"
    )
}

impl World {
    /// A user asks for an HTTPLoadBalancer.
    pub fn ask(&mut self, name: &str, spec: &str) {
        self.ask_as(NS, name, spec);
    }

    /// The same, of one of the tenants of the namespace.
    pub fn ask_as(&mut self, tenant: &str, name: &str, spec: &str) {
        self.write(&format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\nmetadata: {{name: {name}, namespace: {NS}, \
             labels: {{kedge.dev/tenant: {tenant}}}}}\nspec: {{{spec}}}\n"
        ));
    }

    pub fn http(&self, name: &str) -> kedge_crd::HttpLoadBalancer {
        let key = key::<kedge_crd::HttpLoadBalancerSpec>(&Name::new(NS, name));
        self.objects.by_key[&key].in_force().unwrap()
    }

    /// `status: reason: message` of a condition.
    pub fn told(&self, name: &str, kind: &str) -> String {
        let object = self.http(name);
        let condition = kedge_crd::condition::find(&object.status.conditions, kind);
        condition.map_or_else(String::new, |it| {
            format!("{}: {}: {}", it.status.as_str(), it.reason, it.message)
        })
    }

    pub fn names(&self, name: &str) -> Vec<String> {
        let status = self.http(name).status;
        status.hostnames.into_iter().map(|it| it.hostname).collect()
    }

    /// A Secret with a certificate for these names.
    pub fn certify(&mut self, secret: &str, pair: &Pair) {
        let text = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": secret, "namespace": NS},
            "stringData": {"tls.crt": pair.chain, "tls.key": pair.key}});
        self.write(&text.to_string());
    }
}

/// A certificate for these names, in the years 2025 to 2027.
pub fn pair(names: &[&str]) -> Pair {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = names.iter().map(|&name| name.to_owned());
    let mut params = rcgen::CertificateParams::new(names.collect::<Vec<_>>()).unwrap();
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    Pair::new(params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

pub fn served(plan: &Plan) -> Offer {
    plan.gateways.values().next().unwrap().offer.clone()
}

pub fn site_of(plan: &Plan, name: &str) -> Option<Site> {
    let sites = served(plan).sites.into_iter();
    sites
        .into_iter()
        .find(|site| site.name == format!("{NS}/{name}"))
}

fn backends(action: &Action) -> BTreeMap<String, u32> {
    match action {
        Action::Forward { backends, .. } => backends
            .iter()
            .map(|it| (it.pool.clone(), it.weight))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_routed_load_balancer_is_pools_and_takes_no_port() {
    let mut world = ready();
    world.write(&tenant_of(NS, "domain: lb.example.net", "ports: 0"));
    let plan = world.settle();
    let offer = served(&plan);
    assert!(offer.frontends.is_empty(), "{offer:?}");
    let pools: Vec<_> = offer
        .pools
        .iter()
        .map(|pool| {
            (
                pool.name.as_str(),
                format!("{:?}", pool.http),
                pool.members.len(),
            )
        })
        .collect();
    let (one, two) = ("One".to_owned(), "Two".to_owned());
    assert_eq!(
        pools,
        [
            ("store-014/web/grpc", two, 2),
            ("store-014/web/http", one, 2)
        ]
    );
    assert_eq!(offer.pools[1].members[0].port.get(), 30080);
    let object = world.tcp("web");
    assert_eq!(object.status.ingress, []);
    assert!(
        object
            .spec
            .ports
            .iter()
            .all(|port| port.listener_port.is_none())
    );
    for (kind, said) in [
        ("Accepted", "True: Accepted: "),
        ("Programmed", "True: Routed: "),
        ("BackendsHealthy", "True: AllHealthy: "),
        ("Ready", "True: Ready: "),
    ] {
        assert_eq!(world.said("web", kind), said);
    }
    for (spec, field) in [
        (
            "exposure: Routed, ports: [{name: a, port: 1, protocol: UDP}]",
            "spec.exposure",
        ),
        (
            "exposure: Routed, ports: [{name: a, port: 1}], proxyProtocol: V2",
            "spec.proxyProtocol",
        ),
    ] {
        world.offer("bad", "", spec);
        world.settle();
        let said = world.said("bad", "Accepted");
        assert!(
            said.starts_with(&format!("False: Unsupported: {field}")),
            "{said}"
        );
    }
}

#[test]
fn a_port_that_is_routed_from_now_on_is_given_back_and_rests() {
    let mut world = ready();
    world.offer(
        "api",
        "",
        "ports: [{name: p, port: 8080}], endpoints: [{hostSelector: {}}]",
    );
    world.settle();
    assert_eq!(
        world.tcp("api").spec.ports[0].listener_port.unwrap().get(),
        8080
    );
    world.offer(
        "api",
        "",
        "exposure: Routed, ports: [{name: p, port: 8080}], endpoints: [{hostSelector: {}}]",
    );
    let plan = world.settle();
    assert_eq!(world.tcp("api").spec.ports[0].listener_port, None);
    assert!(served(&plan).frontends.is_empty());
    assert!(
        served(&plan)
            .pools
            .iter()
            .any(|pool| pool.name == "store-014/api/p")
    );
    let notes = world.tcp("api").metadata.annotations;
    assert!(notes.contains_key("kedge.dev/resting-ports"), "{notes:?}");
}

#[test]
fn a_load_balancer_has_its_own_name_and_the_ones_it_may_have() {
    let mut world = ready();
    let source = "source: {kind: Ingress, namespace: shop, name: front}";
    world.ask(
        "i-1",
        &format!("{source}, hostnames: [shop.example.com, a.example.org], {RULE}"),
    );
    let plan = world.settle();
    let status = world.http("i-1").status;
    assert_eq!(status.generated_hostname, "front.store-014.lb.example.net");
    assert_eq!(status.served_by, "kedge-system/gw");
    let names = [
        "front.store-014.lb.example.net",
        "shop.example.com",
        "a.example.org",
    ];
    assert_eq!(world.names("i-1"), names);
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    let ingress = serde_json::to_value(&status.ingress).unwrap();
    assert_eq!(ingress, json!([{"ip": "203.0.113.7", "ports": ports}]));
    let site = site_of(&plan, "i-1").unwrap();
    assert_eq!(site.tenant, NS);
    assert_eq!(site.address.to_string(), "203.0.113.7");
    assert_eq!((site.http.map(u16::from), site.https), (Some(80), None));
    assert_eq!(site.hosts, {
        let mut names = names.map(str::to_owned).to_vec();
        names.sort();
        names
    });
    let pools = backends(&site.routes[0].action);
    assert_eq!(
        pools,
        BTreeMap::from([("store-014/web/http".to_owned(), 1)])
    );
    assert_eq!(world.told("i-1", "Accepted"), "True: Accepted: ");
    assert_eq!(world.told("i-1", "ResolvedRefs"), "True: ResolvedRefs: ");
    assert!(
        world
            .told("i-1", "DNSReady")
            .starts_with("Unknown: NotManaged: ")
    );
    assert!(
        world
            .told("i-1", "Programmed")
            .starts_with("False: Pending: ")
    );
    assert_eq!(world.told("i-1", "CertificateReady"), "");
    // Another Ingress of that name, of another namespace, has a name of its own; both stay.
    let other = "source: {kind: Ingress, namespace: other, name: front}";
    world.ask("a-0", &format!("{other}, {RULE}"));
    world.settle();
    assert_eq!(world.names("a-0"), ["front-other.store-014.lb.example.net"]);
    assert_eq!(world.names("i-1"), names);
    let people = world.settle().load_balancers;
    let shown: Vec<_> = people
        .iter()
        .map(|it| (it.kind.as_str(), it.name.as_str()))
        .collect();
    let http = "HTTPLoadBalancer";
    assert_eq!(
        shown,
        [(http, "a-0"), (http, "i-1"), ("TCPLoadBalancer", "web")]
    );
}

#[test]
fn it_is_programmed_once_an_instance_serves_it() {
    let mut world = ready();
    world.ask("front", RULE);
    let plan = world.settle();
    let generation = plan.gateways.values().next().unwrap().generation;
    let unserved = |reason| {
        vec![Unserved {
            frontend: "store-014/front".to_owned(),
            reason,
            message: "because".to_owned(),
        }]
    };
    for (told, said) in [
        (Some(Vec::new()), "True: Programmed: "),
        (
            Some(unserved(UnservedReason::Pending)),
            "False: Pending: no instance",
        ),
        (
            Some(unserved(UnservedReason::Invalid)),
            "False: Invalid: instance gw-0 of EdgeGateway kedge-system/gw: its names: because",
        ),
        (None, "False: Unsupported: "),
    ] {
        world.gateway_applies(generation, told);
        world.settle();
        let programmed = world.told("front", "Programmed");
        assert!(programmed.starts_with(said), "{programmed}");
        let ready = world.told("front", "Ready");
        assert_eq!(
            ready.starts_with("True"),
            said.starts_with("True"),
            "{ready}"
        );
    }
}

#[test]
fn what_cannot_be_served_is_told_by_its_field() {
    let invalid = |spec: &str, field: &str| {
        let mut world = ready();
        world.ask("front", spec);
        let plan = world.settle();
        let said = world.told("front", "Accepted");
        assert!(
            said.starts_with(&format!("False: Invalid: {field}: ")),
            "{spec}: {said}"
        );
        assert!(site_of(&plan, "front").is_none());
    };
    let to = "backends: [{name: web, port: 80}]";
    for (rule, field) in [
        ("hosts: [other.example.com]".to_owned(), "hosts[0]"),
        ("paths: [{path: '/a b'}]".to_owned(), "paths[0].path"),
        ("paths: [{path: '/a?b'}]".to_owned(), "paths[0].path"),
        (
            "paths: [{path: '/('}, {path: '/(', type: RegularExpression}]".to_owned(),
            "paths[1].path",
        ),
        ("method: 'GET POST'".to_owned(), "method"),
        ("headers: {'a b': c}".to_owned(), "headers[a b]"),
        ("headers: {host: c}".to_owned(), "headers[host]"),
        ("headers: {Via: a, via: b}".to_owned(), "headers[via]"),
        ("headers: {a: \"b\\nc\"}".to_owned(), "headers[a]"),
        ("query: {'': c}".to_owned(), "query[]"),
        (
            "redirect: {hostname: 'a b'}".to_owned(),
            "redirect.hostname",
        ),
        (
            "redirect: {path: {prefix: /a}}, paths: [{path: /, type: Exact}]".to_owned(),
            "redirect.path.prefix",
        ),
        (
            "redirect: {statusCode: 304}".to_owned(),
            "redirect.statusCode",
        ),
        (
            format!("rewrite: {{hostname: A}}, {to}"),
            "rewrite.hostname",
        ),
        (
            format!("rewrite: {{path: {{full: a}}}}, {to}"),
            "rewrite.path",
        ),
        ("redirect: {}, rewrite: {}".to_owned(), "redirect"),
        (
            format!("requestHeaders: {{set: {{Host: a}}}}, {to}"),
            "requestHeaders.set[Host]",
        ),
        (
            format!("responseHeaders: {{remove: ['a:']}}, {to}"),
            "responseHeaders.remove[0]",
        ),
        (
            format!("timeout: 1s, backendTimeout: 2s, {to}"),
            "backendTimeout",
        ),
        (
            format!("cors: {{allowOrigins: ['https://a.example', 'https://a.example/b']}}, {to}"),
            "cors.allowOrigins[1]",
        ),
        (
            format!("cors: {{allowOrigins: ['https://a.example', '*']}}, {to}"),
            "cors.allowOrigins[1]",
        ),
        (
            format!("cors: {{allowMethods: ['GET,PUT']}}, {to}"),
            "cors.allowMethods[0]",
        ),
        (
            format!("cors: {{exposeHeaders: ['x a']}}, {to}"),
            "cors.exposeHeaders[0]",
        ),
        (format!("cors: {{maxAge: 1500ms}}, {to}"), "cors.maxAge"),
        ("redirect: {}, cors: {}".to_owned(), "cors"),
    ] {
        invalid(
            &format!("rules: [{{{rule}}}]"),
            &format!("spec.rules[0].{field}"),
        );
    }
    invalid("hostnames: ['a_b.example.org']", "spec.hostnames[0]");
    invalid(
        "tls: [{hosts: [other.example.com], secretRef: a}]",
        "spec.tls[0].hosts[0]",
    );
    invalid(
        "tls: [{hosts: ['*', other.example.com], secretRef: a}]",
        "spec.tls[0].hosts[1]",
    );
}

#[test]
fn rules_become_routes_in_their_order() {
    let mut world = ready();
    world.ask(
        "front",
        "hostnames: [shop.example.com], rules: [{hosts: [shop.example.com], paths: [{path: /a, type: Exact}, \
         {path: '/b.*', type: RegularExpression}], method: POST, headers: {X-One: two}, query: {q: r}, backends: \
         [{name: web, port: 80, weight: 3}, {name: web, port: 81, weight: 0}], timeout: 3s, backendTimeout: 1s, \
         rewrite: {hostname: inner, path: {full: /c}}, requestHeaders: {set: {X-A: b}, remove: [X-C]}, cors: {allowOrigins: \
         ['https://Shop.example.com'], allowMethods: [PUT], allowHeaders: [X-A], allowCredentials: true}}, \
         {redirect: {scheme: https, port: 8443, path: {prefix: /z}, statusCode: 308}}]",
    );
    let plan = world.settle();
    let routes = site_of(&plan, "front").unwrap().routes;
    let routes = serde_json::to_value(&routes).unwrap();
    let forward = json!({"type": "forward", "backends": [{"pool": "store-014/web/http", "weight": 3},
        {"pool": "store-014/web/grpc", "weight": 0}], "rewrite": {"host": "inner", "path": {"type": "full",
        "value": "/c"}}, "timeoutMilliseconds": 3000, "backendTimeoutMilliseconds": 1000, "retries": 1});
    let one = |path: Value| {
        json!({"hosts": ["shop.example.com"], "matches": {"path": path, "method": "POST", "headers": {"x-one":
            {"type": "exact", "value": "two"}}, "query": {"q": {"type": "exact", "value": "r"}}},
            "action": forward, "requestHeaders": {"set": {"x-a": "b"}, "remove": ["x-c"]}, "cors": {"origins":
            ["https://shop.example.com"], "methods": ["PUT"], "headers": ["x-a"], "credentials": true,
            "maxAgeSeconds": 5}})
    };
    let redirect = json!({"matches": {"path": {"type": "prefix", "value": "/"}}, "action": {"type": "redirect",
        "scheme": "https", "port": 8443, "path": {"type": "prefix", "value": "/z"}, "status": 308}});
    let exact = one(json!({"type": "exact", "value": "/a"}));
    let regex = one(json!({"type": "regex", "value": "/b.*"}));
    assert_eq!(routes, json!([exact, regex, redirect]));
}

#[test]
fn a_backend_that_is_not_there_keeps_its_share_and_is_told() {
    let mut world = ready();
    world.ask(
        "front",
        "rules: [{paths: [{path: /a}], backends: [{name: web, port: 80}, {name: gone, port: 80, weight: 2}]}, \
         {backends: [{name: web, port: 9}]}]",
    );
    let plan = world.settle();
    let site = site_of(&plan, "front").unwrap();
    let shares = backends(&site.routes[0].action);
    let nobody = "store-014/front:gone:80".to_owned();
    let wanted = BTreeMap::from([("store-014/web/http".to_owned(), 1), (nobody.clone(), 2)]);
    assert_eq!(shares, wanted);
    let pools = served(&plan).pools;
    assert!(
        pools.iter().all(|pool| pool.name != nobody),
        "gateways answer for it with 500"
    );
    assert_eq!(
        backends(&site.routes[1].action),
        BTreeMap::new(),
        "the answer is 500"
    );
    let said = "False: BackendNotFound: TCPLoadBalancer web has no TCP port 9; there is no TCPLoadBalancer gone";
    assert_eq!(world.told("front", "ResolvedRefs"), said);
    world.offer(
        "gone",
        "",
        "exposure: Routed, ports: [{name: p, port: 80}], endpoints: [{hostSelector: {}}]",
    );
    let plan = world.settle();
    assert!(!served(&plan).pools.iter().any(|pool| pool.name == nobody));
}

#[test]
fn a_name_stays_whose_it_is_and_another_tenant_does_not_get_it() {
    let mut world = ready();
    let all = "allowedHostnames: [shop.example.com, '*.example.org']";
    world.write(&tenant_of("other", all, ""));
    world.ask_as(
        "other",
        "zzz",
        "hostnames: [shop.example.com, '*.example.org']",
    );
    world.settle();
    world.ask(
        "aaa",
        "hostnames: [shop.example.com, a.example.org, '*.b.example.org']",
    );
    let plan = world.settle();
    assert_eq!(world.names("zzz"), ["shop.example.com", "*.example.org"]);
    assert_eq!(world.names("aaa"), ["aaa.store-014.lb.example.net"]);
    let said = world.told("aaa", "Accepted");
    assert!(said.starts_with("False: HostnameTaken: "), "{said}");
    assert!(
        said.contains(
            "shop.example.com: another tenant has it, or a wildcard above it, at this gateway"
        ),
        "{said}"
    );
    assert!(
        said.contains("a.example.org: another tenant has it, or"),
        "{said}"
    );
    assert!(site_of(&plan, "aaa").is_some(), "what it has is served");
    // Within a tenant names are shared, and what is given back is the other's.
    world.ask("bbb", "hostnames: [shop.example.com]");
    world.remove("kedge.dev", "HTTPLoadBalancer", "zzz");
    world.settle();
    world.settle();
    for name in ["aaa", "bbb"] {
        assert!(
            world.names(name).contains(&"shop.example.com".to_owned()),
            "{name}"
        );
        assert_eq!(world.told(name, "Accepted"), "True: Accepted: ");
    }
}

#[test]
fn names_need_an_admins_word() {
    let mut world = ready();
    world.ask(
        "front",
        "hostnames: [evil.example.com, x.other.lb.example.net, b.example.org]",
    );
    world.settle();
    assert_eq!(
        world.names("front"),
        ["front.store-014.lb.example.net", "b.example.org"]
    );
    let said = world.told("front", "Accepted");
    assert!(
        said.starts_with("False: HostnameNotAllowed: evil.example.com: "),
        "{said}"
    );
    // An admin who takes a name from the list takes it from who has it.
    world.write(&tenant("allowedHostnames: [evil.example.com]"));
    world.settle();
    assert_eq!(world.names("front"), ["evil.example.com"]);
    world.write(&tenant("provider: None"));
    let plan = world.settle();
    assert_eq!(world.names("front"), [""; 0]);
    assert!(site_of(&plan, "front").is_none());
    world.ask("front", RULE);
    world.settle();
    assert!(
        world
            .told("front", "Accepted")
            .starts_with("False: NoHostnames: ")
    );
}

#[test]
fn a_tenant_that_may_have_every_name_has_those_that_nobody_else_has() {
    let mut world = ready();
    world.ask("front", RULE);
    world.settle();
    assert_eq!(world.names("front"), ["front.store-014.lb.example.net"]);
    world.write(&tenant("allowedHostnames: ['*']"));
    let plan = world.settle();
    assert_eq!(world.names("front"), ["*"]);
    assert_eq!(site_of(&plan, "front").unwrap().hosts, ["*"]);
    assert_eq!(world.told("front", "Accepted"), "True: Accepted: ");
    // Another one has the names it was given all the same, and not all others as well.
    world.write(&tenant_of("other", "allowedHostnames: ['*']", ""));
    world.ask_as("other", "zzz", "hostnames: [shop.example.com]");
    world.ask_as("other", "yyy", RULE);
    world.settle();
    assert_eq!(world.names("zzz"), ["shop.example.com"]);
    assert_eq!(world.names("yyy"), [""; 0]);
    let said = world.told("yyy", "Accepted");
    assert!(said.starts_with("False: HostnameTaken: *: "), "{said}");
    // Whoever lists names asks for those alone.
    world.ask("front", "hostnames: [a.example.org]");
    world.settle();
    assert_eq!(world.names("front"), ["a.example.org"]);
    world.write(&tenant("provider: None"));
    world.ask("front", RULE);
    world.settle();
    assert_eq!(world.names("front"), [""; 0]);
    assert_eq!(world.names("yyy"), ["*"]);
}

#[test]
fn the_gateway_must_serve_http_at_ports_that_are_free() {
    let mut world = ready();
    world.ask("front", RULE);
    world.settle();
    let gateway = |http: &str| GATEWAY.replace(", http: {}", http);
    world.write(&gateway(""));
    let plan = world.settle();
    let said = "False: NotServed: EdgeGateway kedge-system/gw serves no HTTPLoadBalancers; set its spec.http";
    assert_eq!(world.told("front", "Accepted"), said);
    assert!(site_of(&plan, "front").is_none());
    assert_eq!(
        world.names("front"),
        ["front.store-014.lb.example.net"],
        "it keeps its name"
    );
    // Who has a port keeps it; a port that is shared is nobody's wish.
    world.offer(
        "tcp",
        "",
        "ports: [{name: p, port: 80}], endpoints: [{hostSelector: {}}]",
    );
    world.settle();
    world.write(GATEWAY);
    let plan = world.settle();
    let said = world.told("front", "Accepted");
    assert!(
        said.starts_with("False: PortInUse: TCP port 80: TCPLoadBalancer store-014/tcp has it"),
        "{said}"
    );
    assert!(site_of(&plan, "front").is_none());
    world.remove("kedge.dev", "TCPLoadBalancer", "tcp");
    world.settle();
    world.later(120);
    let plan = world.settle();
    assert!(
        site_of(&plan, "front").is_some(),
        "{}",
        world.told("front", "Accepted")
    );
    world.offer(
        "tcp",
        "",
        "ports: [{name: p, port: 443}], endpoints: [{hostSelector: {}}]",
    );
    world.settle();
    let said = world.said("tcp", "Accepted");
    assert!(
        said.starts_with("False: PortInUse: TCP port 443: HTTPLoadBalancers share it"),
        "{said}"
    );
    // Hosts come by TLS at that port: a site's TLS has no place there.
    world.write(&GATEWAY.replace("tunnel: {", "tunnel: {tlsPort: 443, "));
    world.certify("cert", &pair(&["front.store-014.lb.example.net"]));
    world.ask("front", &format!("tls: [{{secretRef: cert}}], {RULE}"));
    let plan = world.settle();
    let said = world.told("front", "Accepted");
    let wanted = "False: PortInUse: port 443 of EdgeGateway kedge-system/gw is its spec.tunnel.tlsPort as well; \
                  set another spec.http.tlsPort";
    assert_eq!(said, wanted);
    let site = site_of(&plan, "front").unwrap();
    assert_eq!(
        (
            site.http.map(u16::from),
            site.https,
            site.certificates.len()
        ),
        (Some(80), None, 0)
    );
}

#[test]
fn a_limit_counts_them_and_takes_nothing_back() {
    let mut world = ready();
    world.ask("one", RULE);
    world.settle();
    world.write(&tenant_of(NS, "domain: lb.example.net", "loadBalancers: 1"));
    world.ask("two", RULE);
    world.settle();
    assert_eq!(world.told("one", "Accepted"), "True: Accepted: ");
    assert_eq!(world.said("web", "Accepted"), "True: Accepted: ");
    let said = world.told("two", "Accepted");
    assert!(said.starts_with("False: QuotaExceeded: "), "{said}");
    world.write(&tenant_of(NS, "domain: lb.example.net", "loadBalancers: 3"));
    world.settle();
    assert_eq!(world.told("two", "Accepted"), "True: Accepted: ");
}
