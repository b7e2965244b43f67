//! The whole agent on a wire of its own: VIPs, gates, reload, a tunnel that cannot be, a manager
//! that is not there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

mod site;

use std::{fs::Permissions, os::unix::fs::PermissionsExt, time::Duration};

use hyper::{Method, StatusCode};
use kedge_control::agent::{HealthMode, HostConfig, PeerConfig, TunnelConfig, VipConfig};
use kedge_core::vip::{Priority, Vrid};
use kedge_host::{Role, orders::Order};
use kedge_net::link::Links;
use site::{Host, Site, eventually, ready};

const VIP: &str = "10.20.14.10";
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_vip_alone_stands_is_explained_and_is_handed_over() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    for host in [&mut site.a, &mut site.b] {
        host.configure("vips: {api: {addresses: [10.20.14.10], health: none}}");
    }
    site.a.start();
    eventually("a holds the VIP", LIMIT, || site.a.state() == "Active");
    eventually("the kernel of a holds it", LIMIT, || site.a.holds(VIP));
    site.b.start();
    eventually("b hears a", LIMIT, || {
        site.b.get("/v1/status")["vips"][0]["active"]["address"] == "10.20.14.11"
    });
    assert_eq!(site.b.state(), "Backup");
    let told = site.a.get("/v1/vips/api/explain");
    assert_eq!(told["kind"], "VIPExplanation");
    assert!(
        told["conclusion"]
            .as_str()
            .unwrap()
            .starts_with("10.20.14.10 is on "),
        "{told}"
    );
    assert!(told["because"].as_array().unwrap().len() >= 4, "{told}");
    assert_eq!(told["vip"]["addresses"][0], "10.20.14.10/24");
    // 11 is slot 11.
    assert_eq!(told["vip"]["priority"], 254 - 3 * 11);
    let status = site.b.get("/v1/status");
    assert_eq!(status["problems"].as_array().unwrap().len(), 0, "{status}");
    let (status, body) = site.a.ask(Method::GET, "/v1/vips/none");
    assert_eq!(
        (status, body["code"].as_str()),
        (StatusCode::NOT_FOUND, Some("KEDGE-VIP-0010"))
    );
    site.a.stop().unwrap();
    assert_eq!(site.b.state(), "Active", "a waited for its successor");
    assert!(!site.a.holds(VIP), "a left nothing behind");
    assert!(site.b.holds(VIP));
}

#[test]
fn the_host_whose_service_answers_pulls_the_vip_and_a_restart_does_not_move_it() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    let probe = "vips: {api: {addresses: [10.20.14.10], health: {url: 'https://127.0.0.1:6443/', \
                 interval: 100ms, timeout: 200ms}}}";
    for host in [&mut site.a, &mut site.b] {
        host.configure(probe);
    }
    site.a.start();
    eventually("the VIP stands before any service runs", LIMIT, || {
        site.a.state() == "Active"
    });
    site.b.start();
    let health = site.a.get("/v1/status")["health"][0].clone();
    assert_eq!(health["verdict"], "unproven", "{health}");
    assert!(
        site.a.problems().contains(&"KEDGE-VIP-0008".to_owned()),
        "{:?}",
        site.a.problems()
    );
    let server = site.b.run(tls::Server::start);
    eventually("the healthy host pulls it over", LIMIT, || {
        site.b.state() == "Active"
    });
    eventually("the other gives it", LIMIT, || site.a.state() == "Backup");
    // An upgrade restarts the agent: it must not look like a host whose service never answered.
    eventually("the verdict is on the disk", LIMIT, || {
        site.b
            .root
            .state_dir(Role::Agent)
            .join("health.json")
            .exists()
    });
    site.b.stop().unwrap();
    site.b.start();
    let health = site.b.get("/v1/status")["health"][0].clone();
    assert_eq!(health["verdict"], "healthy", "{health}");
    drop(server);
    eventually("the gate falls", LIMIT, || {
        site.b.get("/v1/status")["health"][0]["verdict"] == "failing"
    });
}

