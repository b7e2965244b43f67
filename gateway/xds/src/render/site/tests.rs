//! What is told of sites, and what is not.

mod refused;

use std::{collections::BTreeSet, net::IpAddr};

use envoy_types::pb::envoy::config::{
    endpoint::v3::ClusterLoadAssignment,
    listener::v3::Listener,
    route::v3::{
        RedirectAction, Route as Told, RouteConfiguration, VirtualHost,
        route::Action as Does,
        route_action::{ClusterNotFoundResponseCode, ClusterSpecifier},
        route_match::PathSpecifier,
    },
};
use kedge_control::{
    frontend::{ClientIp, Frontend, Offer, Pool, PoolMember, Protocol},
    site::{
        Action, Certificate, HeaderChange, Match, Mirror, PathChange, PathMatch, Rewrite, Route,
        RouteBackend, Site, ValueMatch,
    },
};
use prost::Message as _;
use rcgen::{CertificateParams, KeyPair};

use crate::{
    Kind,
    render::{Here, Life, Rendered, render},
    resource::Resource,
};

#[test]
fn a_plain_site_is_a_listener_its_routes_a_cluster_and_its_members() {
    let rendered = told(vec![site("one", "web.example")]);
    assert_eq!(
        names(&rendered.resources),
        [
            "cluster h/one/web",
            "endpoint h/one/web",
            "listener http/10.0.0.1:80",
            "route http/10.0.0.1:80",
        ]
    );
    let keys: BTreeSet<Kind> = rendered.sites[0]
        .keys
        .iter()
        .map(|(kind, _)| *kind)
        .collect();
    assert_eq!(keys, [Kind::Cluster, Kind::Listener, Kind::Route].into());
}

#[test]
fn a_member_that_is_left_is_none_of_a_sites() {
    let mut offer = offer(vec![site("one", "web.example")]);
    let mut left = offer.pools[0].members[0].clone();
    left.host = "left".to_owned();
    left.address = "198.18.0.2".parse().unwrap();
    left.draining = true;
    offer.pools[0].members.push(left);
    let lives = ["a", "left"].map(|host| (host.to_owned(), Life::Alive));
    let here = Here {
        lives: lives.into(),
        ..Here::default()
    };
    let rendered = render(&offer, &here);
    let endpoint = rendered
        .resources
        .iter()
        .find(|one| one.kind == Kind::Endpoint)
        .unwrap();
    let told = ClusterLoadAssignment::decode(&*endpoint.body.value).unwrap();
    assert_eq!(told.endpoints[0].lb_endpoints.len(), 1);
    assert_eq!(rendered.members.of_host(&here, "left"), []);
}

#[test]
fn tls_has_a_chain_and_a_secret_for_each_certificate_and_routes_for_each_tenant() {
    let sites = vec![
        secure(site("one", "a.example"), &["a.example"]),
        secure(site("one", "b.example"), &["b.example"]),
        secure(site("two", "c.example"), &["*.example"]),
    ];
    let rendered = told(sites);
    assert_eq!(
        names(&rendered.resources),
        [
            "cluster h/one/web",
            "cluster h/two/web",
            "endpoint h/one/web",
            "endpoint h/two/web",
            "listener http/10.0.0.1:80",
            "listener tls/10.0.0.1:443",
            "route http/10.0.0.1:80",
            "route tls/10.0.0.1:443/one",
            "route tls/10.0.0.1:443/two",
            "secret tls/10.0.0.1:443/one/a.example",
            "secret tls/10.0.0.1:443/one/b.example",
            "secret tls/10.0.0.1:443/two/c.example",
        ]
    );
    // A certificate for more is shown for what is served alone.
    assert_eq!(
        chains(&rendered),
        [vec!["a.example"], vec!["b.example"], vec!["c.example"],]
    );
    // Whoever asks for another name on such a connection is sent away.
    let hosts = routes(&rendered, "tls/10.0.0.1:443/two");
    assert_eq!(domains(&hosts), [vec!["c.example"], vec!["*"]]);
    assert_eq!(hosts[1].routes[0].action, Some(super::routes::answer(421)));
}

