//! What every data plane of the tunnel does, on each of them and at both ends: Kedge's engine anywhere,
//! the kernel's WireGuard where there is one (`tests/vm/run kedge-tests-netns netns tunnel_back_ends::`). The
//! other end is Kedge's engine.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::back_ends;
use crate::tunnel;

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use back_ends::*;
use ipnet::IpNet;
use kedge_core::{Code, Coded as _};
use kedge_tunnel_device::{
    PeerSpec, State,
    backend::{Capability, Event, Kind, Paths},
    echo,
};
use kedge_tunnel_proto::keys::PresharedKey;
use tunnel::*;

const LIMIT: Duration = Duration::from_secs(10);

back_ends::on_each! {
    packets_pass_and_are_counted,
    a_preshared_key_is_mixed_in_by_the_next_handshake,
    a_peer_that_is_removed_and_added_again_is_reached_again,
    prefixes_move_between_peers_and_sessions_stay,
    a_keepalive_is_sent_and_can_be_changed,
    a_peer_is_followed_to_where_it_is,
    what_somebody_else_changes_is_repaired,
    a_peer_that_forgot_its_session_is_called_anew,
    many_prefixes_are_had_and_taken_away,
    routes_are_as_large_as_the_way_carries,
}

fn packets_pass_and_are_counted(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    eventually("first answer, IPv6", LIMIT, || answered(&v6, GATEWAY));
    eventually("first answer, IPv4", LIMIT, || answered(&v4, GATEWAY_V4));
    for length in [0, 1, 15, 16, 17, 1_000, 1_371, 1_372, 4_000] {
        assert!(echoed(&v6, GATEWAY, length), "{length} bytes");
    }
    let back = UdpEcho::start(&site.host, &[HOST]);
    let from_gateway = socket(&site.gateway, GATEWAY);
    eventually("the gateway calls the host", LIMIT, || {
        answered(&from_gateway, HOST)
    });
    drop(back);

    let (host, gateway) = (only(&*pair.host), only(&*pair.gateway));
    assert_eq!(
        (host.state, gateway.state),
        (State::Connected, State::Connected)
    );
    for peer in [&host, &gateway] {
        assert!(peer.last_handshake.unwrap().elapsed().unwrap() < LIMIT);
        assert!(peer.last_authenticated_data.is_some());
        assert!(peer.rx_bytes > 9_000 && peer.tx_bytes > 9_000, "{peer:?}");
        assert_eq!(peer.drops, []);
    }
    eventually("both count the same bytes", LIMIT, || {
        let (host, gateway) = (only(&*pair.host), only(&*pair.gateway));
        (host.rx_bytes, host.tx_bytes) == (gateway.tx_bytes, gateway.rx_bytes)
    });
    assert_eq!(
        gateway.endpoint.unwrap().ip().to_string(),
        "198.51.100.1",
        "the router's"
    );
    if kind.lacks(Capability::PacketCounters).is_none() {
        assert!(only(pair.subject()).rx_packets >= 9);
    }

    // What is there is not applied again.
    let before = only(&*pair.host).last_handshake;
    for (device, peers, end) in [
        (&pair.host, vec![gateway_peer()], End::Host),
        (&pair.gateway, vec![host_peer()], End::Gateway),
    ] {
        let diff = device.apply(&end.desired(peers)).unwrap();
        assert!(diff.is_empty(), "{diff:?}");
        assert_eq!(device.events(), []);
    }
    assert!(answered(&v6, GATEWAY));
    assert_eq!(only(&*pair.host).last_handshake, before);

    let routes = run(
        end.namespace(&site),
        "ip",
        &["-6", "route", "show", "proto", "107"],
    );
    assert!(
        routes.contains("dev kedge0") && routes.contains("unreachable"),
        "{routes}"
    );
    let link = run(
        end.namespace(&site),
        "ip",
        &["address", "show", "dev", "kedge0"],
    );
    assert!(
        link.contains("mtu 1420") && !link.contains("fe80"),
        "{link}"
    );
    let subject = pair.into_subject();
    subject.close().unwrap();
    for family in ["-4", "-6"] {
        let left = run(
            end.namespace(&site),
            "ip",
            &[family, "route", "show", "proto", "107"],
        );
        assert_eq!(left, "", "a closed device leaves nothing");
    }
    let links = run(end.namespace(&site), "ip", &["-o", "link", "show"]);
    assert!(!links.contains("kedge0"), "{links}");
}

