use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::Duration,
};

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::{ServerConfig, crypto::aws_lc_rs as provider};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::config::{HttpsUrl, Trust};

/// A stand-in for an API server: a real TLS server with its own CA.
struct Server {
    status: Arc<AtomicU16>,
    connections: Arc<AtomicUsize>,
    url: HttpsUrl,
    certificate_pem: String,
    pin: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn server() -> Server {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let pin = STANDARD.encode(digest(
        &SHA256,
        &rcgen::PublicKeyData::subject_public_key_info(&made.signing_key),
    ));
    let tls = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let status = Arc::new(AtomicU16::new(200));
    let connections = Arc::new(AtomicUsize::new(0));
    let (answer_with, count) = (Arc::clone(&status), Arc::clone(&connections));
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let (acceptor, status) = (acceptor.clone(), Arc::clone(&answer_with));
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    let status = status.load(Ordering::SeqCst);
                    if status == 0 {
                        // Hangs: takes the question and says nothing.
                        std::future::pending::<()>().await;
                    }
                    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\nok");
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Server {
        status,
        connections,
        url: format!("https://127.0.0.1:{port}/readyz").parse().unwrap(),
        certificate_pem: made.cert.pem(),
        pin,
        task,
    }
}

fn probe(server: &Server) -> ProbeConfig {
    ProbeConfig {
        url: server.url.clone(),
        trust: Trust::Local,
        interval: Duration::from_millis(20),
        timeout: Duration::from_millis(300),
        rise: 2,
        fall: 3,
        auto: true,
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

async fn next(gates: &mut Gates) -> GateEvent {
    let mut events = timeout(Duration::from_secs(5), gates.changed())
        .await
        .unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

/// Waits for a verdict and returns its words. On the way to it the words of another one may change.
async fn until(gates: &mut Gates, wanted: Verdict) -> String {
    loop {
        if let GateEvent::Verdict {
            verdict, because, ..
        } = next(gates).await
            && verdict == wanted
        {
            return because;
        }
    }
}

fn is(event: &GateEvent, wanted: Verdict) -> bool {
    matches!(event, GateEvent::Verdict { verdict, .. } if *verdict == wanted)
}

#[tokio::test]
async fn a_gate_follows_its_service_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let server = server().await;
    server.status.store(500, Ordering::SeqCst);
    let mut gates = Gates::new(
        Root::new(dir.path()),
        Store::new(dir.path()),
        "boot".to_owned(),
    );
    let first = gates.apply([(name("api"), probe(&server))].into());
    assert!(is(&first[0], Verdict::Unproven), "{first:?}");
    let GateEvent::Verdict { because, .. } = &first[0] else {
        panic!()
    };
    assert!(
        because.starts_with("no API server has answered on 127.0.0.1:"),
        "{because}"
    );
    server.status.store(200, Ordering::SeqCst);
    until(&mut gates, Verdict::Healthy).await;
    let status = &gates.status()[0];
    assert_eq!(
        (status.vip.as_str(), status.verdict.as_str()),
        ("api", "healthy")
    );
    assert!(status.because.contains("answered 200 in"), "{status:?}");
    assert!(status.latency_seconds.unwrap() < 0.3);
    let connections = server.connections.load(Ordering::SeqCst);
    server.status.store(503, Ordering::SeqCst);
    let because = until(&mut gates, Verdict::Failing).await;
    assert!(because.contains("fails: answered 503"), "{because}");
    assert_eq!(
        server.connections.load(Ordering::SeqCst),
        connections,
        "the connection is used again"
    );
    server.status.store(200, Ordering::SeqCst);
    until(&mut gates, Verdict::Healthy).await;
}

#[tokio::test]
async fn what_is_wrong_is_told_anew_when_it_changes_and_only_then() {
    let dir = tempfile::tempdir().unwrap();
    let (server, other) = (server().await, server().await);
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, &other.certificate_pem).unwrap();
    let config = ProbeConfig {
        trust: Trust::CaFile(ca),
        auto: false,
        ..probe(&server)
    };
    let mut gates = Gates::new(Root::new(dir.path()), Store::new(dir.path()), String::new());
    let first = gates.apply([(name("api"), config)].into());
    let GateEvent::Verdict { because, .. } = &first[0] else {
        panic!()
    };
    assert!(
        because.ends_with("has not answered since boot"),
        "{because}"
    );
    let because = until(&mut gates, Verdict::Unproven).await;
    let words = "was not healthy since boot: the TLS handshake failed";
    assert!(because.contains(words), "{because}");
    let asked = server.connections.load(Ordering::SeqCst);
    let told_again = async {
        while server.connections.load(Ordering::SeqCst) < asked + 5 {
            if let Ok(events) = timeout(Duration::from_millis(20), gates.changed()).await {
                return Some(events);
            }
        }
        None
    };
    assert_eq!(told_again.await, None, "the same is not told again");
    drop(server);
    let because = until(&mut gates, Verdict::Unproven).await;
    let words = "was not healthy since boot: no connection";
    assert!(because.contains(words), "{because}");
}

#[tokio::test]
async fn a_fresh_probe_answers_at_once_and_hanging_is_failing() {
    let dir = tempfile::tempdir().unwrap();
    let server = server().await;
    let mut gates = Gates::new(Root::new(dir.path()), Store::new(dir.path()), String::new());
    let slow = ProbeConfig {
        interval: Duration::from_secs(60),
        ..probe(&server)
    };
    gates.apply([(name("api"), slow)].into());
    assert!(is(&next(&mut gates).await, Verdict::Healthy));
    gates.probe_now(&name("api"));
    let fresh = |healthy| GateEvent::Fresh {
        vip: name("api"),
        healthy,
    };
    assert_eq!(next(&mut gates).await, fresh(true));
    server.status.store(0, Ordering::SeqCst);
    gates.probe_now(&name("api"));
    assert_eq!(next(&mut gates).await, fresh(false));
    assert!(
        gates.status()[0]
            .because
            .contains("no answer within 300 ms"),
        "{:?}",
        gates.status()
    );
    gates.probe_now(&name("unknown"));
}

#[tokio::test]
async fn a_verdict_survives_the_process_but_not_the_boot() {
    let dir = tempfile::tempdir().unwrap();
    let server = server().await;
    let gates = |boot: &str| {
        Gates::new(
            Root::new(dir.path()),
            Store::new(dir.path()),
            boot.to_owned(),
        )
    };
    let wanted: BTreeMap<_, _> = [(name("api"), probe(&server))].into();
    let mut first = gates("one");
    first.apply(wanted.clone());
    assert!(is(&next(&mut first).await, Verdict::Healthy));
    first.finish().await;
    drop(server);
    let mut again = gates("one");
    let event = &again.apply(wanted.clone())[0];
    assert!(is(event, Verdict::Healthy), "{event:?}");
    let GateEvent::Verdict { because, .. } = event else {
        panic!()
    };
    assert!(because.contains("before Kedge was restarted"), "{because}");
    assert!(is(&next(&mut again).await, Verdict::Failing));
    again.finish().await;
    assert!(is(&gates("one").apply(wanted.clone())[0], Verdict::Failing));
    assert!(is(&gates("two").apply(wanted)[0], Verdict::Unproven));
}

#[tokio::test]
async fn verdicts_that_cannot_be_read_are_a_problem_and_not_a_verdict() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("health.json"), "half a fi").unwrap();
    let store = Store::new(dir.path());
    let gates = Gates::new(Root::new(dir.path()), store, "one".to_owned());
    let codes: Vec<_> = gates.problems().map(|problem| problem.code).collect();
    assert_eq!(codes, [kedge_core::Code::HostStateCorrupt]);
}

