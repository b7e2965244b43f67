//! TLS of HTTPLoadBalancers: which certificate is shown, what is passed through, and what is told.

use kedge_control::frontend::Protocol;

use super::{http::*, world::*};
use crate::{
    certificates::{Found, Pair},
    store::{Name, ObjectKey},
};

const HOST: &str = "shop.example.com";

fn asking(tls: &str) -> World {
    let mut world = ready();
    world.ask(
        "front",
        &format!("hostnames: [{HOST}], httpsRedirect: true, tls: [{tls}], {RULE}"),
    );
    world
}

/// Whether TLS is there for each of its names, in their order.
fn tls(world: &World) -> Vec<&'static str> {
    let hostnames = world.http("front").status.hostnames;
    hostnames.iter().map(|it| it.tls.as_str()).collect()
}

#[test]
fn a_certificate_is_shown_for_the_names_it_carries() {
    let mut world = asking("{secretRef: cert}");
    let plan = world.settle();
    let site = site_of(&plan, "front").unwrap();
    assert_eq!((site.https, site.redirect), (None, false));
    let missing = "False: SecretMissing: there is no Secret cert";
    assert_eq!(world.told("front", "CertificateReady"), missing);
    assert_eq!(tls(&world), ["Unknown", "False"]);
    let whole = pair(&["*.example.com", "front.store-014.lb.example.net"]);
    world.certify("cert", &whole);
    let plan = world.settle();
    let site = site_of(&plan, "front").unwrap();
    assert_eq!(
        (site.https.map(u16::from), site.redirect),
        (Some(443), true)
    );
    assert_eq!(
        site.certificates[0].hosts,
        [HOST, "front.store-014.lb.example.net"]
    );
    assert_eq!(
        (&site.certificates[0].chain, &site.certificates[0].key),
        (&whole.chain, &whole.key)
    );
    let valid = "True: Valid: valid until 2027-01-01T00:00:00Z";
    assert_eq!(world.told("front", "CertificateReady"), valid);
    assert_eq!(tls(&world), ["True", "True"]);
    let ports = &world.http("front").status.ingress[0].ports;
    assert_eq!(
        ports.iter().map(|it| it.port.get()).collect::<Vec<_>>(),
        [80, 443]
    );
    // One that does not carry the generated name is not wrong for it.
    let renewed = pair(&[HOST]);
    world.certify("cert", &renewed);
    let plan = world.settle();
    let site = site_of(&plan, "front").unwrap();
    assert_eq!(site.certificates[0].hosts, [HOST]);
    assert_eq!(site.certificates[0].key, renewed.key);
    assert_eq!(world.told("front", "CertificateReady"), valid);
    assert_eq!(tls(&world), ["Unknown", "True"]);
}

