//! `kedge wg` under `wg`: made, configured, read back, ended; and against wireguard-go.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;
use crate::wg;

use std::{
    fs,
    io::Write as _,
    net::Shutdown,
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    process::Stdio,
    time::{SystemTime, UNIX_EPOCH},
};

use kedge_net::netns::{Lease, Namespace};
use kedge_tunnel_device::{Device, DeviceConfig, State, uapi::Declared};
use tunnel::*;
use wg::{LIMIT, Maker, Wg, preshared, train::Train};

/// A device that waits on [`PORT`] for the other one.
fn waiting() -> String {
    format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n\
         [Peer]\nPublicKey = {}\nPresharedKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n",
        key(2).to_base64().as_str(),
        key(1).public(),
        preshared(9),
    )
}

/// A device that calls the other one.
fn calling() -> String {
    format!(
        "[Interface]\nPrivateKey = {}\n\
         [Peer]\nPublicKey = {}\nPresharedKey = {}\nAllowedIPs = {GATEWAY}/128, {GATEWAY_V4}/32\n\
         Endpoint = {GATEWAY_WAN}:{PORT}\nPersistentKeepalive = 25\n",
        key(1).to_base64().as_str(),
        key(2).public(),
        preshared(9),
    )
}

/// Two devices that talk, and tell the same of it.
fn talks(host: Maker, gateway: Maker) {
    if !ready() {
        return;
    }
    let site = Site::new();
    let [ours, theirs] = meet(&site, host, gateway);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for at in [ours.handshake(&key(2)), theirs.handshake(&key(1))] {
        assert!(at.abs_diff(now.as_secs()) <= 30, "{at} is no Unix time");
    }
    eventually("both count the same bytes", LIMIT, || {
        let of = |device: &Wg<'_>, peer| -> (u64, u64) {
            let told = device.of_peer("transfer", &key(peer)).unwrap();
            let (received, sent) = told.split_once('\t').unwrap();
            (received.parse().unwrap(), sent.parse().unwrap())
        };
        let ((received, sent), (there_received, there_sent)) = (of(&ours, 2), of(&theirs, 1));
        received > 6_000
            && but_for(sent, there_received, INITIATION)
            && but_for(there_sent, received, RESPONSE)
    });
    let seen = theirs.of_peer("endpoints", &key(1)).unwrap();
    assert!(
        seen.starts_with("198.51.100.1:"),
        "behind the router: {seen}"
    );
}

/// Whether what arrived is what was sent, but for a message of a handshake that was lost and sent again: nothing says
/// that the network was ready for the first one.
fn but_for(sent: u64, arrived: u64, message: u64) -> bool {
    let lost = sent.checked_sub(arrived);
    lost.is_some_and(|lost| lost % message == 0 && lost <= 2 * message)
}

/// The host calls the gateway, with a preshared key, and packets of both families and many lengths are
/// answered.
fn meet(site: &Site, host: Maker, gateway: Maker) -> [Wg<'_>; 2] {
    let theirs = Wg::make(&site.gateway, gateway).up(
        &waiting(),
        &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
    );
    let ours = Wg::make(&site.host, host).up(
        &calling(),
        &[&format!("{HOST}/64"), &format!("{HOST_V4}/16")],
    );
    let _echo = site.echo();
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    eventually("first answer, IPv6", LIMIT, || answered(&v6, GATEWAY));
    eventually("first answer, IPv4", LIMIT, || answered(&v4, GATEWAY_V4));
    for length in [0, 1, 16, 17, 1_371, 1_372, 4_000] {
        assert!(echoed(&v6, GATEWAY, length), "{length} bytes");
    }
    [ours, theirs]
}

#[test]
fn we_call_wireguard_go() {
    talks(Maker::Kedge, Maker::WireGuardGo);
}

#[test]
fn wireguard_go_calls_us() {
    talks(Maker::WireGuardGo, Maker::Kedge);
}