fn a_preshared_key_is_mixed_in_by_the_next_handshake(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let apply = |host: Option<u8>, gateway: Option<u8>| {
        let with = |peer: PeerSpec, byte: Option<u8>| PeerSpec {
            preshared_key: byte.and_then(|byte| PresharedKey::from_bytes([byte; 32])),
            ..peer
        };
        let host = End::Host.desired(vec![with(gateway_peer(), host)]);
        let gateway = End::Gateway.desired(vec![with(host_peer(), gateway)]);
        (
            pair.host.apply(&host).unwrap(),
            pair.gateway.apply(&gateway).unwrap(),
        )
    };
    let before = only(&*pair.host).last_handshake;
    let (host, gateway) = apply(Some(9), Some(9));
    assert_eq!((host.changed.len(), gateway.changed.len()), (1, 1));
    assert!(answered(&probe, GATEWAY), "the session stays");
    assert_eq!(only(&*pair.host).last_handshake, before);
    let handshake = |what: &str| {
        let before = only(&*pair.host).last_handshake;
        // The engine takes no wish right after a handshake.
        let mut ask = pair.asking();
        eventually(what, LIMIT, || {
            ask();
            answered(&probe, GATEWAY) && only(&*pair.host).last_handshake > before
        });
    };
    handshake("a handshake with the preshared key");

    // One end alone: no handshake is completed any more.
    apply(Some(9), Some(8));
    let (at, since) = (only(&*pair.host).last_handshake, Instant::now());
    while since.elapsed() < Duration::from_secs(3) {
        pair.host.handle().rehandshake("gw-0").unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let now = only(&*pair.host).last_handshake;
        assert!(now.is_none() || now == at, "{now:?}");
    }
    apply(Some(8), Some(8));
    handshake("with the same one again");
    apply(None, None);
    handshake("and without");
}

fn a_peer_that_is_removed_and_added_again_is_reached_again(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    for round in 1..=2 {
        let peer = end.peer();
        let diff = pair.subject().apply(&end.desired(vec![])).unwrap();
        assert_eq!((diff.removed.len(), diff.routes), (1, 4), "{diff:?}");
        assert!(pair.subject().stats().is_empty());
        assert!(!answered(&probe, GATEWAY), "round {round}");
        let diff = pair.subject().apply(&end.desired(vec![peer])).unwrap();
        assert_eq!((diff.added.len(), diff.routes), (1, 4), "{diff:?}");
        if end == End::Gateway {
            // It does not know where the host is, and the host's session is one it forgot.
            pair.host.handle().rehandshake("gw-0").unwrap();
        }
        eventually("an answer again", LIMIT, || answered(&probe, GATEWAY));
    }
}

fn prefixes_move_between_peers_and_sessions_stay(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    eventually("first answer, IPv6", LIMIT, || answered(&v6, GATEWAY));
    eventually("first answer, IPv4", LIMIT, || answered(&v4, GATEWAY_V4));
    let peer = end.peer();
    let (six, four): (Vec<IpNet>, Vec<IpNet>) = peer
        .allowed_ips
        .iter()
        .partition(|net| net.addr().is_ipv6());
    let only_six = PeerSpec {
        allowed_ips: six,
        ..peer.clone()
    };
    let another = |prefixes| another(end, prefixes);
    let session = only(pair.subject()).last_handshake;
    let moved = end.desired(vec![only_six.clone(), another(four.clone())]);
    let (elsewhere, back) = (moved, end.desired(vec![peer.clone(), another(Vec::new())]));
    let taken = end.desired(vec![only_six, another(Vec::new())]);
    for (what, desired, passes) in [
        ("moved to another peer", &elsewhere, false),
        ("moved back", &back, true),
        ("taken away", &taken, false),
        ("given again", &back, true),
        ("moved once more", &elsewhere, false),
    ] {
        let diff = pair.subject().apply(desired).unwrap();
        assert!(diff.changed.contains(&peer.public_key), "{what}: {diff:?}");
        assert_eq!(diff.removed, [], "{what}");
        assert!(pair.subject().apply(desired).unwrap().is_empty(), "{what}");
        assert!(answered(&v6, GATEWAY), "{what}: the other prefix stays");
        if passes {
            eventually(what, LIMIT, || answered(&v4, GATEWAY_V4));
        } else {
            assert!(!answered(&v4, GATEWAY_V4), "{what}");
        }
    }
    let stats = pair.subject().stats();
    let now = stats
        .iter()
        .find(|it| it.name == peer.name)
        .unwrap()
        .last_handshake;
    assert_eq!(now, session, "one session all along");
}