#[test]
fn a_frozen_vip_stays_where_its_service_fails_and_moves_when_both_hosts_thaw() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    let probe = "vips: {api: {addresses: [10.20.14.10], health: {url: 'https://127.0.0.1:6443/', \
                 interval: 100ms, timeout: 200ms}}}";
    for host in [&mut site.a, &mut site.b] {
        host.configure(probe);
    }
    let server = site.a.run(tls::Server::start);
    site.a.start();
    eventually("a holds the VIP", LIMIT, || site.a.state() == "Active");
    let _other = site.b.run(tls::Server::start);
    site.b.start();
    let healthy = |host: &Host| host.get("/v1/status")["health"][0]["verdict"] == "healthy";
    eventually("both services answer", LIMIT, || {
        healthy(&site.a) && healthy(&site.b)
    });
    eventually("b hears a", LIMIT, || {
        site.b.get("/v1/vips/api")["active"].is_object()
    });
    let freeze = serde_json::json!({"forSeconds": 60});
    let nothing = serde_json::json!({});
    for host in [&site.a, &site.b] {
        let told = host.post("/v1/vips/api/freeze", &freeze);
        assert_eq!(
            (&told["kind"], &told["given"]),
            (&"VIPOrder".into(), &true.into())
        );
    }
    drop(server);
    eventually("the gate of a falls", LIMIT, || !healthy(&site.a));
    let base = site.a.get("/v1/vips/api")["basePriority"].clone();
    for _ in 0..50 {
        let vip = site.a.get("/v1/vips/api");
        assert_eq!(
            (&vip["state"], &vip["priority"]),
            (&"Active".into(), &base),
            "{vip}"
        );
        assert!(vip["frozen"]["until"].is_string(), "{vip}");
    }
    assert!(site.a.problems().contains(&"KEDGE-VIP-0017".to_owned()));
    // What was held back counts, and the other one is frozen still.
    assert_eq!(site.a.post("/v1/vips/api/thaw", &nothing)["given"], true);
    eventually("the priority falls", LIMIT, || {
        site.a.get("/v1/vips/api")["priority"] != base
    });
    for _ in 0..50 {
        assert_eq!(site.b.state(), "Backup");
    }
    site.b.post("/v1/vips/api/thaw", &nothing);
    eventually("b pulls it over", LIMIT, || site.b.state() == "Active");
    eventually("a gives it", LIMIT, || site.a.state() == "Backup");
    // Orders and changes of state stand in one history, and nothing that makes no sense is taken.
    let history = site.a.get("/v1/vips/api/history")["items"].clone();
    let told: Vec<&str> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["because"].as_str().unwrap())
        .collect();
    let place = |word: &str| {
        told.iter()
            .position(|because| because.contains(word))
            .expect(word)
    };
    assert!(
        place("frozen by order") < place("thawed by order"),
        "{told:?}"
    );
    let (status, body) = site.a.ask(Method::POST, "/v1/vips/api/freeze");
    assert!(
        status.is_client_error() && body["code"] == "KEDGE-API-0001",
        "{status} {body}"
    );
    let (status, _) = site.a.ask(Method::GET, "/v1/vips/none/history");
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[test]
fn a_reload_is_a_difference_and_a_bad_file_keeps_the_last_good_one() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    let host = &mut site.a;
    host.configure("vips: {api: {addresses: [10.20.14.10], health: none}}");
    // What a process that was killed left, and nobody wants a tunnel now.
    let left = |host: &Host| host.ip("-6 route show table all proto 107");
    host.ip("-6 route add unreachable fd6b:6564:6765::/48 metric 1879102289 proto 107");
    assert!(left(host).contains("unreachable"));
    host.start();
    eventually("it holds the VIP", LIMIT, || host.state() == "Active");
    assert_eq!(left(host), "");
    host.configure("vips: {api: {addresses: [10.20.14.10], health: none, vrid: 256}}");
    let (status, body) = host.ask(Method::POST, "/v1/reload");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(body["code"], "KEDGE-CFG-0003", "{body}");
    assert_eq!(host.problems(), ["KEDGE-CFG-0007"]);
    assert_eq!(host.get("/v1/status")["configStale"], true);
    host.configure(
        "vips: {api: {addresses: [10.20.14.10], health: none, priority: 200}, \
         web: {addresses: [10.20.14.20], health: none}}",
    );
    host.order(Order::Reload);
    eventually("the second VIP stands as well", LIMIT, || {
        host.get("/v1/vips")["items"][1]["state"] == "Active"
    });
    assert_eq!(host.get("/v1/config")["generation"], 2);
    let api = host.get("/v1/vips/api");
    assert!(host.undisturbed("api"), "the first was disturbed");
    assert_eq!(api["basePriority"], 200);
    assert!(host.problems().is_empty(), "{:?}", host.problems());
    host.configure("vips: {web: {addresses: [10.20.14.20], health: none}}");
    let (_, body) = host.ask(Method::POST, "/v1/reload");
    assert_eq!(body["changes"].as_array().unwrap().len(), 1, "{body}");
    eventually("the first is gone", LIMIT, || !host.holds(VIP));
    assert!(host.undisturbed("web"), "the second was disturbed");
    eventually("the second stands", LIMIT, || host.holds("10.20.14.20"));
}