#[test]
fn other_engines_that_are_installed_talk_to_us_in_both_roles() {
    if !ready() {
        return;
    }
    for other in [Maker::Boringtun, Maker::Gotatun] {
        if !other.is_installed() {
            println!("{} is not installed", other.program());
            continue;
        }
        for (host, gateway) in [(Maker::Kedge, other), (other, Maker::Kedge)] {
            let site = Site::new();
            let devices = meet(&site, host, gateway);
            println!("{host:?} has called {gateway:?}");
            drop(devices);
        }
    }
}

#[test]
fn two_of_ours_talk() {
    talks(Maker::Kedge, Maker::Kedge);
}

#[test]
fn wg_configures_a_device_and_reads_it_back() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let device = Wg::make(&site.host, Maker::Kedge);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(device.socket()), 0o600);
    assert_eq!(device.show("dump").trim_end(), "(none)\t(none)\t0\toff");
    let link = device.run("ip", &["link", "show", &device.name]);
    assert!(
        link.contains("mtu 1420") && link.contains("state DOWN"),
        "{link}"
    );

    let own = key(1).public();
    let [a, b] = [2, 3].map(|number| key(number).public());
    let given = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = 4242\nFwMark = 0x2a\n\
         [Peer]\nPublicKey = {a}\nAllowedIPs = 10.1.0.0/16, fd00::/8\nEndpoint = [fd00::1]:7\n\
         [Peer]\nPublicKey = {b}\nPresharedKey = {}\nAllowedIPs = 0.0.0.0/0\n\
         PersistentKeepalive = 25\n\
         [Peer]\nPublicKey = {a}\nAllowedIPs = 10.2.0.0/16\nEndpoint = 192.0.2.1:7\n\
         [Peer]\nPublicKey = {own}\nAllowedIPs = 10.3.0.0/16\n",
        key(1).to_base64().as_str(),
        preshared(7),
    );
    device.configure("setconf", &given);
    assert_eq!(device.show("public-key").trim_end(), own.to_string());
    assert_eq!(device.show("listen-port").trim_end(), "4242");
    assert_eq!(device.show("fwmark").trim_end(), "0x2a");
    let peers = device.show("peers");
    assert_eq!(
        peers.lines().count(),
        2,
        "not itself, and none twice: {peers}"
    );
    // The last section of a peer that is named twice is what it has, as with the kernel's.
    assert_eq!(
        device.of_peer("allowed-ips", &key(2)).unwrap(),
        "10.2.0.0/16"
    );
    assert_eq!(device.of_peer("endpoints", &key(2)).unwrap(), "192.0.2.1:7");
    assert_eq!(
        device.of_peer("persistent-keepalive", &key(3)).unwrap(),
        "25"
    );
    assert_eq!(
        device.of_peer("preshared-keys", &key(3)).unwrap(),
        preshared(7)
    );

    // What it shows makes another one like it.
    let shown = device.run("wg", &["showconf", &device.name]);
    let second = Wg::make(&site.host, Maker::Kedge);
    second.configure("setconf", &shown);
    assert_eq!(second.run("wg", &["showconf", &second.name]), shown);

    // Prefixes move, peers come and go, keys are taken away.
    device.set(&format!("peer {a} allowed-ips 10.2.0.0/16,0.0.0.0/0"));
    assert_eq!(device.of_peer("allowed-ips", &key(3)).unwrap(), "(none)");
    device.configure(
        "addconf",
        &format!("[Peer]\nPublicKey = {}\n", key(4).public()),
    );
    assert_eq!(device.show("peers").lines().count(), 3);
    device.set(&format!("peer {b} remove peer {a} persistent-keepalive 5"));
    assert_eq!(device.show("peers").lines().count(), 2);
    assert_eq!(
        device.of_peer("persistent-keepalive", &key(2)).unwrap(),
        "5"
    );
    device.set(&format!(
        "peer {a} persistent-keepalive off preshared-key /dev/null"
    ));
    assert_eq!(
        device.of_peer("persistent-keepalive", &key(2)).unwrap(),
        "off"
    );
    let sync = format!("[Interface]\nListenPort = 4243\n[Peer]\nPublicKey = {b}\n");
    device.configure("syncconf", &sync);
    assert_eq!(device.show("peers").trim_end(), b.to_string());
    assert_eq!(device.show("fwmark").trim_end(), "off");
    let file = device.file("key", key(3).to_base64().as_str());
    device.set(&format!("private-key {}", file.display()));
    assert_eq!(device.show("peers"), "", "the peer it has become is none");
}