fn a_keepalive_is_sent_and_can_be_changed(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let with = |keepalive: Option<u64>| {
        let peer = PeerSpec {
            keepalive: keepalive.map(Duration::from_secs),
            always_up: false,
            ..end.peer()
        };
        pair.subject().apply(&end.desired(vec![peer])).unwrap()
    };
    let heard = || only(pair.other()).last_authenticated_data.unwrap();
    assert_eq!(with(Some(1)).changed.len(), 1);
    for _ in 0..2 {
        let before = heard();
        eventually("a keepalive is heard", Duration::from_secs(3), || {
            heard() > before
        });
    }
    assert_eq!(with(None).changed.len(), 1);
    // What is on its way comes; what both ends owe each other for the last data comes 10 s after it.
    std::thread::sleep(Duration::from_millis(500));
    let before = heard();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(heard(), before, "none is sent any more");
    assert!(answered(&probe, GATEWAY));
}

fn a_peer_is_followed_to_where_it_is(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let session = only(&*pair.host).last_handshake;
    let before = only(&*pair.gateway).endpoint.unwrap();

    // Its name has another address from here on.
    run(
        &site.gateway,
        "ip",
        &["address", "add", "198.51.100.8/24", "dev", "eth0"],
    );
    let elsewhere = SocketAddr::new("198.51.100.8".parse().unwrap(), PORT);
    let resolved = PeerSpec {
        endpoint: Some(elsewhere),
        ..gateway_peer()
    };
    let diff = pair
        .host
        .apply(&End::Host.desired(vec![resolved.clone()]))
        .unwrap();
    assert_eq!(diff.changed, [gateway_peer().public_key]);
    assert_eq!(only(&*pair.host).endpoint, Some(elsewhere));
    eventually("at the other address", LIMIT, || answered(&probe, GATEWAY));

    // The host has another port, because the router forgot its flows.
    let rules = "flush ruleset; add table ip nat; \
        add chain ip nat post { type nat hook postrouting priority 100; }; \
        add rule ip nat post oifname wan meta l4proto udp masquerade to :40000-40010";
    run(&site.router, "ip", &["link", "set", "wan", "down"]);
    run(&site.router, "nft", &[rules]);
    run(&site.router, "ip", &["link", "set", "wan", "up"]);
    eventually("over the new mapping", LIMIT, || answered(&probe, GATEWAY));
    eventually("the gateway follows", LIMIT, || {
        let now = only(&*pair.gateway).endpoint.unwrap();
        answered(&probe, GATEWAY) && (40_000..=40_010).contains(&now.port())
    });
    assert_ne!(only(&*pair.gateway).endpoint, Some(before));
    // It is where it is, not where it was wanted.
    let again = pair.host.apply(&End::Host.desired(vec![resolved])).unwrap();
    let gateway = pair
        .gateway
        .apply(&End::Gateway.desired(vec![host_peer()]))
        .unwrap();
    assert!(
        again.is_empty() && gateway.is_empty(),
        "{again:?} {gateway:?}"
    );
    assert!(answered(&probe, GATEWAY));
    assert_eq!(
        only(&*pair.host).last_handshake,
        session,
        "no handshake was needed"
    );
}