#[test]
fn a_certificate_that_takes_the_place_of_another_changes_nothing_else() {
    let [one, two] = [1, 2].map(|_| {
        let sites = vec![
            secure(site("one", "a.example"), &["a.example"]),
            secure(site("one", "b.example"), &["b.example"]),
        ];
        told(sites).resources
    });
    let differ = one.iter().zip(&two).filter(|(one, two)| one != two);
    let differ: Vec<Kind> = differ.map(|(one, _)| one.kind).collect();
    assert_eq!(differ, [Kind::Secret, Kind::Secret]);
    let secret = one.iter().find(|one| one.kind == Kind::Secret).unwrap();
    let shown = format!("{secret:?}");
    assert!(!shown.contains("KEY") && shown.len() < 200, "{shown}");
}

#[test]
fn what_is_passed_through_stays_beside_what_is_served() {
    let passed = |names: &[&str]| Frontend {
        name: "one/tls".to_owned(),
        tenant: "one".to_owned(),
        address: ADDRESS.parse().unwrap(),
        port: 443.try_into().unwrap(),
        protocol: Protocol::TlsPassthrough {
            server_names: names.iter().map(|name| (*name).to_owned()).collect(),
        },
        pool: "web".to_owned(),
        client_ip: ClientIp::Hidden,
        source_ranges: Vec::new(),
    };
    let rendered = |names: &[&str], sites: Vec<Site>| {
        let mut offer = offer(sites);
        offer.frontends = vec![passed(names)];
        let rendered = render(&offer, &Here::default());
        assert_eq!(rendered.refused, []);
        rendered
    };
    let site = secure(site("one", "a.example"), &["a.example"]);
    let beside = rendered(&["p.example"], vec![site.clone()]);
    // The chain without names is that of what is passed through, however many that is.
    assert_eq!(chains(&beside), [vec![], vec!["a.example"]]);
    let more = rendered(&["p.example", "q.example"], vec![site]);
    assert_eq!(listener(&beside), listener(&more));
    // What a wildcard would have keeps a chain of its own.
    let wild = secure(self::site("one", "*.example"), &["*.example"]);
    let wild = rendered(&["p.example", "q.else"], vec![wild]);
    assert_eq!(
        chains(&wild),
        [vec![], vec!["p.example"], vec!["*.example"]]
    );
    let any = secure(self::site("one", "*"), &["*", "a.else"]);
    let any = rendered(&["p.example"], vec![any]);
    assert_eq!(chains(&any), [vec!["p.example"], vec!["a.else"], vec![]]);
}

#[test]
fn sites_of_a_tenant_share_a_name_and_the_more_specific_decides() {
    let mut one = site("one", "web.example");
    one.routes = vec![to("/", "web"), to("/b", "web")];
    let mut two = site("one", "web.example");
    two.name = "one/more".to_owned();
    two.hosts.push("more.example".to_owned());
    two.routes = vec![to("/b/c", "web"), to("/b/c", "web")];
    two.routes[1].matches.path = PathMatch::Exact("/b/c".to_owned());
    let hosts = routes(&told(vec![one, two]), "http/10.0.0.1:80");
    assert_eq!(domains(&hosts), [vec!["more.example"], vec!["web.example"]]);
    let paths = |host: &VirtualHost| -> Vec<String> {
        let routes = host.routes.iter().skip(1);
        routes.map(path).collect()
    };
    assert_eq!(paths(&hosts[0]), ["= /b/c", "/b/c/"]);
    assert_eq!(paths(&hosts[1]), ["= /b/c", "/b/c/", "/b/", "/"]);
}

#[test]
fn names_that_serve_alike_are_told_together() {
    let mut site = site("one", "a.example");
    site.hosts.extend(["*.b.example", "*"].map(str::to_owned));
    site.routes.push(Route {
        hosts: vec!["*".to_owned()],
        ..to("/x", "web")
    });
    let hosts = routes(&told(vec![site]), "http/10.0.0.1:80");
    assert_eq!(
        domains(&hosts),
        [vec!["*"], vec!["*.b.example", "a.example"]]
    );
}

