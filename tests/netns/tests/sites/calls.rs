//! Calls of gRPC, names that are asked for by one protocol alone, and TLS that is passed through below a wildcard.

use std::{convert::Infallible, net::TcpListener, net::TcpStream, thread};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Bytes, Incoming},
    client::conn::http2::handshake,
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kedge_control::{
    frontend::{Frontend, Protocol},
    site::{Action, HttpVersion, Mirror, PathMatch, Site},
};
use kedge_tests_netns::{
    answers::{Answers, ask},
    eventually,
    lan::Host,
    secs,
};
use tokio::runtime::{Builder, Runtime};

use super::{
    PASSED, browser, lab,
    offered::{HTTP, HTTPS, offer, route, secure, site},
    site::{Site as Lab, hello, number, tcp},
};

#[test]
fn a_call_of_grpc_comes_back_with_its_trailers() {
    let Some(lab) = lab() else { return };
    serve(&lab.b, CALLS);
    let call = |path: PathMatch, pool: &str| {
        let mut route = route("/", &[(pool, 1)]);
        route.matches.path = path;
        route.matches.grpc = true;
        route
    };
    let exact = |path: &str| PathMatch::Exact(path.to_owned());
    let mut echoed = call(exact("/shop.Basket/Add"), "calls");
    if let Action::Forward { mirrors, .. } = &mut echoed.action {
        // It answers by HTTP/1.1, and nobody waits for that.
        mirrors.push(Mirror {
            pool: "a".to_owned(),
            millionths: 1_000_000,
        });
    }
    let routes = vec![
        echoed,
        call(exact("/shop.Basket/Gone"), "nobody"),
        // What is no call is asked of others.
        route("/shop.Basket/Add", &[("a", 1)]),
    ];
    let mut offered = offer(&lab, vec![site(&lab, "one", &["calls.example"], routes)]);
    let mut pool = lab.pool("calls");
    pool.tenant = "one".to_owned();
    pool.http = HttpVersion::Two;
    pool.members.retain(|member| member.host == "b");
    for member in &mut pool.members {
        member.port = number(CALLS);
    }
    offered.pools.push(pool);
    lab.declare(&offered, &lab.alive());
    let _envoy = lab.envoy();
    let browser = browser(&lab, &[]);
    let asked = |what: &str| browser.plain(HTTP, "calls.example", what, "");
    eventually("it is served", secs(5), || {
        asked("GET /shop.Basket/Add").is_some_and(|answer| answer.status == 200)
    });
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let called = |path: &str| called(&runtime, &lab, path);
    let message = b"\0\0\0\0\x05hello";
    let back = called("/shop.Basket/Add");
    assert_eq!(back.said, message);
    assert_eq!(
        (back.status(), back.trailers["x-seen"].as_bytes()),
        ("0", &b"/shop.Basket/Add"[..])
    );
    // UNAVAILABLE where nobody is, UNIMPLEMENTED where no route is (gRPC, "HTTP to gRPC Status Code Mapping").
    assert_eq!(called("/shop.Basket/Gone").status(), "14");
    assert_eq!(called("/shop.Basket/Else").status(), "12");
    assert_eq!(asked("GET /shop.Basket/Add").unwrap().name(), "a");
}

#[test]
fn a_name_is_served_where_it_is_asked_for_alone() {
    let Some(lab) = lab() else { return };
    let whole =
        |hosts: &[&str], pool: &str| site(&lab, "one", hosts, vec![route("/", &[(pool, 1)])]);
    let plain = |hosts: &[&str], pool: &str| Site {
        name: format!("plain/{pool}"),
        https: None,
        ..whole(hosts, pool)
    };
    let tls = secure(Site {
        http: None,
        ..whole(&["both.example", "tls.example"], "b")
    });
    let mut offered = offer(
        &lab,
        vec![plain(&["both.example", "plain.example"], "a"), tls.clone()],
    );
    // TLS below a wildcard goes elsewhere, but for a name that is closer.
    offered.frontends.push(Frontend {
        name: "one/passed".to_owned(),
        protocol: Protocol::TlsPassthrough {
            server_names: vec!["*.example".to_owned(), "f.pass.test".to_owned()],
        },
        address: lab.address(),
        ..tcp("passed", HTTPS)
    });
    let words = hello("any.example");
    let _ = Answers::start(&lab.a, PASSED, "passed", words.len());
    let mut pool = lab.pool("passed");
    pool.members.truncate(1);
    pool.members[0].port = number(PASSED);
    offered.pools.push(pool);
    lab.declare(&offered, &lab.alive());
    let _envoy = lab.envoy();
    let browser = browser(&lab, &tls.certificates);
    let over_tls = |host: &str| browser.tls(HTTPS, host, host, "GET /");
    eventually("it is served", secs(5), || {
        over_tls("tls.example").is_some_and(|answer| answer.name() == "b")
    });
    let status = |host: &str| browser.plain(HTTP, host, "GET /", "").unwrap();
    assert_eq!(status("both.example").name(), "a");
    assert_eq!(status("plain.example").name(), "a");
    assert_eq!(
        status("tls.example").status,
        404,
        "it is asked for by TLS alone"
    );
    assert_eq!(over_tls("both.example").unwrap().name(), "b");
    // That no site has: it is the wildcard's.
    assert!(over_tls("plain.example").is_none());
    let passed = |name: &str| ask(&lab.client, lab.address(), HTTPS, &hello(name));
    for name in ["any.example", "f.pass.test"] {
        assert_eq!(
            passed(name).map(|it| it.name).as_deref(),
            Some("passed"),
            "{name}"
        );
    }
    assert!(passed("else.test").is_none());
}

/// What comes back of a call.
struct Back {
    said: Vec<u8>,
    /// With the headers, where there is nothing else.
    trailers: HeaderMap,
}

impl Back {
    fn status(&self) -> &str {
        let status = self.trailers.get("grpc-status");
        status.map_or("", |it| it.to_str().unwrap())
    }
}

/// Calls a method by HTTP/2 without TLS.
fn called(runtime: &Runtime, lab: &Lab, path: &str) -> Back {
    let at = (lab.address(), HTTP);
    let stream = lab.client.run(move || TcpStream::connect(at).unwrap());
    stream.set_nonblocking(true).unwrap();
    let request = Request::post(format!("http://calls.example{path}"))
        .header(CONTENT_TYPE, "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(b"\0\0\0\0\x05hello")))
        .unwrap();
    runtime.block_on(async {
        let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream).unwrap());
        let (mut client, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        let answer = client.send_request(request);
        let answer = tokio::time::timeout(secs(5), answer)
            .await
            .unwrap()
            .unwrap();
        let headers = answer.headers().clone();
        let whole = answer.into_body().collect().await.unwrap();
        let trailers = whole.trailers().cloned().unwrap_or(headers);
        Back {
            said: whole.to_bytes().to_vec(),
            trailers,
        }
    })
}

/// A server of gRPC that says every message again.
fn serve(host: &Host, port: u16) {
    let listener = host.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let server = http2::Builder::new(TokioExecutor::new());
                    let service = service_fn(again);
                    // Whoever is gone meanwhile is not told.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    });
}

async fn again(
    request: Request<Incoming>,
) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let said = request.into_body().collect().await;
    let said = said.map(|it| it.to_bytes()).unwrap_or_default();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("x-seen", HeaderValue::from_str(&path).unwrap());
    let body = Full::new(said).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    Ok(response)
}

/// The port of a server of gRPC.
const CALLS: u16 = 9103;
