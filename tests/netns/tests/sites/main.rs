//! HTTP that is served by the real Envoy.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod calls;
mod chance;
mod cors;
mod many;
mod offered;

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Instant,
};

use kedge_control::{
    frontend::{Frontend, Protocol},
    site::{Action, Certificate, HeaderChange, PathChange, PathMatch, Site, ValueMatch},
};
use kedge_gateway_xds::{Here, Kind, Life, delta::Outcome, render};
use kedge_tests_netns::{
    answers::{Answers, ask},
    browser::{Answer, Browser},
    eventually, secs, web,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::envoy::{dice, dice::Dice, site};
use offered::{HTTP, HTTPS, WEB, WEB_TWO, offer, rewritten, route, secure, site};
use site::{Site as Lab, hello, number, tcp};

/// The lab, with backends that speak HTTP.
fn lab() -> Option<Lab> {
    let lab = Lab::new()?;
    web::serve(&lab.a, WEB, "a", false);
    web::serve(&lab.b, WEB, "b", false);
    web::serve(&lab.a, WEB_TWO, "two", true);
    Some(lab)
}

fn browser<'a>(lab: &'a Lab, certificates: &[Certificate]) -> Browser<'a> {
    let mut browser = Browser::new(&lab.client, lab.address());
    for certificate in certificates {
        browser.trust(CertificateDer::from_pem_slice(certificate.chain.as_bytes()).unwrap());
    }
    browser
}

#[test]
fn names_paths_methods_and_headers_lead_to_their_pools() {
    let Some(lab) = lab() else { return };
    let mut exact = route("/", &[("b", 1)]);
    exact.matches.path = PathMatch::Exact("/api/me".to_owned());
    let mut posted = route("/api", &[("b", 1)]);
    posted.matches.method = Some("POST".to_owned());
    let mut canary = route("/", &[("b", 1)]);
    let value = ValueMatch::Regex("ye[st]+".to_owned());
    canary.matches.headers.insert("x-canary".to_owned(), value);
    let mut asked = route("/", &[("b", 1)]);
    let value = ValueMatch::Exact("b".to_owned());
    asked.matches.query.insert("to".to_owned(), value);
    let split = route("/split", &[("a", 3), ("b", 1)]);
    let gone = route("/gone", &[("nobody", 1)]);
    let off = route("/off", &[("a", 0)]);
    let routes = vec![
        route("/", &[("a", 1)]),
        exact,
        posted,
        canary,
        asked,
        split,
        gone,
        off,
    ];
    let sites = vec![
        site(&lab, "one", &["a.example", "*.wild.example"], routes),
        site(
            &lab,
            "two",
            &["b.example"],
            vec![route("/only", &[("b", 1)])],
        ),
    ];
    lab.declare(&offer(&lab, sites), &lab.alive());
    let _envoy = lab.envoy();
    let browser = browser(&lab, &[]);
    let asked = |host: &str, what: &str, headers: &str| browser.plain(HTTP, host, what, headers);
    eventually("the first is served", secs(5), || {
        asked("a.example", "GET /", "").is_some_and(|answer| answer.status == 200)
    });
    for (host, what, headers, name) in [
        ("a.example", "GET /", "", "a"),
        ("A.Example:8080", "GET /", "", "a"),
        ("a.example.", "GET /", "", "a"),
        ("x.y.wild.example", "GET /", "", "a"),
        ("a.example", "GET /api/me", "", "b"),
        ("a.example", "GET /api/me/", "", "a"),
        ("a.example", "GET /api", "", "a"),
        ("a.example", "POST /api", "Content-Length: 0\r\n", "b"),
        ("a.example", "POST /apis", "Content-Length: 0\r\n", "a"),
        ("a.example", "GET /", "X-Canary: yes\r\n", "b"),
        ("a.example", "GET /", "X-Canary: yesno\r\n", "a"),
        ("a.example", "GET /?to=b", "", "b"),
        ("a.example", "GET /x/../api/me", "", "b"),
        ("b.example", "GET /only/b", "", "b"),
    ] {
        let answer = asked(host, what, headers).unwrap();
        assert_eq!(
            (answer.status, answer.name()),
            (200, name),
            "{host} {what} {headers}"
        );
    }
    for (host, what, status) in [
        ("b.example", "GET /", 404),
        ("else.example", "GET /", 404),
        ("a.example", "GET /gone", 500),
        ("a.example", "GET /off", 500),
        ("b.example", "GET /only/..%2fadmin", 400),
        ("b.example", "GET /only%2f..%2fadmin", 400),
        ("b.example", "GET /only/%2e%2E%5cadmin", 400),
        ("b.example", "GET /only/..;/admin", 404),
        ("b.example", "GET /only/a%2fb..c", 200),
        ("b.example", "GET /only/?next=..%2fb", 200),
    ] {
        let answer = asked(host, what, "").unwrap();
        assert_eq!(answer.status, status, "{host} {what}");
    }
    let count = |name: &str, answers: &[Answer]| {
        answers
            .iter()
            .filter(|answer| answer.name() == name)
            .count()
    };
    let all: Vec<Answer> = (0..200)
        .map(|_| asked("a.example", "GET /split", "").unwrap())
        .collect();
    let b = count("b", &all);
    assert_eq!(count("a", &all) + b, 200);
    // A quarter, within five standard deviations.
    assert!((20..=80).contains(&b), "{b} of 200");
}