#[test]
fn a_plain_request_is_sent_to_tls_but_for_challenges() {
    let mut both = secure(site("one", "a.example"), &["a.example"]);
    both.hosts.push("b.example".to_owned());
    both.redirect = true;
    both.routes = vec![to("/app", "web"), to("/", "web")];
    let mut solver = site("one", "a.example");
    solver.name = "one/solver".to_owned();
    solver.routes = vec![to("/.well-known/acme-challenge/token", "web")];
    let hosts = routes(&told(vec![both, solver]), "http/10.0.0.1:80");
    let of = |name: &str| {
        let mut hosts = hosts.iter();
        hosts.find(|host| host.domains == [name]).unwrap()
    };
    let secured = of("a.example");
    let sent = secured.routes[1].r#match.as_ref().unwrap();
    assert!(sent.headers[0].invert_match);
    assert!(matches!(secured.routes[1].action, Some(Does::Redirect(_))));
    let rest: Vec<String> = secured.routes.iter().skip(2).map(path).collect();
    assert_eq!(rest, ["/.well-known/acme-challenge/token/", "/"]);
    let plain: Vec<String> = of("b.example").routes.iter().skip(1).map(path).collect();
    assert_eq!(plain, ["/app/", "/"], "there is no certificate for it");
}

#[test]
fn shares_go_to_pools_and_what_leads_nowhere_is_answered_with_500() {
    let leads = |backends: &[(&str, u32)]| {
        let mut site = site("one", "web.example");
        let backends = backends.iter().map(|(pool, weight)| RouteBackend {
            pool: (*pool).to_owned(),
            weight: *weight,
            ..RouteBackend::default()
        });
        site.routes = vec![forward(backends.collect(), Rewrite::default())];
        first(vec![site]).action.unwrap()
    };
    let nowhere = super::routes::answer(500);
    assert_eq!(leads(&[]), nowhere);
    assert_eq!(leads(&[("web", 0)]), nowhere);
    let Does::Route(one) = leads(&[("web", 3), ("more", 0)]) else {
        panic!()
    };
    let cluster = ClusterSpecifier::Cluster("h/one/web".to_owned());
    assert_eq!(one.cluster_specifier, Some(cluster));
    let Does::Route(two) = leads(&[("web", 3), ("gone", 1)]) else {
        panic!()
    };
    let Some(ClusterSpecifier::WeightedClusters(two)) = two.cluster_specifier else {
        panic!()
    };
    let shares = two
        .clusters
        .iter()
        .map(|one| (&*one.name, one.weight.unwrap().value));
    assert_eq!(shares.collect::<Vec<_>>(), [("h/one/web", 3), ("-", 1)]);
}

#[test]
fn calls_are_matched_as_such_and_nobody_answers_unavailable() {
    let leads = |backends: &[&str]| {
        let mut site = site("one", "web.example");
        let backends = backends.iter().map(|pool| RouteBackend {
            pool: (*pool).to_owned(),
            weight: 1,
            ..RouteBackend::default()
        });
        site.routes = vec![forward(backends.collect(), Rewrite::default())];
        site.routes[0].matches.grpc = true;
        first(vec![site])
    };
    let told = leads(&["web"]);
    let fits = told.r#match.unwrap();
    assert!(fits.grpc.is_some());
    assert_eq!(fits.headers[0].name, ":method");
    assert_eq!(leads(&[]).action, Some(super::routes::answer(503)));
    let Some(Does::Route(route)) = leads(&["web", "gone"]).action else {
        panic!()
    };
    let unavailable = ClusterNotFoundResponseCode::ServiceUnavailable;
    assert_eq!(route.cluster_not_found_response_code(), unavailable);
}

#[test]
fn copies_go_to_pools_that_are_there_and_one_backend_has_changes_of_its_own() {
    let mut site = site("one", "web.example");
    let backend = RouteBackend {
        pool: "web".to_owned(),
        weight: 1,
        request_headers: HeaderChange {
            remove: vec!["x-gone".to_owned()],
            ..HeaderChange::default()
        },
        ..RouteBackend::default()
    };
    let mut route = forward(vec![backend], Rewrite::default());
    if let Action::Forward { mirrors, .. } = &mut route.action {
        let copy = |pool: &str, millionths| Mirror {
            pool: pool.to_owned(),
            millionths,
        };
        *mirrors = vec![copy("more", 250_000), copy("gone", 1), copy("web", 0)];
    }
    site.routes = vec![route];
    let rendered = told(vec![site.clone()]);
    assert!(names(&rendered.resources).contains(&"cluster h/one/more".to_owned()));
    let Some(Does::Route(route)) = first(vec![site]).action else {
        panic!()
    };
    let copies: Vec<_> = route
        .request_mirror_policies
        .iter()
        .map(|it| {
            let share = it.runtime_fraction.as_ref().unwrap().default_value.unwrap();
            (&*it.cluster, share.numerator)
        })
        .collect();
    assert_eq!(copies, [("h/one/more", 250_000)]);
    let Some(ClusterSpecifier::WeightedClusters(to)) = route.cluster_specifier else {
        panic!()
    };
    assert_eq!(to.clusters[0].request_headers_to_remove, ["x-gone"]);
}