#[test]
fn a_taken_port_is_told_as_such_and_changes_nothing() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let device = Wg::make(&site.host, Maker::Kedge).up(&calling(), &[]);
    let port = device.show("listen-port");
    assert_ne!(port.trim_end(), "0");
    let taken = socket(&site.host, "0.0.0.0");
    let taken = taken.local_addr().unwrap().port();
    let refused = device.try_set(&format!(
        "listen-port {taken} peer {} remove",
        key(2).public()
    ));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("Address already in use"), "{said}");
    assert_eq!(device.show("listen-port"), port);
    assert_eq!(device.show("peers").lines().count(), 1, "all or nothing");
}

#[test]
fn a_device_ends_with_its_socket_or_its_interface_and_is_not_made_twice() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let device = Wg::make(&site.host, Maker::Kedge);
    let second = device.try_run("kedge-wg", &[&device.name]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && said.contains("KEDGE-"),
        "{said}"
    );
    // The socket is found by name, in whichever namespace: the interface alone is free there.
    let elsewhere = site
        .gateway
        .run(|| {
            device
                .command("kedge-wg", &[&device.name])
                .output()
                .unwrap()
        })
        .unwrap();
    let said = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert!(said.contains("KEDGE-HOST-0003"), "{said}");
    assert!(device.exists() && device.socket().exists());

    device.run("ip", &["link", "delete", &device.name]);
    eventually("the socket goes with the interface", LIMIT, || {
        !device.socket().exists()
    });
    // A killed process leaves its socket behind.
    drop(UnixListener::bind(device.socket()).unwrap());
    device.run("kedge-wg", &["--", &device.name]);
    assert!(device.exists());
    fs::remove_file(device.socket()).unwrap();
    eventually("the interface goes with the socket", LIMIT, || {
        !device.exists()
    });
}

#[test]
fn a_device_in_the_foreground_ends_at_a_signal() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let device = Wg::named(&site.host);
    let mut process = site
        .host
        .run(|| {
            let mut command = device.command("kedge-wg", &["--foreground", &device.name]);
            command.env("LOG_LEVEL", "verbose").stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .unwrap();
    eventually("the device is there", LIMIT, || device.socket().exists());
    let pid = process.id().to_string();
    device.run("kill", &["-TERM", &pid]);
    assert!(process.wait().unwrap().success());
    assert!(!device.exists() && !device.socket().exists());
    let logged = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
    assert!(logged.contains("WireGuard device closed"), "{logged}");
}

#[test]
fn a_device_without_a_key_sends_nothing_and_one_that_is_given_it_talks() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let _theirs = Wg::make(&site.gateway, Maker::Kedge).up(
        &waiting(),
        &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
    );
    let without = calling().replace(&format!("PrivateKey = {}", key(1).to_base64().as_str()), "");
    let addresses = [&*format!("{HOST}/64"), &format!("{HOST_V4}/16")];
    let ours = Wg::make(&site.host, Maker::Kedge).up(&without, &addresses);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    assert!(!answered(&probe, GATEWAY));
    let sent = ours.of_peer("transfer", &key(2)).unwrap();
    assert_eq!(sent, "0\t0");
    let file = ours.file("key", key(1).to_base64().as_str());
    ours.set(&format!("private-key {}", file.display()));
    Train::start((&site.host, HOST), (&site.gateway, GATEWAY)).finish();
    assert!(ours.handshake(&key(2)) > 0);
}