#[test]
fn requests_and_answers_are_changed_on_the_way() {
    let Some(lab) = lab() else { return };
    let to = |path: &str| PathChange::Prefix(path.to_owned());
    let full = PathChange::Full("/all".to_owned());
    let mut headers = route("/headers", &[("a", 1)]);
    headers.request_headers = HeaderChange {
        set: [("x-set".to_owned(), "100%".to_owned())].into(),
        add: [("x-add".to_owned(), "more".to_owned())].into(),
        remove: vec!["x-gone".to_owned()],
    };
    headers.response_headers = HeaderChange {
        set: [("server".to_owned(), "ours".to_owned())].into(),
        add: BTreeMap::new(),
        remove: vec!["x-secret".to_owned()],
    };
    let mut sent = route("/sent", &[]);
    sent.action = Action::Redirect {
        scheme: None,
        host: Some("b.example".to_owned()),
        port: None,
        path: Some(to("/there")),
        status: 302,
    };
    let mut answered = route("/teapot", &[]);
    answered.action = Action::Answer { status: 418 };
    let routes = vec![
        rewritten("/cut", "a", None, to("/")),
        rewritten("/moved", "a", Some("inside.example"), to("/x/")),
        rewritten("/full", "a", None, full),
        headers,
        sent,
        answered,
    ];
    let sites = vec![
        site(&lab, "one", &["a.example"], routes),
        site(
            &lab,
            "one",
            &["c.example"],
            vec![rewritten("/", "a", None, to("/root"))],
        ),
    ];
    lab.declare(&offer(&lab, sites), &lab.alive());
    let _envoy = lab.envoy();
    let browser = browser(&lab, &[]);
    let asked = |host: &str, what: &str, headers: &str| browser.plain(HTTP, host, what, headers);
    eventually("it is served", secs(5), || {
        asked("a.example", "GET /cut", "").is_some_and(|answer| answer.status == 200)
    });
    for (host, what, path) in [
        ("a.example", "GET /cut", "/"),
        ("a.example", "GET /cut/", "/"),
        ("a.example", "GET /cut/b?q=/cut", "/b?q=/cut"),
        ("a.example", "GET /moved", "/x"),
        ("a.example", "GET /moved/b", "/x/b"),
        ("a.example", "GET /full/b?q=1", "/all?q=1"),
        ("c.example", "GET /b", "/root/b"),
    ] {
        let answer = asked(host, what, "").unwrap();
        assert_eq!(answer.said["path"], path, "{host} {what}");
    }
    let moved = asked("a.example", "GET /moved", "").unwrap();
    assert_eq!(moved.said["headers"]["host"], "inside.example");
    let sneaky = "X-Gone: 1\r\nX-Set: 1\r\nX-Add: one\r\nX_Add: 1\r\nX-Forwarded-For: 192.0.2.1\r\n\
                  X-Envoy-Retry-On: 5xx\r\n";
    let answer = asked("a.example", "GET /headers", sneaky).unwrap();
    let heard = &answer.said["headers"];
    assert_eq!(heard["x-set"], "100%");
    assert_eq!(heard["x-add"], "more", "the last of two");
    assert_eq!(heard["host"], "a.example");
    assert_eq!(heard["x-forwarded-proto"], "http");
    let client = lab.client.address();
    assert_eq!(heard["x-forwarded-for"], format!("192.0.2.1,{client}"));
    for gone in ["x-gone", "x_add", "x-envoy-retry-on"] {
        assert!(heard.get(gone).is_none(), "{heard}");
    }
    assert_eq!(answer.headers["server"], "ours");
    assert!(!answer.headers.contains_key("x-secret"));
    assert!(!answer.headers.contains_key("x-envoy-upstream-service-time"));
    let sent = asked("a.example:8080", "GET /sent/b?q=1", "").unwrap();
    assert_eq!(
        (sent.status, sent.location()),
        (302, "http://b.example:8080/there/b?q=1")
    );
    assert_eq!(asked("a.example", "GET /teapot", "").unwrap().status, 418);
}