#[tokio::test]
async fn vips_with_one_probe_share_it_and_a_reload_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = server().await;
    let mut gates = Gates::new(Root::new(dir.path()), Store::new(dir.path()), String::new());
    let wanted: BTreeMap<_, _> = [(name("a"), probe(&server)), (name("b"), probe(&server))].into();
    assert_eq!(gates.apply(wanted.clone()).len(), 2);
    let events = timeout(Duration::from_secs(5), gates.changed())
        .await
        .unwrap();
    assert_eq!(events.len(), 2, "both VIPs are told");
    assert!(gates.apply(wanted.clone()).is_empty(), "nothing changed");
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    let mut more = wanted;
    more.insert(name("c"), probe(&server));
    let told = gates.apply(more);
    assert_eq!(told.len(), 1);
    assert!(
        is(&told[0], Verdict::Healthy),
        "a new VIP gets the known verdict"
    );
}

#[tokio::test]
async fn certificates_are_held_to_their_ca_or_pin() {
    let dir = tempfile::tempdir().unwrap();
    let (server, other) = (server().await, server().await);
    let ca = |pem: &str, file: &str| {
        let path = dir.path().join(file);
        std::fs::write(&path, pem).unwrap();
        Trust::CaFile(path)
    };
    let pin = |pin: &str| Trust::Pin(pin.parse().unwrap());
    for (trust, words) in [
        (ca(&server.certificate_pem, "own"), "answered 200"),
        (ca(&other.certificate_pem, "other"), "TLS handshake failed"),
        (ca("no certificate", "empty"), "holds no certificate"),
        (
            Trust::CaFile("/nonexistent/ca.pem".into()),
            "cannot be read",
        ),
        (pin(&server.pin), "answered 200"),
        (pin(&other.pin), "TLS handshake failed"),
    ] {
        let config = ProbeConfig {
            trust,
            ..probe(&server)
        };
        let answer = Asker::new(&config, &Root::default()).ask().await;
        assert!(answer.what.contains(words), "{config:?}: {answer:?}");
        assert_eq!(answer.healthy, words == "answered 200");
    }
}
