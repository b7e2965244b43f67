//! Whose pages may read answers, as Envoy tells their browsers.

use kedge_control::{cors::Cors, site::PathMatch};
use kedge_tests_netns::{browser::Answer, eventually, secs};

use super::{
    browser, lab,
    offered::{HTTP, offer, route, site},
};

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// The headers of an answer that are for browsers, without the spaces that mean nothing.
fn told(answer: &Answer) -> Vec<String> {
    let of = |name: &str| {
        let value = answer.headers.get(&format!("access-control-{name}"))?;
        Some(format!("{name}: {}", value.replace(", ", ",")))
    };
    [
        "allow-origin",
        "allow-methods",
        "allow-headers",
        "expose-headers",
        "allow-credentials",
        "max-age",
    ]
    .into_iter()
    .filter_map(of)
    .collect()
}

#[test]
fn browsers_are_told_whose_pages_may_ask_what() {
    let Some(lab) = lab() else { return };
    let any = words(&["*"]);
    let mut some = route("/some", &[("a", 1)]);
    some.cors = Some(Cors {
        origins: words(&[
            "https://shop.example",
            "https://*.wild.example",
            "http://*:8080",
            "https://port.example:443",
        ]),
        methods: words(&["PUT", "GET"]),
        headers: words(&["x-one", "x-two"]),
        exposed: words(&["x-three"]),
        credentials: false,
        max_age_seconds: 600,
    });
    let mut open = route("/open", &[("a", 1)]);
    open.cors = Some(Cors {
        origins: any.clone(),
        methods: any.clone(),
        headers: any.clone(),
        exposed: any.clone(),
        max_age_seconds: 5,
        credentials: false,
    });
    let mut user = open.clone();
    user.matches.path = PathMatch::Prefix("/user".to_owned());
    user.cors.as_mut().unwrap().credentials = true;
    let mut put = some.clone();
    put.matches.path = PathMatch::Prefix("/put".to_owned());
    put.matches.method = Some("PUT".to_owned());
    let plain = route("/", &[("b", 1)]);
    let routes = vec![some, open, user, put, plain];
    let sites = vec![site(&lab, "one", &["a.example"], routes)];
    lab.declare(&offer(&lab, sites), &lab.alive());
    let _envoy = lab.envoy();
    let browser = browser(&lab, &[]);
    let asked = |what: &str, headers: &str| browser.plain(HTTP, "a.example", what, headers);
    eventually("it is served", secs(5), || {
        asked("GET /some", "").is_some_and(|answer| answer.status == 200)
    });
    let asks = |path: &str, origin: &str| {
        let headers = format!(
            "Origin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n\
             Access-Control-Request-Headers: x-one\r\n"
        );
        asked(&format!("OPTIONS {path}"), &headers).unwrap()
    };

    for origin in [
        "https://shop.example",
        "https://a.wild.example",
        "https://a.b.wild.example",
        "http://whoever:8080",
        "http://[2001:db8::1]:8080",
        "https://port.example",
    ] {
        let answer = asks("/some", origin);
        let expected = [
            &*format!("allow-origin: {origin}"),
            "allow-methods: PUT,GET",
            "allow-headers: x-one,x-two",
            "expose-headers: x-three",
            "max-age: 600",
        ];
        assert_eq!((answer.status, told(&answer)), (200, words(&expected)));
        assert_eq!(answer.name(), "", "the gateway answers itself");
        let answer = asked("GET /some", &format!("Origin: {origin}\r\n")).unwrap();
        let expected = [
            &*format!("allow-origin: {origin}"),
            "expose-headers: x-three",
        ];
        assert_eq!((answer.name(), told(&answer)), ("a", words(&expected)));
    }
    for origin in [
        "http://shop.example",
        "https://shop.example:8443",
        "https://shop.example.evil",
        "https://evilshop.example",
        "https://wild.example",
        "https://evilwild.example",
        "https://a.wild.example:8443",
        "https://evil/.wild.example",
        "http://whoever",
        "https://whoever:8080",
        "null",
    ] {
        // What else the answer says means nothing without its origin.
        let answer = asks("/some", origin);
        assert_eq!(answer.name(), "", "{origin}");
        let said = told(&answer);
        let lets_in = |it: &String| it.starts_with("allow-origin") || it.contains("credentials");
        assert!(!said.iter().any(lets_in), "{origin}: {said:?}");
        let answer = asked("GET /some", &format!("Origin: {origin}\r\n")).unwrap();
        assert_eq!((answer.name(), told(&answer)), ("a", vec![]), "{origin}");
    }

    // Everything is allowed: by its name, where a browser takes `*` for one.
    let answer = asks("/user", "https://whoever");
    let expected = [
        "allow-origin: https://whoever",
        "allow-methods: PUT",
        "allow-headers: x-one",
        "allow-credentials: true",
        "max-age: 5",
    ];
    assert_eq!(told(&answer), words(&expected));
    let answer = asks("/open", "https://whoever");
    let said = told(&answer);
    assert_eq!(said[0], "allow-origin: https://whoever");
    assert!(["allow-methods: PUT", "allow-methods: *"].contains(&&*said[1]));
    assert!(["allow-headers: x-one", "allow-headers: *"].contains(&&*said[2]));
    assert_eq!(said[3..], words(&["expose-headers: *", "max-age: 5"]));

    // A preflight request has another method than the request that it is for.
    let answer = asks("/put", "https://shop.example");
    assert_eq!(
        told(&answer).first().unwrap(),
        "allow-origin: https://shop.example"
    );
    let answer = asked("OPTIONS /put", "Origin: https://shop.example\r\n").unwrap();
    assert_eq!((answer.name(), told(&answer)), ("b", vec![]));
    // What no route says is a backend's matter.
    let answer = asks("/else", "https://shop.example");
    assert_eq!((answer.name(), told(&answer)), ("b", vec![]));
}