#[test]
fn certificates_are_shown_by_name_beside_what_is_passed_through() {
    let Some(lab) = lab() else { return };
    let one = secure(site(
        &lab,
        "one",
        &["a.example", "c.example"],
        vec![route("/", &[("a", 1)])],
    ));
    let mut two = secure(site(
        &lab,
        "two",
        &["b.example"],
        vec![route("/", &[("b", 1)])],
    ));
    two.redirect = true;
    let mut offered = offer(&lab, vec![one.clone()]);
    offered.frontends.push(Frontend {
        name: "tenant/passed".to_owned(),
        protocol: Protocol::TlsPassthrough {
            server_names: vec!["passed.example".to_owned()],
        },
        address: lab.address(),
        ..tcp("passed", HTTPS)
    });
    let words = hello("passed.example");
    let _ = Answers::start(&lab.a, PASSED, "passed", words.len());
    let mut pool = lab.pool("passed");
    pool.members.truncate(1);
    pool.members[0].port = number(PASSED);
    offered.pools.push(pool);
    lab.declare(&offered, &lab.alive());
    let envoy = lab.envoy();
    let everybody: Vec<Certificate> = [&one, &two]
        .iter()
        .flat_map(|site| site.certificates.clone())
        .collect();
    let browser = browser(&lab, &everybody);
    let asked = |sni: &str, host: &str| browser.tls(HTTPS, sni, host, "GET /");
    let name = |sni: &str| asked(sni, sni).map(|answer| answer.name().to_owned());
    eventually("the first is served", secs(5), || {
        name("a.example").as_deref() == Some("a")
    });
    assert_eq!(name("c.example").as_deref(), Some("a"));
    assert_eq!(
        asked("a.example", "a.example").unwrap().said["headers"]["x-forwarded-proto"],
        "https"
    );
    let passed = || ask(&lab.client, lab.address(), HTTPS, &words);
    let mut open = passed().unwrap();
    assert_eq!(open.name, "passed");
    assert!(open.lives());
    assert_eq!(name("b.example"), None, "nobody has it yet");

    // Another tenant comes: what is open stays, and each name shows its own certificate.
    offered.sites.push(two.clone());
    lab.declare(&offered, &lab.alive());
    eventually("the second is served", secs(5), || {
        name("b.example").as_deref() == Some("b")
    });
    assert!(
        open.lives(),
        "a connection that is passed through was closed"
    );
    assert_eq!(name("a.example").as_deref(), Some("a"));
    assert_eq!(browser.protocol(HTTPS, "b.example").as_deref(), Some("h2"));
    // Nobody gets another's site by asking for it on a connection of his own.
    assert_eq!(asked("a.example", "b.example").unwrap().status, 421);
    assert_eq!(asked("a.example", "c.example").unwrap().status, 200);
    // Plain requests are sent to TLS, where that is wanted, but for challenges.
    let plain = |host: &str, what: &str| browser.plain(HTTP, host, what, "").unwrap();
    let sent = plain("b.example:8080", "POST /x?q=1");
    assert_eq!(
        (sent.status, sent.location()),
        (308, "https://b.example:8443/x?q=1")
    );
    let challenge = plain("b.example", "GET /.well-known/acme-challenge/t");
    assert_eq!((challenge.status, challenge.name()), (200, "b"));
    assert_eq!(plain("a.example", "GET /").status, 200);

    // A certificate that takes the place of another is shown at once, and no listener changes.
    let before = offered.sites[1].certificates[0].chain.clone();
    offered.sites[1] = secure(Site {
        certificates: Vec::new(),
        ..two
    });
    assert_ne!(offered.sites[1].certificates[0].chain, before);
    let mut anew = self::browser(&lab, &offered.sites[1].certificates);
    lab.declare(&offered, &lab.alive());
    eventually("another certificate is shown", secs(5), || {
        anew.tls(HTTPS, "b.example", "b.example", "GET /").is_some()
    });
    assert_eq!(name("b.example"), None, "the old one is not shown any more");
    anew.trust(CertificateDer::from_pem_slice(one.certificates[0].chain.as_bytes()).unwrap());
    let stats = envoy
        .ask("/stats?filter=listener_manager.listener_(modified|in_place_updated)")
        .unwrap();
    assert!(stats.contains("listener_modified: 1"), "{stats}");
    assert!(stats.contains("listener_in_place_updated: 1"), "{stats}");
    assert!(open.lives());

    // Envoy is started anew, and is told everything.
    envoy.kill();
    let envoy = lab.envoy();
    eventually("it is served again", secs(5), || {
        anew.tls(HTTPS, "b.example", "b.example", "GET /").is_some() && passed().is_some()
    });
    // The first tenant goes: its names are nobody's, the rest stays.
    offered.sites.remove(0);
    lab.declare(&offered, &lab.alive());
    eventually("its names are nobody's", secs(5), || {
        anew.tls(HTTPS, "a.example", "a.example", "GET /").is_none()
    });
    assert!(anew.tls(HTTPS, "b.example", "b.example", "GET /").is_some());
    eventually("everything is settled", secs(5), || {
        lab.server.wanted.pending().is_empty()
    });
    drop(envoy);
}