#[test]
fn an_interface_may_be_moved_to_another_namespace_and_is_reached_from_where_it_was_made() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let lease = Lease::take().unwrap();
    let inside = Namespace::create(&lease.namespace("inside")).unwrap();
    let _theirs = Wg::make(&site.gateway, Maker::Kedge).up(
        &waiting(),
        &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
    );
    let ours = Wg::make(&site.host, Maker::Kedge);
    ours.configure("setconf", &calling());
    ours.run("ip", &["link", "set", &ours.name, "netns", inside.name()]);
    let address = format!("{HOST_V4}/16");
    for arguments in [
        &["address", "add", &address, "dev", &ours.name][..],
        &["link", "set", &ours.name, "up"],
    ] {
        run(&inside, "ip", arguments);
    }
    let _echo = UdpEcho::start(&site.gateway, &[GATEWAY_V4]);
    let probe = socket(&inside, HOST_V4);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY_V4));
    ours.set("listen-port 4711");
    eventually("over another port", LIMIT, || answered(&probe, GATEWAY_V4));
    run(&inside, "ip", &["link", "delete", &ours.name]);
    eventually("the socket goes with the interface", LIMIT, || {
        !ours.socket().exists()
    });
}

#[test]
fn wg_reads_a_role_s_device_without_its_keys_and_changes_nothing() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let device = Wg::named(&site.gateway);
    let config = DeviceConfig {
        ifname: device.name.clone(),
        ..config(2, PORT, &[GATEWAY, GATEWAY_V4])
    };
    let role = site.gateway.run(|| Device::open(config)).unwrap().unwrap();
    role.apply(vec![host_peer()]).unwrap();
    let host = site.open_host();
    host.apply(vec![gateway_peer()]).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let declared = {
        let _inside = runtime.enter();
        Declared::serve(&role.handle(), &device.name).unwrap()
    };
    let told = |what| device.of_peer(what, &key(1));
    eventually("a handshake", LIMIT, || device.handshake(&key(1)) > 0);
    assert_eq!(device.show("listen-port").trim_end(), PORT.to_string());
    assert!(told("endpoints").unwrap().starts_with("198.51.100.1:"));
    let allowed = told("allowed-ips").unwrap();
    assert!(allowed.contains(&format!("{HOST}/128")) && allowed.contains(HOST_V4));
    assert_eq!(device.show("private-key").trim_end(), "(none)");
    for words in [
        "listen-port 5",
        "fwmark 5",
        &format!("peer {} remove", key(1).public()),
    ] {
        let refused = device.try_set(words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("Operation not permitted"), "{words}: {said}");
    }
    assert_eq!(role.local_port(), PORT);
    assert_eq!(peer(&role).state, State::Connected);
    drop(declared);
    drop(runtime);
    assert!(!device.socket().exists());
}

#[test]
fn a_connection_carries_many_requests_and_nonsense_ends_it_alone() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let device = Wg::make(&site.host, Maker::Kedge);
    let converse = |said: &[u8]| -> String {
        let mut stream = UnixStream::connect(device.socket()).unwrap();
        stream.write_all(said).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    let peer = "02".repeat(32);
    let many = format!(
        "set=1\nlisten_port=99999\n\nset=1\nfwmark=7\n\nget=1\n\n\
         set=1\npublic_key={peer}\n\nget=1\n\n"
    );
    let device_part = "listen_port=0\nfwmark=7\n";
    let peer_part = format!(
        "public_key={peer}\nprotocol_version=1\nlast_handshake_time_sec=0\n\
         last_handshake_time_nsec=0\ntx_bytes=0\nrx_bytes=0\npersistent_keepalive_interval=0\n"
    );
    let fine = "errno=0\n\n";
    assert_eq!(
        converse(many.as_bytes()),
        format!("errno=-22\n\n{fine}{device_part}{fine}{fine}{device_part}{peer_part}{fine}")
    );
    let http = b"GET / HTTP/1.1\r\n\r\n".as_slice();
    for nonsense in [http, &[0; 1_000], &[b'a'; 1_000]] {
        assert_eq!(converse(nonsense), "errno=-71\n\n");
    }
    let silent: Vec<UnixStream> = (0..20)
        .map(|_| UnixStream::connect(device.socket()).unwrap())
        .collect();
    assert_eq!(device.show("peers").lines().count(), 1);
    drop(silent);
}

/// Bytes of the first and the second message of a handshake (WireGuard, sections 5.4.2 and 5.4.3).
const INITIATION: u64 = 148;
const RESPONSE: u64 = 92;