#[test]
fn a_prefix_is_changed_by_its_elements() {
    for (matched, to, prefix, regex) in [
        ("/a", "/x", "/x", ""),
        ("/a/", "/x/", "/x", ""),
        ("/a", "/", "", r"^\/a/*"),
        ("/a.b", "", "", r"^\/a\.b/*"),
        ("/", "/x", "/x/", ""),
        ("/", "/", "", ""),
    ] {
        let rewrite = Rewrite {
            path: Some(PathChange::Prefix(to.to_owned())),
            host: None,
        };
        let mut site = site("one", "web.example");
        let backend = RouteBackend {
            pool: "web".to_owned(),
            weight: 1,
            ..RouteBackend::default()
        };
        site.routes = vec![forward(vec![backend], rewrite)];
        site.routes[0].matches.path = PathMatch::Prefix(matched.to_owned());
        let Some(Does::Route(route)) = first(vec![site]).action else {
            panic!()
        };
        assert_eq!(route.prefix_rewrite, prefix, "{matched} {to}");
        let by = route.regex_rewrite.map(|by| by.pattern.unwrap().regex);
        assert_eq!(by.unwrap_or_default(), regex, "{matched} {to}");
    }
}

#[test]
fn another_host_does_not_forget_the_port() {
    let redirect = |scheme: Option<&str>, port: Option<u16>, at: u16| -> RedirectAction {
        let mut site = site("one", "web.example");
        site.http = Some(at.try_into().unwrap());
        site.routes[0].action = Action::Redirect {
            scheme: scheme.map(str::to_owned),
            host: Some("other.example".to_owned()),
            port: port.map(|port| port.try_into().unwrap()),
            path: None,
            status: 302,
        };
        match first(vec![site]).action {
            Some(Does::Redirect(redirect)) => redirect,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(redirect(None, None, 80).port_redirect, 0);
    assert_eq!(redirect(None, None, 8080).port_redirect, 8080);
    assert_eq!(redirect(Some("https"), None, 8080).port_redirect, 0);
    assert_eq!(redirect(None, Some(1), 8080).port_redirect, 1);
}

#[test]
fn what_stands_in_a_headers_value_is_told_as_it_is() {
    let mut site = site("one", "web.example");
    site.routes[0].request_headers = HeaderChange {
        set: [("x-a".to_owned(), "100%".to_owned())].into(),
        add: [("x-b".to_owned(), String::new())].into(),
        remove: vec!["x-c".to_owned()],
    };
    let route = first(vec![site]);
    let added = &route.request_headers_to_add;
    assert_eq!(added[0].header.as_ref().unwrap().value, "100%%");
    assert!(added[1].keep_empty_value);
    assert_eq!(route.request_headers_to_remove, ["x-c"]);
}

#[test]
fn a_header_is_matched_whatever_it_is_called_on_the_wire() {
    let mut site = site("one", "web.example");
    let value = ValueMatch::Exact("v".to_owned());
    site.routes[0].matches = Match {
        method: Some("GET".to_owned()),
        headers: [
            ("host".to_owned(), value.clone()),
            ("x-a".to_owned(), value),
        ]
        .into(),
        ..Match::default()
    };
    let matches = first(vec![site]).r#match.unwrap();
    let names: Vec<&str> = matches.headers.iter().map(|one| &*one.name).collect();
    assert_eq!(names, [":method", ":authority", "x-a"]);
}

fn told(sites: Vec<Site>) -> Rendered {
    let rendered = render(&offer(sites), &Here::default());
    assert_eq!(rendered.refused, []);
    rendered
}

fn offer(sites: Vec<Site>) -> Offer {
    let pool = |tenant: &str, name: &str| Pool {
        name: name.to_owned(),
        tenant: tenant.to_owned(),
        members: vec![PoolMember {
            host: "a".to_owned(),
            address: "198.18.0.1".parse().unwrap(),
            port: 80.try_into().unwrap(),
            weight: 1,
            draining: false,
        }],
        ..Pool::default()
    };
    Offer {
        sites,
        pools: vec![pool("one", "web"), pool("one", "more"), pool("two", "web")],
        ..Offer::default()
    }
}

fn site(tenant: &str, host: &str) -> Site {
    Site {
        name: format!("{tenant}/{host}"),
        tenant: tenant.to_owned(),
        address: ADDRESS.parse::<IpAddr>().unwrap(),
        http: Some(80.try_into().unwrap()),
        https: None,
        hosts: vec![host.to_owned()],
        certificates: Vec::new(),
        redirect: false,
        routes: vec![to("/", "web")],
    }
}

fn secure(site: Site, hosts: &[&str]) -> Site {
    Site {
        https: Some(443.try_into().unwrap()),
        certificates: vec![certificate(hosts, &KeyPair::generate().unwrap())],
        ..site
    }
}

fn certificate(hosts: &[&str], key: &KeyPair) -> Certificate {
    let params = CertificateParams::new(vec!["web.example".to_owned()]).unwrap();
    Certificate {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        chain: params.self_signed(key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

fn to(path: &str, pool: &str) -> Route {
    let backend = RouteBackend {
        pool: pool.to_owned(),
        weight: 1,
        ..RouteBackend::default()
    };
    Route {
        matches: Match {
            path: PathMatch::Prefix(path.to_owned()),
            ..Match::default()
        },
        ..forward(vec![backend], Rewrite::default())
    }
}

fn forward(backends: Vec<RouteBackend>, rewrite: Rewrite) -> Route {
    Route {
        hosts: Vec::new(),
        matches: Match::default(),
        action: Action::Forward {
            backends,
            rewrite,
            timeout_milliseconds: 0,
            backend_timeout_milliseconds: 0,
            retries: 0,
            mirrors: Vec::new(),
        },
        request_headers: HeaderChange::default(),
        response_headers: HeaderChange::default(),
        cors: None,
    }
}

fn names(resources: &[Resource]) -> Vec<String> {
    let names = resources
        .iter()
        .map(|one| format!("{} {}", one.kind.as_str(), one.name));
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

fn routes(rendered: &Rendered, name: &str) -> Vec<VirtualHost> {
    let mut resources = rendered.resources.iter();
    let of = |one: &&Resource| one.kind == Kind::Route && *one.name == *name;
    let told = resources.find(of).unwrap();
    RouteConfiguration::decode(&*told.body.value)
        .unwrap()
        .virtual_hosts
}

/// The first route of a site's own.
fn first(sites: Vec<Site>) -> Told {
    let rendered = told(sites);
    let mut resources = rendered.resources.iter();
    let of = |one: &&Resource| one.kind == Kind::Route;
    let told = resources.find(of).unwrap();
    let told = RouteConfiguration::decode(&*told.body.value).unwrap();
    told.virtual_hosts[0].routes[1].clone()
}

fn domains(hosts: &[VirtualHost]) -> Vec<Vec<&str>> {
    let domains = hosts.iter().map(|host| &host.domains);
    domains
        .map(|names| names.iter().map(String::as_str).collect())
        .collect()
}

/// A path as people write it: `=` for all of it, `/` at the end for its elements.
fn path(route: &Told) -> String {
    match route
        .r#match
        .as_ref()
        .unwrap()
        .path_specifier
        .as_ref()
        .unwrap()
    {
        PathSpecifier::Path(path) => format!("= {path}"),
        PathSpecifier::PathSeparatedPrefix(path) => format!("{path}/"),
        PathSpecifier::Prefix(path) => path.clone(),
        other => panic!("{other:?}"),
    }
}

fn listener(rendered: &Rendered) -> Listener {
    let mut resources = rendered.resources.iter();
    let of = |one: &&Resource| one.kind == Kind::Listener && one.name.starts_with("tls/");
    Listener::decode(&*resources.find(of).unwrap().body.value).unwrap()
}

/// The names of the chains of TLS.
fn chains(rendered: &Rendered) -> Vec<Vec<String>> {
    let chains = listener(rendered).filter_chains.into_iter();
    chains
        .map(|chain| chain.filter_chain_match.unwrap().server_names)
        .collect()
}

const ADDRESS: &str = "10.0.0.1";