#[test]
fn web_sockets_and_http_2_without_tls_are_carried() {
    let Some(lab) = lab() else { return };
    let routes = vec![route("/", &[("both", 1)]), route("/grpc", &[("two", 1)])];
    let offer = offer(&lab, vec![site(&lab, "one", &["a.example"], routes)]);
    let mut here = lab.alive();
    let members = lab.declare(&offer, &here);
    let _envoy = lab.envoy();
    let browser = browser(&lab, &[]);
    let asked = |what: &str| browser.plain(HTTP, "a.example", what, "");
    eventually("HTTP/2 is served", secs(5), || {
        asked("GET /grpc").is_some_and(|answer| answer.status == 200)
    });
    let answer = asked("GET /grpc").unwrap();
    assert_eq!(answer.said["version"], 2);
    assert_eq!(answer.said["authority"], "a.example");
    assert_eq!(asked("GET /").unwrap().said["version"], 1);
    let mut socket = browser.socket(HTTP, "a.example", "/ws").unwrap();
    assert!(socket.lives());
    // A host dies: the other one answers, and what is open stays.
    let mut heard = BTreeSet::new();
    eventually("both answer", secs(5), || {
        heard.extend(asked("GET /").map(|answer| answer.name().to_owned()));
        heard.len() == 2
    });
    here.lives.insert("b".to_owned(), Life::Dead);
    for members in members.of_host(&here, "b") {
        lab.server.wanted.change(members);
    }
    eventually("everything is settled", secs(5), || {
        lab.server.wanted.pending().is_empty()
    });
    for _ in 0..50 {
        assert_eq!(asked("GET /").unwrap().name(), "a");
    }
    assert!(socket.lives());
}

