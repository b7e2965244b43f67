//! Sites that cannot be told.

use kedge_control::{
    frontend::{ClientIp, Frontend, Limits, Pool, Protocol},
    site::{Action, Match, PathChange, PathMatch, Rewrite, Route, RouteBackend, Site, ValueMatch},
};
use rcgen::{KeyPair, PKCS_ED25519};

use super::{ADDRESS, certificate, forward, offer, secure, site, to};
use crate::render::{Here, Reason, render};

#[test]
fn what_cannot_be_told_is_refused_alone() {
    type Change = fn(&mut Site);
    let cases: Vec<(&str, Change, &str)> = vec![
        ("no name", |site| site.hosts.clear(), "it has no name"),
        (
            "a name",
            |site| site.hosts = vec!["A".to_owned()],
            "a name is no lower-case",
        ),
        (
            "no port",
            |site| (site.http, site.certificates) = (None, Vec::new()),
            "it has no port for plain HTTP",
        ),
        (
            "one port",
            |site| site.http = site.https,
            "plain HTTP and TLS are on one port",
        ),
        (
            "another's port",
            |site| site.http = Some(82.try_into().unwrap()),
            "tcp has the address",
        ),
        (
            "another's name",
            |site| site.hosts[0] = "good.example".to_owned(),
            "one/good.example has the name good.example there",
        ),
        (
            "a name passed through",
            |site| site.certificates[0].hosts = vec!["passed.example".to_owned()],
            "tls has the name passed.example there",
        ),
        (
            "a strange name",
            |site| site.routes[0].hosts = vec!["else.example".to_owned()],
            "its route 1: a name is none of the site's",
        ),
        (
            "a path",
            |site| site.routes[0].matches.path = PathMatch::Prefix("a".to_owned()),
            "its route 1: a path begins",
        ),
        (
            "a question",
            |site| site.routes[0].matches.path = PathMatch::Exact("/?a".to_owned()),
            "its route 1: a path begins",
        ),
        (
            "an expression",
            |site| site.routes[0].matches.path = PathMatch::Regex("(".to_owned()),
            "its route 1: a regular expression cannot be read",
        ),
        (
            "a method",
            |site| site.routes[0].matches.method = Some("A B".to_owned()),
            "its route 1: a method is none",
        ),
        (
            "a header",
            |site| {
                site.routes[0]
                    .matches
                    .headers
                    .insert("A".to_owned(), ValueMatch::Exact(String::new()));
            },
            "its route 1: a header's name",
        ),
        (
            "a parameter",
            |site| {
                site.routes[0]
                    .matches
                    .query
                    .insert(String::new(), ValueMatch::Exact(String::new()));
            },
            "its route 1: a query",
        ),
        (
            "a value",
            |site| {
                site.routes[0]
                    .matches
                    .query
                    .insert("a".to_owned(), ValueMatch::Exact("\n".to_owned()));
            },
            "its route 1: a value",
        ),
        (
            "the host",
            |site| {
                site.routes[0]
                    .request_headers
                    .remove
                    .push("host".to_owned())
            },
            "its route 1: a header is changed that",
        ),
        (
            "a length",
            |site| {
                site.routes[0]
                    .response_headers
                    .set
                    .insert("content-length".to_owned(), "1".to_owned());
            },
            "its route 1: a header is changed that",
        ),
        (
            "a line",
            |site| {
                site.routes[0]
                    .request_headers
                    .add
                    .insert("a".to_owned(), "\r\n".to_owned());
            },
            "its route 1: a header's value",
        ),
        (
            "an answer",
            |site| site.routes[0].action = Action::Answer { status: 199 },
            "its route 1: an answer's status",
        ),
        (
            "a redirect",
            |site| {
                site.routes[0].action = Action::Redirect {
                    scheme: None,
                    host: None,
                    port: None,
                    path: None,
                    status: 304,
                }
            },
            "its route 1: a client is sent elsewhere with",
        ),
        (
            "a scheme",
            |site| {
                site.routes[0].action = Action::Redirect {
                    scheme: Some("ftp".to_owned()),
                    host: None,
                    port: None,
                    path: None,
                    status: 301,
                }
            },
            "its route 1: a scheme",
        ),
        (
            "a prefix",
            |site| {
                site.routes[0] = Route {
                    matches: Match {
                        path: PathMatch::Exact("/".to_owned()),
                        ..Match::default()
                    },
                    ..forward(
                        Vec::new(),
                        Rewrite {
                            host: None,
                            path: Some(PathChange::Prefix("/".to_owned())),
                        },
                    )
                };
            },
            "its route 1: a prefix is changed that was not matched",
        ),
        (
            "weights",
            |site| {
                site.routes[0] = forward(
                    vec![
                        RouteBackend {
                            pool: "web".to_owned(),
                            weight: u32::MAX,
                            ..RouteBackend::default()
                        };
                        2
                    ],
                    Rewrite::default(),
                )
            },
            "its route 1: the weights",
        ),
        (
            "a pool",
            |site| site.routes[0] = to("/", "bad"),
            "a pool must take at least one connection",
        ),
        (
            "no certificate",
            |site| site.certificates[0].chain.clear(),
            "its certificate for bad.example: a certificate comes with",
        ),
        (
            "half a certificate",
            |site| {
                let half = site.certificates[0].chain.len() / 2;
                site.certificates[0].chain.truncate(half);
            },
            "its certificate for bad.example: a certificate c",
        ),
        (
            "no key",
            |site| site.certificates[0].key.clear(),
            "its certificate for bad.example: a private key cannot be read",
        ),
        (
            "another key",
            |site| site.certificates[0].key = KeyPair::generate().unwrap().serialize_pem(),
            "its certificate for bad.example: a private key is not that of",
        ),
        (
            "an algorithm",
            |site| {
                site.certificates[0] = certificate(
                    &["bad.example"],
                    &KeyPair::generate_for(&PKCS_ED25519).unwrap(),
                )
            },
            "its certificate for bad.example: a certificate's key is RSA",
        ),
    ];
    for (what, change, why) in cases {
        let mut bad = secure(site("two", "bad.example"), &["bad.example"]);
        if what == "a name passed through" {
            bad.hosts = vec!["*".to_owned()];
        }
        change(&mut bad);
        bad.name = "bad".to_owned();
        let good = secure(site("one", "good.example"), &["good.example"]);
        let mut offer = offer(vec![good, bad]);
        offer.pools.push(Pool {
            name: "bad".to_owned(),
            tenant: "two".to_owned(),
            limits: Limits {
                connections: 0,
                idle_seconds: 0,
            },
            ..Pool::default()
        });
        let frontend = |name: &str, port: u16, protocol| Frontend {
            name: name.to_owned(),
            tenant: "one".to_owned(),
            address: ADDRESS.parse().unwrap(),
            port: port.try_into().unwrap(),
            protocol,
            pool: "web".to_owned(),
            client_ip: ClientIp::Hidden,
            source_ranges: Vec::new(),
        };
        let passed = Protocol::TlsPassthrough {
            server_names: vec!["passed.example".to_owned()],
        };
        offer.frontends = vec![
            frontend("tcp", 82, Protocol::Tcp),
            frontend("tls", 443, passed),
        ];
        let rendered = render(&offer, &Here::default());
        assert_eq!(rendered.refused.len(), 1, "{what}");
        let reason = rendered.refused[0].reason.to_string();
        assert!(reason.starts_with(why), "{what}: {reason}");
        assert_eq!(rendered.sites.len(), 1, "{what}");
        assert_eq!(rendered.sites[0].site, "one/good.example");
    }
}

#[test]
fn tcp_keeps_a_place_and_so_does_plain_http() {
    let mut offer = offer(vec![site("one", "web.example")]);
    offer.sites.push(Site {
        name: "late".to_owned(),
        http: None,
        https: Some(80.try_into().unwrap()),
        ..secure(site("one", "late.example"), &["late.example"])
    });
    let refused = render(&offer, &Here::default()).refused;
    let by = "one/web.example".to_owned();
    assert_eq!(refused[0].reason, Reason::PortInUse { by });
}