#[test]
fn a_certificate_is_shown_to_whoever_comes_where_the_tenant_may_have_every_name() {
    let mut world = asking("{hosts: [shop.example.com, '*'], secretRef: cert}");
    world.certify("cert", &pair(&[HOST]));
    let plan = world.settle();
    let site = site_of(&plan, "front").unwrap();
    assert_eq!(site.certificates[0].hosts, [HOST]);
    assert!(site_of(&plan, "front/*").is_none(), "it may not have them");
    assert_eq!(served(&plan).sites.len(), 1);

    world.write(&tenant("allowedHostnames: ['*']"));
    let plan = world.settle();
    let rest = site_of(&plan, "front/*").unwrap();
    assert_eq!((rest.http, rest.https.map(u16::from)), (None, Some(443)));
    assert_eq!(
        (&rest.hosts[..], &rest.routes[..]),
        (&["*".to_owned()][..], &[][..])
    );
    assert_eq!(rest.certificates[0].hosts, ["*"]);
    let said = world.told("front", "CertificateReady");
    assert!(said.starts_with("True: Valid: "), "{said}");

    // Where it has every name itself, it is its own certificate's.
    world.ask(
        "front",
        &format!("tls: [{{hosts: ['*'], secretRef: cert}}], {RULE}"),
    );
    let plan = world.settle();
    let site = site_of(&plan, "front").unwrap();
    assert_eq!(
        (&site.hosts[..], &site.certificates[0].hosts[..]),
        (&["*".to_owned()][..], &["*".to_owned()][..])
    );
    assert!(site_of(&plan, "front/*").is_none());

    // An entry without names is for all of them.
    world.ask("front", &format!("tls: [{{secretRef: cert}}], {RULE}"));
    let plan = world.settle();
    let site = site_of(&plan, "front").unwrap();
    assert_eq!(site.certificates[0].hosts, ["*"]);
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_and_its_key_never_is() {
    let good = pair(&[HOST]);
    let with = |chain: &str, key: &str| Pair::new(chain.to_owned(), key.to_owned());
    for (pair, said, is_shown) in [
        (
            pair(&["other.example.com"]),
            "NameMismatch: the certificate in Secret cert is not for shop.example.com",
            false,
        ),
        (
            with(&good.chain, &pair(&[HOST]).key),
            "KeyMismatch: ",
            false,
        ),
        (
            with("", &good.key),
            "Invalid: Secret cert: tls.crt holds no certificate",
            false,
        ),
        (with(&good.key, &good.key), "Invalid: ", false),
        (
            with(&good.chain, "x"),
            "Invalid: Secret cert: tls.key is no private key in PEM",
            false,
        ),
    ] {
        let mut world = asking("{secretRef: cert}");
        world.certify("cert", &pair);
        let plan = world.settle();
        let ready = world.told("front", "CertificateReady");
        assert!(ready.starts_with(&format!("False: {said}")), "{ready}");
        let site = site_of(&plan, "front").unwrap();
        assert_eq!(!site.certificates.is_empty(), is_shown, "{said}");
        assert!(world.told("front", "Ready").starts_with("False"));
        let key = pair.key.lines().nth(1).unwrap_or("-----BEGIN");
        for (of, layers) in &world.objects.by_key {
            let written = format!("{:?} {:?} {:?}", layers.owned, layers.status, layers.marks);
            assert!(!written.contains(key), "{of}");
        }
        assert!(!format!("{plan:?}").contains(key));
        assert!(!format!("{:?}", plan.load_balancers).contains("BEGIN"));
    }
    let mut world = asking("{issuer: letsencrypt}");
    world.settle();
    let ready = world.told("front", "CertificateReady");
    assert!(
        ready.starts_with("False: IssuerNotAllowed: Tenant "),
        "{ready}"
    );
}

#[test]
fn a_certificate_that_ends_is_told_of_when_it_does_and_shown_on() {
    let mut world = asking("{secretRef: cert}");
    world.certify("cert", &pair(&[HOST]));
    let plan = world.settle();
    assert_eq!(
        plan.wake.earliest().unwrap().to_string(),
        "2027-01-01T00:00:00Z"
    );
    world.later(365 * 86_400);
    let plan = world.settle();
    let said = "False: Expired: the certificate in Secret cert ended at 2027-01-01T00:00:00Z";
    assert_eq!(world.told("front", "CertificateReady"), said);
    assert_eq!(site_of(&plan, "front").unwrap().certificates.len(), 1);
}

#[test]
fn tls_is_passed_through_to_the_one_backend_of_its_name() {
    let mut world = asking("{passthrough: true}");
    let plan = world.settle();
    let offer = served(&plan);
    let frontend = &offer.frontends[0];
    assert_eq!(frontend.name, format!("store-014/front/{HOST}"));
    assert_eq!(frontend.port.get(), 443);
    assert_eq!(frontend.pool, "store-014/web/http");
    let server_names = vec![HOST.to_owned()];
    assert_eq!(frontend.protocol, Protocol::TlsPassthrough { server_names });
    let said = world.told("front", "CertificateReady");
    assert!(said.starts_with("True: Passthrough: "), "{said}");
    // Plain requests are sent to where TLS is, and none to the backend.
    let site = site_of(&plan, "front").unwrap();
    assert_eq!(site.hosts, ["front.store-014.lb.example.net", HOST]);
    let to: Vec<_> = site
        .routes
        .iter()
        .map(|route| route.hosts.clone())
        .collect();
    assert_eq!(
        to,
        [
            vec!["front.store-014.lb.example.net".to_owned()],
            vec![HOST.to_owned()]
        ]
    );
    // Who ends TLS at the gateway for a name that is passed through is told.
    world.certify("cert", &pair(&[HOST]));
    world.ask(
        "other",
        &format!("hostnames: [{HOST}], tls: [{{secretRef: cert}}], {RULE}"),
    );
    let plan = world.settle();
    let said = world.told("other", "CertificateReady");
    assert!(
        said.starts_with("False: Conflict: TLS for shop.example.com ends in two ways"),
        "{said}"
    );
    assert!(site_of(&plan, "other").unwrap().certificates.is_empty());
    assert_eq!(served(&plan).frontends.len(), 1);
    for rules in [
        "rules: []",
        "rules: [{backends: [{name: web, port: 80}], paths: [{path: /a}]}]",
        "rules: [{backends: [{name: web, port: 80, requestHeaders: {remove: [a]}}]}]",
        "rules: [{redirect: {}}]",
    ] {
        let tls = "tls: [{passthrough: true}]";
        world.ask("front", &format!("hostnames: [{HOST}], {tls}, {rules}"));
        world.settle();
        let said = world.told("front", "Accepted");
        assert!(
            said.starts_with("False: Invalid: spec.tls[0].passthrough: "),
            "{rules}: {said}"
        );
    }
}

#[test]
fn several_backends_share_what_is_passed_through() {
    let mut world = ready();
    let routed =
        "exposure: Routed, ports: [{name: tls, port: 443}], endpoints: [{hostSelector: {}}]";
    world.offer("api", "", routed);
    world.offer(
        "told",
        "",
        "ports: [{name: tls, port: 8443}], proxyProtocol: V2, endpoints: [{hostSelector: {}}]",
    );
    let mut ask = |backends: &str| {
        let rules = format!("rules: [{{backends: [{backends}]}}]");
        let tls = "tls: [{passthrough: true}]";
        world.ask("front", &format!("hostnames: [{HOST}], {tls}, {rules}"));
        let offer = served(&world.settle());
        let led = offer.frontends[0].pool.clone();
        let pool = offer.pools.iter().find(|it| it.name == led).unwrap();
        let all = pool.members.iter().map(|it| (it.port.get(), it.weight));
        let said = world.told("front", "ResolvedRefs");
        (led, all.collect::<Vec<_>>(), said)
    };
    let shared = format!("store-014/front/{HOST}");
    let fine = "True: ResolvedRefs: ";
    let (pool, members, said) =
        ask("{name: web, port: 80, weight: 1}, {name: api, port: 443, weight: 3}");
    assert_eq!((&*pool, &*said), (&*shared, fine));
    let half = members.len() / 2;
    assert!(half > 0);
    assert!(
        members[..half]
            .iter()
            .all(|(port, weight)| *port != 443 && *weight == 43)
    );
    assert!(members[half..].iter().all(|member| *member == (443, 128)));
    // One that has all of it is led to as if it were alone.
    let (pool, ..) = ask("{name: web, port: 80}, {name: api, port: 443, weight: 0}");
    assert_eq!(pool, "store-014/web/http");
    // The first bytes are the same for all.
    let (pool, _, said) = ask("{name: api, port: 443}, {name: told, port: 8443}");
    assert_eq!(pool, "store-014/api/tls");
    assert!(
        said.starts_with("False: BackendNotFound: TCPLoadBalancer told has another"),
        "{said}"
    );
}

#[test]
fn a_name_that_is_passed_through_to_nobody_is_no_wildcards() {
    let mut world = ready();
    let rules = "rules: [{backends: [{name: gone, port: 80}]}]";
    world.ask(
        "front",
        &format!("hostnames: [{HOST}], tls: [{{hosts: [{HOST}], passthrough: true}}], {rules}"),
    );
    let plan = world.settle();
    let offer = served(&plan);
    let [frontend] = &offer.frontends[..] else {
        panic!("{:?}", offer.frontends);
    };
    let of = (&frontend.tenant, &frontend.pool);
    let pool = offer
        .pools
        .iter()
        .find(|pool| (&pool.tenant, &pool.name) == of);
    assert_eq!(pool.unwrap().members, []);
    let said = world.told("front", "ResolvedRefs");
    assert!(said.contains("there is no TCPLoadBalancer gone"), "{said}");
}

#[test]
fn a_secret_of_an_api_server_is_asked_for_by_its_name() {
    let mut world = asking("{secretRef: cert}").on_kubernetes();
    let plan = world.settle();
    let name = Name::new(NS, "cert");
    assert!(plan.is_unread);
    assert_eq!(plan.certificates.iter().collect::<Vec<_>>(), [&name]);
    assert!(
        world
            .told("front", "CertificateReady")
            .starts_with("Unknown: NotRead: ")
    );
    let rule = "{verbs: [get]}".to_owned();
    world
        .certificates
        .insert(name.clone(), Found::Forbidden(rule));
    let plan = world.settle();
    assert!(!plan.is_unread);
    let said = world.told("front", "CertificateReady");
    assert!(
        said.starts_with("False: Forbidden: ") && said.contains("{verbs: [get]}"),
        "{said}"
    );
    world.certificates.insert(name, Found::Pair(pair(&[HOST])));
    let plan = world.settle();
    assert_eq!(site_of(&plan, "front").unwrap().certificates.len(), 1);
    let key = ObjectKey::new("", "Secret", Name::new(NS, "cert"));
    assert!(
        world.objects.get(&key).is_none(),
        "it is no object of the store"
    );
}