#[test]
fn a_gateway_that_is_started_again_finds_its_sites_as_they_were() {
    let Some(mut lab) = lab() else { return };
    let one = secure(site(
        &lab,
        "one",
        &["a.example"],
        vec![route("/", &[("a", 1)])],
    ));
    let mut offered = offer(&lab, vec![one.clone()]);
    lab.declare(&offered, &lab.alive());
    let envoy = lab.envoy();
    let is_served = |lab: &Lab, host: &str, certificates: &[Certificate]| {
        let answer = browser(lab, certificates).tls(HTTPS, host, host, "GET /");
        answer.is_some_and(|answer| answer.status == 200)
    };
    eventually("it is served", secs(5), || {
        is_served(&lab, "a.example", &one.certificates)
    });
    let socket = lab.server.socket().to_owned();
    lab.server.kill();
    assert!(is_served(&lab, "a.example", &one.certificates));
    lab.server = kedge_tests_netns::envoy::Server::on(&socket);
    let two = secure(site(
        &lab,
        "two",
        &["b.example"],
        vec![route("/", &[("b", 1)])],
    ));
    offered.sites.push(two.clone());
    lab.declare(&offered, &lab.alive());
    eventually("what is new is served", secs(5), || {
        is_served(&lab, "b.example", &two.certificates)
    });
    assert!(is_served(&lab, "a.example", &one.certificates));
    eventually("everything is known to be held", secs(5), || {
        lab.server.wanted.pending().is_empty()
    });
    let stats = envoy
        .ask("/stats?filter=listener_manager.listener_(added|modified)")
        .unwrap();
    assert!(stats.contains("listener_added: 2"), "{stats}");
    assert!(stats.contains("listener_modified: 1"), "{stats}");
    let routes = lab
        .server
        .wanted
        .outcome(Kind::Route, &format!("http/{}:{HTTP}", lab.address()));
    assert!(matches!(routes, Some(Outcome::Applied(_))), "{routes:?}");
}

#[test]
fn whatever_is_told_of_sites_envoy_takes() {
    let Some(lab) = Lab::new() else { return };
    let seed = std::env::var("KEDGE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let rounds = std::env::var("KEDGE_ROUNDS").map_or(100, |it| it.parse().unwrap());
    let mut dice = Dice(seed);
    let certificates: Vec<Certificate> = offered::all_kinds_of_certificates();
    lab.server.wanted.declare([]);
    let _envoy = lab.envoy();
    let (mut told, mut refused) = (0, BTreeMap::<String, usize>::new());
    for round in 0..rounds {
        let mut offer = dice.offer(lab.address());
        offer.sites = dice.sites(lab.address(), &certificates);
        let mut here = Here::default();
        for host in 0..6 {
            let life = dice.of(&[Life::Alive, Life::Dead, Life::Draining]);
            here.lives.insert(format!("host-{host}"), life);
        }
        let rendered = render(&offer, &here);
        told += rendered.sites.len();
        for one in rendered
            .refused
            .iter()
            .filter(|one| one.frontend.starts_with("site"))
        {
            *refused.entry(one.reason.to_string()).or_default() += 1;
        }
        lab.server.wanted.declare(rendered.resources);
        let start = Instant::now();
        while !lab.server.wanted.pending().is_empty() {
            let waits = lab.server.wanted.pending();
            let refused = lab.server.wanted.refused();
            assert!(
                start.elapsed() < secs(10) && refused.is_empty(),
                "round {round} of seed {seed}: {waits:?} {refused:?} {:?}",
                offer.sites
            );
            thread::yield_now();
        }
        assert_eq!(
            lab.server.wanted.refused(),
            [],
            "round {round} of seed {seed}: {offer:?}"
        );
    }
    println!("{told} sites were told, refused were {refused:#?}");
}

/// The port of a backend whose TLS is passed through.
const PASSED: u16 = 9102;