#[test]
fn a_tunnel_that_cannot_be_and_a_manager_that_is_not_there_stop_no_vip() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    let host = &mut site.a;
    // What an earlier process was told by its manager.
    let desired = HostConfig {
        generation: 7,
        vips: vec![wanted_vip()],
        tunnel: Some(TunnelConfig {
            addresses: vec!["fd6b:6564:6765::a/128".parse().unwrap()],
            mtu: 1400,
            peers: vec![PeerConfig {
                name: "gw-0".to_owned(),
                public_key: "tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=".to_owned(),
                next_public_key: None,
                endpoint: Some("10.20.14.12:51820".to_owned()),
                other_endpoint: None,
                tls_endpoint: None,
                tenant: String::new(),
                allowed_ips: vec![
                    "fd6b:6564:6765::1/128".parse().unwrap(),
                    "0.0.0.0/0".parse().unwrap(),
                ],
                keepalive_seconds: 25,
            }],
        }),
        mesh: None,
        shortcuts: Vec::new(),
        ca_bundle: String::new(),
    };
    host.remember(&desired);
    // The tunnel's name is taken by somebody else's link.
    host.run(|| Links::open().unwrap().bridge("kedge0").unwrap());
    host.configure("manager: {url: 'https://10.20.14.12:9443', token_file: /etc/kedge/token}");
    host.start();
    eventually("the VIP of the last desired state stands", LIMIT, || {
        host.state() == "Active"
    });
    let status = host.get("/v1/status");
    assert_eq!(status["vips"][0]["source"], "manager");
    assert_eq!(status["manager"]["appliedGeneration"], 7);
    assert_eq!(status["manager"]["enrolled"], false);
    let problems = host.problems();
    for code in ["KEDGE-TUN-0001", "KEDGE-TUN-0004", "KEDGE-ENR-0007"] {
        assert!(
            problems.iter().any(|problem| problem == code),
            "{code} in {problems:?}"
        );
    }
    host.run(|| Links::open().unwrap().delete("kedge0").unwrap());
    eventually("the tunnel comes when its name is free", LIMIT, || {
        let tunnels = host.get("/v1/tunnels");
        tunnels["listenPort"].as_u64().unwrap_or(0) > 0 && tunnels["items"][0]["name"] == "gw-0"
    });
    let tunnels = host.get("/v1/tunnels");
    assert_eq!(
        tunnels["items"][0]["allowedIPs"].as_array().unwrap().len(),
        1
    );
    assert_eq!(tunnels["items"][0]["state"], "Connecting");
    host.configure(
        "manager: {url: 'https://10.20.14.12:9443', token_file: /etc/kedge/token}\n\
         tunnel: {listen_port: 51999, interface: kedge7}",
    );
    host.order(Order::Reload);
    eventually("the tunnel is another device", LIMIT, || {
        let tunnels = host.get("/v1/tunnels");
        tunnels["listenPort"] == 51999 && tunnels["device"] == "kedge7"
    });
    let links = host.run(|| Links::open().unwrap().list().unwrap());
    assert!(links.iter().any(|link| link.name == "kedge7"));
    assert!(!links.iter().any(|link| link.name == "kedge0"));
    assert!(host.undisturbed("api"), "the VIP was disturbed");
    eventually("the VIP stands", LIMIT, || host.state() == "Active");
    host.stop().unwrap();
    assert!(!host.holds(VIP));
}