fn what_somebody_else_changes_is_repaired(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let (namespace, desired) = (end.namespace(&site), end.desired(vec![end.peer()]));
    let four = match end {
        End::Host => GATEWAY_V4,
        End::Gateway => HOST_V4,
    };
    let other = key(2 - u8::from(end == End::Gateway)).public().to_string();
    let stranger = key(9).public().to_string();
    let mut foreign = vec![
        vec!["ip", "route", "del", four, "dev", "kedge0"],
        vec!["ip", "route", "flush", "proto", "107"],
    ];
    if kind == Kind::Kernel {
        foreign.extend([
            vec!["wg", "set", "kedge0", "peer", &other, "remove"],
            vec!["wg", "set", "kedge0", "peer", &other, "allowed-ips", ""],
            vec![
                "wg",
                "set",
                "kedge0",
                "peer",
                &stranger,
                "allowed-ips",
                "10.0.0.0/8",
            ],
            vec![
                "wg",
                "set",
                "kedge0",
                "peer",
                &other,
                "persistent-keepalive",
                "7",
            ],
            vec!["wg", "set", "kedge0", "fwmark", "7"],
            vec!["wg", "set", "kedge0", "private-key", "/dev/null"],
            vec!["ip", "link", "set", "kedge0", "mtu", "1300"],
            vec!["ip", "link", "set", "kedge0", "down"],
        ]);
    }
    for line in foreign {
        assert_eq!(pair.subject().events(), [], "before {line:?}");
        run(namespace, line[0], &line[1..]);
        eventually(&format!("{line:?} is noticed"), LIMIT, || {
            pair.subject().events() == [Event::Strayed]
        });
        let diff = pair.subject().apply(&desired).unwrap();
        assert!(!diff.is_empty(), "{line:?}");
        // The kernel may have forgotten where the host is, whose echo would find that out.
        let forgot = end == End::Gateway && kind == Kind::Kernel;
        let mut ask = pair.asking();
        eventually("an answer again", LIMIT, || {
            forgot.then(&mut ask);
            answered(&probe, GATEWAY)
        });
        assert!(
            pair.subject().apply(&desired).unwrap().is_empty(),
            "{line:?}"
        );
    }
    if kind == Kind::Userspace {
        EXPECTED_ERRORS.fetch_add(1, Ordering::Relaxed);
    }
    run(namespace, "ip", &["link", "delete", "kedge0"]);
    eventually("the loss is noticed", LIMIT, || {
        pair.subject().events() == [Event::Lost]
    });
    assert!(!pair.subject().device_stats().running);
    let refused = pair.subject().apply(&end.desired(vec![]));
    assert_eq!(refused.unwrap_err().problem().code, Code::TunDeviceMissing);
}

fn a_peer_that_forgot_its_session_is_called_anew(kind: Kind, end: End) {
    let site = Site::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut pair = Pair::new(&site, kind, end);
    let mut answers = site.echo();
    let in_runtime = || runtime.enter();
    let responder = || {
        let job = || {
            let _guard = in_runtime();
            echo::Responder::start(&[GATEWAY.parse().unwrap()]).unwrap()
        };
        site.gateway.run(job).unwrap()
    };
    let mut responding = responder();
    let handle = pair.host.handle();
    let client = site
        .host
        .run(|| {
            let _guard = in_runtime();
            let (local, remote) = (HOST.parse().unwrap(), GATEWAY.parse().unwrap());
            echo::Client::start(handle, "gw-0", local, remote, echo::Config::default()).unwrap()
        })
        .unwrap();
    eventually("echo up", LIMIT, || client.report().up == Some(true));
    let counted = only(&*pair.host);
    let probe = socket(&site.host, HOST);
    for round in 1..=2 {
        drop((answers, responding));
        let closed = Instant::now();
        pair = pair.restart_gateway(&site);
        answers = site.echo();
        responding = responder();
        eventually("traffic flows again", LIMIT, || answered(&probe, GATEWAY));
        let gap = closed.elapsed();
        println!(
            "{kind} at the {end:?}, restart {round}: {:.3} s",
            gap.as_secs_f64()
        );
        assert!(gap <= Duration::from_secs(6), "{gap:?}");
    }
    eventually("echo up again", LIMIT, || client.report().up == Some(true));
    assert!(client.report().forced >= 1);
    let now = only(&*pair.host);
    assert!(
        now.rx_bytes > counted.rx_bytes && now.tx_bytes > counted.tx_bytes,
        "counters only grow: {counted:?} {now:?}"
    );
    drop((answers, responding, client));
}

fn many_prefixes_are_had_and_taken_away(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let many = |from: u16| -> Vec<IpNet> {
        let address = |n: u16| IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, n]).into();
        (from..from + 600).map(address).collect()
    };
    let mut peer = end.peer();
    peer.allowed_ips.extend(many(0));
    let another = |prefixes| another(end, prefixes);
    let session = only(&*pair.host).last_handshake;
    for (what, peers) in [
        ("come", vec![peer.clone(), another(many(1_000))]),
        ("move", vec![end.peer(), another(many(0))]),
        ("go", vec![end.peer(), another(Vec::new())]),
    ] {
        let desired = end.desired(peers);
        let since = Instant::now();
        pair.subject().apply(&desired).unwrap();
        println!(
            "{kind}: 600 prefixes {what} in {:.3} s",
            since.elapsed().as_secs_f64()
        );
        assert!(pair.subject().apply(&desired).unwrap().is_empty(), "{what}");
        assert!(answered(&probe, GATEWAY), "{what}");
    }
    assert_eq!(named(&*pair.host, "gw-0").last_handshake, session);
}

fn routes_are_as_large_as_the_way_carries(kind: Kind, end: End) {
    let site = Site::new();
    let pair = Pair::new(&site, kind, end);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let (namespace, peer) = (end.namespace(&site), end.peer());
    let paths = |device, mtu| Paths {
        device,
        peers: [(peer.name.clone(), mtu), ("nobody".into(), 1280)].into(),
    };
    let routes = |family| run(namespace, "ip", &[family, "route", "show", "dev", "kedge0"]);
    let link = || run(namespace, "ip", &["link", "show", "dev", "kedge0"]);
    for (device, mtu, shown) in [
        (None, 1300, 1420),
        (Some(1420), 1400, 1420),
        (Some(8940), 8940, 8940),
        (Some(1420), 1280, 1420),
    ] {
        let diff = pair.subject().lead(&paths(device, mtu)).unwrap();
        assert_eq!(diff.routes, 4, "two of two were replaced");
        for family in ["-4", "-6"] {
            let routes = routes(family);
            assert!(routes.contains(&format!("mtu {mtu}")), "{mtu}: {routes}");
        }
        assert!(link().contains(&format!("mtu {shown}")), "{}", link());
        let diff = pair.subject().lead(&paths(device, mtu)).unwrap();
        assert!(diff.is_empty(), "{diff:?}");
        let desired = end.desired(vec![end.peer()]);
        let diff = pair.subject().apply(&desired).unwrap();
        assert!(diff.is_empty(), "{diff:?}");
        assert!(echoed(&probe, GATEWAY, 5_000), "{mtu}");
    }
    // Somebody else gives a route another MTU.
    let to = match end {
        End::Host => GATEWAY_V4,
        End::Gateway => HOST_V4,
    };
    let line = [
        "route", "change", to, "dev", "kedge0", "proto", "107", "scope", "link", "mtu", "1500",
    ];
    run(namespace, "ip", &line);
    eventually("it is noticed", LIMIT, || {
        pair.subject().events() == [Event::Strayed]
    });
    let desired = end.desired(vec![end.peer()]);
    assert_eq!(pair.subject().apply(&desired).unwrap().routes, 2);
    assert!(routes("-4").contains("mtu 1280"));
    // Without what is known they are as before.
    pair.subject().lead(&Paths::default()).unwrap();
    assert!(!routes("-4").contains("mtu") && !routes("-6").contains("mtu 1280"));
    assert!(answered(&probe, GATEWAY));
}