#[test]
fn a_manager_that_is_named_again_is_followed_from_memory_at_once() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    let host = &mut site.a;
    let desired = HostConfig {
        generation: 7,
        vips: vec![wanted_vip()],
        ..HostConfig::default()
    };
    host.remember(&desired);
    let manager = "manager: {url: 'https://10.20.14.12:9443', token_file: /etc/kedge/token}";
    host.configure(manager);
    host.start();
    let vips = |host: &Host| host.get("/v1/vips")["items"].as_array().unwrap().len();
    assert_eq!(vips(host), 1);
    host.configure("version: 1");
    host.order(Order::Reload);
    eventually("without a manager its VIP goes", LIMIT, || vips(host) == 0);
    host.configure(manager);
    host.order(Order::Reload);
    eventually("its VIP stands again", LIMIT, || host.state() == "Active");
    assert_eq!(
        host.get("/v1/status")["manager"]["appliedGeneration"],
        7,
        "it is out of reach, and its last word holds"
    );
}

#[test]
fn a_key_that_was_put_right_is_used_after_a_reload_and_no_problem_any_more() {
    if !ready() {
        return;
    }
    let mut site = Site::new();
    let host = &mut site.a;
    let key = host.root.state_dir(Role::Agent).join("identity.key");
    std::fs::create_dir_all(key.parent().unwrap()).unwrap();
    std::fs::write(&key, "no key").unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    host.configure("manager: {url: 'https://10.20.14.12:9443', token_file: /etc/kedge/token}");
    host.start();
    let corrupt = host.problems();
    assert_eq!(corrupt.len(), 1, "{corrupt:?}");
    assert_eq!(host.get("/v1/status")["manager"], serde_json::Value::Null);
    host.order(Order::Reload);
    std::fs::remove_file(&key).unwrap();
    host.order(Order::Reload);
    eventually("the manager is called", LIMIT, || {
        host.get("/v1/status")["manager"].is_object()
    });
    assert!(
        !host.problems().contains(&corrupt[0]),
        "{:?}",
        host.problems()
    );
}

/// The VIP `api` as a manager wants it.
fn wanted_vip() -> VipConfig {
    VipConfig {
        name: "api".to_owned(),
        addresses: vec![VIP.parse().unwrap()],
        vrid: Vrid::new(7).unwrap(),
        priority: Priority::new(254).unwrap(),
        advert_interval_seconds: 0.1,
        interface: None,
        health: HealthMode::None,
    }
}

mod tls {
    //! A stand-in for an API server.

    use std::{
        io::{Read, Write},
        net::TcpListener,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread::JoinHandle,
        time::Duration,
    };

    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

    /// Answers 200 to everything, until dropped.
    pub struct Server {
        stop: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    }

    impl Server {
        pub fn start() -> Self {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let tls = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
                .unwrap();
            let tls = Arc::new(tls);
            let listener = TcpListener::bind("127.0.0.1:6443").unwrap();
            listener.set_nonblocking(true).unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = Arc::clone(&stop);
            let thread = std::thread::spawn(move || {
                while !stopped.load(Ordering::SeqCst) {
                    match listener.accept() {
                        Ok((stream, _)) => {
                            stream.set_nonblocking(false).unwrap();
                            stream
                                .set_read_timeout(Some(Duration::from_secs(1)))
                                .unwrap();
                            answer(StreamOwned::new(
                                ServerConnection::new(Arc::clone(&tls)).unwrap(),
                                stream,
                            ));
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(2)),
                    }
                }
            });
            Self {
                stop,
                thread: Some(thread),
            }
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::SeqCst);
            self.thread.take().unwrap().join().unwrap();
        }
    }

    fn answer(mut stream: StreamOwned<ServerConnection, std::net::TcpStream>) {
        let mut question = [0; 1024];
        if matches!(stream.read(&mut question), Ok(1..)) {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
            let _ = stream.flush();
        }
    }
}
