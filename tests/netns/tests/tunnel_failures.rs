//! What goes wrong around a device: coded errors, counted drops, nothing left behind, nothing
//! unencrypted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;

use std::{
    io::{BufRead as _, BufReader},
    net::UdpSocket,
    process::{Command, Stdio},
    sync::atomic::Ordering,
    time::Duration,
};

use kedge_core::{Code, Coded as _};
use kedge_tunnel_device::{
    ApplyError, Device, DropReason, PeerSpec,
    keeper::{self, Keeper, Wish},
    offload::Allowed,
};
use kedge_tunnel_proto::{
    memory::{Memory, Remembered},
    noise::{CoreName, Stamp, Stamps},
};
use tunnel::*;

const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn a_taken_port_or_name_is_told_and_leaves_nothing_behind() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let taken = site
        .gateway
        .run(|| UdpSocket::bind(("0.0.0.0", PORT)))
        .unwrap()
        .unwrap();
    let open = || {
        site.gateway
            .run(|| Device::open(config(2, PORT, &[GATEWAY])))
            .unwrap()
    };
    let problem = open().unwrap_err().problem();
    assert_eq!(problem.code, Code::TunPortInUse, "{problem:?}");
    assert!(problem.fix.is_some() && !problem.evidence.is_empty());
    drop(taken);
    run(
        &site.gateway,
        "ip",
        &["link", "add", "kedge0", "type", "bridge"],
    );
    let problem = open().unwrap_err().problem();
    assert_eq!(problem.code, Code::TunDeviceMissing, "{problem:?}");
    assert!(problem.what.contains("kedge0"));
    run(&site.gateway, "ip", &["link", "delete", "kedge0"]);
    let device = open().unwrap();
    assert_eq!(device.local_port(), PORT);
    let again = site
        .gateway
        .run(|| Device::open(config(3, 0, &[])))
        .unwrap()
        .unwrap_err();
    assert_eq!(again.problem().code, Code::TunDeviceMissing);
}

#[test]
fn a_host_whose_clock_went_back_is_refused_three_times_and_no_longer() {
    if !ready() {
        return;
    }
    let site = Site::new();
    // What the gateway heard of the host is of the year 2106.
    let seen = Stamp::from_bytes(&[0x40, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let seen = Remembered {
        stamps: Stamps {
            seen: Some(seen),
            sent: None,
        },
        endpoint: None,
    };
    let gateway = kedge_tunnel_device::DeviceConfig {
        noise_core: CoreName::Own,
        memory: Memory([(key(1).public(), seen)].into()),
        ..config(2, PORT, &[GATEWAY, GATEWAY_V4])
    };
    let gateway = site.gateway.run(|| Device::open(gateway)).unwrap().unwrap();
    gateway.apply(vec![host_peer()]).unwrap();
    let host = site.open_host();
    host.apply(vec![gateway_peer()]).unwrap();
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    let limit = Duration::from_secs(25);
    eventually("answered again", limit, || answered(&probe, GATEWAY));
    assert_eq!(peer(&gateway).drops, [(DropReason::StaleHandshake, 3)]);
    // It is believed from here on: the next handshake is answered at once.
    let before = peer(&gateway).last_handshake;
    host.rehandshake("gw-0").unwrap();
    eventually("another session", LIMIT, || {
        peer(&gateway).last_handshake > before
    });
    assert_eq!(peer(&gateway).drops, [(DropReason::StaleHandshake, 3)]);
}

#[test]
fn a_host_that_changes_its_noise_core_is_not_refused_until_its_stamps_are_newer() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let open = |number, port, addresses: [&str; 2], noise_core| {
        let config = kedge_tunnel_device::DeviceConfig {
            noise_core,
            ..config(number, port, &addresses)
        };
        Device::open(config).unwrap()
    };
    let at = [GATEWAY, GATEWAY_V4];
    let gateway = site.gateway.run(|| open(2, PORT, at, CoreName::Boringtun));
    let gateway = gateway.unwrap();
    gateway.apply(vec![host_peer()]).unwrap();
    let _echo = site.echo();
    for core in [CoreName::Boringtun, CoreName::Own] {
        let host = site.host.run(|| open(1, 0, [HOST, HOST_V4], core)).unwrap();
        host.apply(vec![gateway_peer()]).unwrap();
        let probe = socket(&site.host, HOST);
        // The stamps of boringtun's core are 27 s ahead of all others.
        let limit = Duration::from_secs(20);
        eventually(&format!("answered with {core:?}"), limit, || {
            answered(&probe, GATEWAY)
        });
        host.close().unwrap();
    }
    let stale: Vec<_> = peer(&gateway).drops;
    assert_eq!(stale, [(DropReason::StaleHandshake, 3)]);
}

#[test]
fn a_missing_tun_device_is_told() {
    if !ready() {
        return;
    }
    let said = inner(
        "missing",
        "mount -t tmpfs none /dev/net && exec \"$0\" \"$@\"",
    );
    assert!(
        said.contains("KEDGE-TUN-0001") && said.contains("modprobe tun"),
        "{said}"
    );
}

#[test]
fn a_missing_privilege_is_told() {
    if !ready() {
        return;
    }
    let drop = "exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps -all \
                --ambient-caps -all \"$0\" \"$@\"";
    let said = inner("privilege", drop);
    assert!(
        said.contains("KEDGE-NET-0001") && said.contains("CAP_NET_ADMIN"),
        "{said}"
    );
}

#[test]
fn after_a_kill_nothing_leaves_unencrypted() {
    if !ready() {
        return;
    }
    let site = Site::new();
    run(
        &site.router,
        "nft",
        &["add table ip seen; add counter ip seen plain; \
         add chain ip seen pre { type filter hook prerouting priority -300; }; \
         add rule ip seen pre ip daddr 198.18.0.0/16 counter name plain"],
    );
    let plain = || {
        run(
            &site.router,
            "nft",
            &["list", "counter", "ip", "seen", "plain"],
        )
    };
    // Without routes of ours the packet takes the default route: the counter works.
    let probe = site
        .host
        .run(|| UdpSocket::bind("0.0.0.0:0"))
        .unwrap()
        .unwrap();
    probe.send_to(b"plain", (GATEWAY_V4, 7)).unwrap();
    eventually("the router sees it", LIMIT, || {
        plain().contains("packets 1 ")
    });

    let gateway = site.open_gateway();
    gateway.apply(vec![host_peer()]).unwrap();
    let _echo = site.echo();
    let mut process = site
        .host
        .run(|| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tunnel_failures::role", "--nocapture"])
                .env("KEDGE_TEST_ROLE", "device")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("device ready")));
    let through = socket(&site.host, HOST_V4);
    eventually("traffic through the child's device", LIMIT, || {
        answered(&through, GATEWAY_V4)
    });
    process.kill().unwrap();
    process.wait().unwrap();
    eventually("the interface is gone", LIMIT, || {
        !run(&site.host, "ip", &["link"]).contains("kedge0")
    });
    for to in [GATEWAY_V4, GATEWAY] {
        let any = if to == GATEWAY { "[::]:0" } else { "0.0.0.0:0" };
        let probe = site.host.run(|| UdpSocket::bind(any)).unwrap().unwrap();
        let refused = probe.send_to(b"plain", (to, 7)).unwrap_err();
        println!("to {to}: {refused}");
    }
    assert!(plain().contains("packets 1 "), "{}", plain());

    // A new process takes over what it finds and clears it when the prefix is no longer wanted.
    let host = site.open_host();
    host.apply(vec![gateway_peer()]).unwrap();
    let through = socket(&site.host, HOST_V4);
    eventually("traffic again", LIMIT, || answered(&through, GATEWAY_V4));
    let fewer = PeerSpec {
        allowed_ips: vec![GATEWAY.parse::<std::net::IpAddr>().unwrap().into()],
        ..gateway_peer()
    };
    host.apply(vec![fewer]).unwrap();
    let routes = run(&site.host, "ip", &["route", "show", "proto", "107"]);
    assert_eq!(routes, "", "the IPv4 prefix is gone");
    assert!(!run(&site.host, "ip", &["-6", "route", "show", "proto", "107"]).is_empty());
}

#[test]
fn garbage_is_counted_by_reason_and_the_session_lives() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let (host, gateway) = site.open();
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let stranger = site
        .router
        .run(|| UdpSocket::bind("198.51.100.1:0"))
        .unwrap()
        .unwrap();
    let to = (GATEWAY_WAN, PORT);
    let typed = |kind: u8, length: usize| {
        let mut bytes = vec![0x5a; length];
        bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
        bytes
    };
    for _ in 0..10 {
        stranger.send_to(b"", to).unwrap();
        stranger.send_to(&typed(9, 100), to).unwrap();
        stranger.send_to(&typed(1, 147), to).unwrap();
        stranger.send_to(&typed(1, 148), to).unwrap();
        stranger.send_to(&typed(2, 92), to).unwrap();
        stranger.send_to(&typed(3, 64), to).unwrap();
        stranger.send_to(&typed(4, 32), to).unwrap();
        stranger.send_to(&typed(4, 60_000), to).unwrap();
    }
    let count = |reason| {
        let drops = gateway.device_stats().drops;
        drops
            .iter()
            .find(|(seen, _)| *seen == reason)
            .map_or(0, |(_, count)| *count)
    };
    eventually("everything is counted", LIMIT, || {
        count(DropReason::Malformed) == 30
            && count(DropReason::BadMac) == 10
            && count(DropReason::UnknownSession) == 40
    });
    assert!(answered(&probe, GATEWAY));
    let endpoint = peer(&gateway).endpoint.unwrap();
    assert_ne!(endpoint, stranger.local_addr().unwrap());
    drop(host);
}

#[test]
fn what_a_killed_process_left_is_cleared_when_no_tunnel_is_wanted() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let routes = || {
        let of = |family| run(&site.host, "ip", &[family, "route", "show", "proto", "107"]);
        of("-4") + &of("-6")
    };
    let clear = |ifname| site.host.run(|| keeper::clear_leftovers(ifname)).unwrap();
    // Not this tunnel's: another one's, and one that a person made.
    for other in [
        &["198.18.9.0/24", "metric", "1879048193", "proto", "107"][..],
        &["198.18.0.1/32", "metric", "77"],
    ] {
        let add = [&["route", "add", "unreachable"], other].concat();
        run(&site.host, "ip", &add);
    }
    let host = site.open_host();
    host.apply(vec![gateway_peer()]).unwrap();
    let before = routes();
    clear("kedge0");
    assert_eq!(routes(), before, "they are in use");

    // As after a kill: the interface goes, the routes stay.
    drop(host);
    assert!(routes().contains("unreachable fd6b:6564:6765::1"));
    clear("kedge1");
    assert!(routes().contains("unreachable fd6b:6564:6765::1"));
    clear("kedge0");
    let left = routes();
    assert!(left.contains("198.18.9.0/24"), "{left}");
    assert_eq!(left.lines().count(), 1, "{left}");
    let all = run(&site.host, "ip", &["route"]);
    assert!(all.contains("198.18.0.1 metric 77"), "{all}");
}

#[test]
fn a_lost_device_leaves_no_routes_once_it_is_not_wanted_any_more() {
    if !ready() {
        return;
    }
    EXPECTED_ERRORS.fetch_add(1, Ordering::Relaxed);
    let site = Site::new();
    let routes = || run(&site.host, "ip", &["-6", "route", "show", "proto", "107"]);
    let wish = Wish {
        ifname: "kedge0".to_owned(),
        listen_port: PORT,
        other_port: None,
        mtu: 1_420,
        noise_core: noise_core(),
        offload: Allowed::ALL,
        workers: workers(),
        addresses: vec![HOST.parse::<std::net::IpAddr>().unwrap().into()],
        peers: vec![gateway_peer()],
        realms: std::collections::BTreeMap::new(),
    };
    let mut keeper = Keeper::new(key(1), Memory::default());
    site.host.run(|| keeper.want(Some(wish.clone()))).unwrap();
    assert!(routes().contains("dev kedge0"));
    run(&site.host, "ip", &["link", "delete", "kedge0"]);
    let mut taken = None;
    let bind = || UdpSocket::bind(("::", PORT));
    eventually("its port is free", LIMIT, || {
        let running = keeper.device().unwrap().device_stats().running;
        taken = site.host.run(bind).unwrap().ok();
        !running && taken.is_some()
    });
    site.host.run(|| keeper.want(Some(wish.clone()))).unwrap();
    assert!(keeper.device().is_none() && keeper.problem().is_some());
    assert!(routes().contains("unreachable"), "still wanted");
    site.host.run(|| keeper.want(None)).unwrap();
    assert_eq!(routes(), "");
    drop(taken);
}

#[test]
fn a_deleted_interface_ends_the_worker_and_is_told() {
    if !ready() {
        return;
    }
    EXPECTED_ERRORS.fetch_add(1, Ordering::Relaxed);
    let site = Site::new();
    let (host, gateway) = site.open();
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    run(&site.host, "ip", &["link", "set", "kedge0", "down"]);
    assert!(!answered(&probe, GATEWAY));
    run(&site.host, "ip", &["link", "set", "kedge0", "up"]);
    // The kernel took addresses and routes with it; applying heals.
    host.set_addresses(&config(1, 0, &[HOST, HOST_V4]).addresses)
        .unwrap();
    host.apply(vec![gateway_peer()]).unwrap();
    eventually("after down and up", LIMIT, || answered(&probe, GATEWAY));
    assert!(host.device_stats().running);
    run(&site.host, "ip", &["link", "delete", "kedge0"]);
    eventually("the worker notices", LIMIT, || !host.device_stats().running);
    let error = host.apply(vec![]).unwrap_err();
    assert!(matches!(error, ApplyError::Stopped), "{error:?}");
    assert_eq!(error.problem().code, Code::TunDeviceMissing);
    drop(gateway);
}

/// What the test program does when it is started by itself; nothing in a normal run.
#[test]
fn role() {
    match std::env::var("KEDGE_TEST_ROLE").as_deref() {
        Ok("missing" | "privilege") => {
            let problem = Device::open(config(1, 0, &[])).unwrap_err().problem();
            println!("{} {} {:?}", problem.code, problem.what, problem.fix);
        }
        Ok("device") => {
            let device = Device::open(config(1, 0, &[HOST, HOST_V4])).unwrap();
            device.apply(vec![gateway_peer()]).unwrap();
            println!("device ready");
            // Until the parent kills us, or goes.
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        _ => {}
    }
}

/// Runs [`role`] in namespaces of its own after `prepare`, and returns what it said.
fn inner(role: &str, prepare: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", prepare])
        .arg(program)
        .args(["--exact", "tunnel_failures::role", "--nocapture"])
        .env("KEDGE_TEST_ROLE", role)
        .output();
    text(role, output)
}

#[test]
fn a_gateway_that_restarts_calls_a_host_behind_nat_if_it_remembers_it() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let wish = Wish {
        ifname: "kedge0".to_owned(),
        listen_port: PORT,
        other_port: None,
        mtu: 1420,
        noise_core: noise_core(),
        offload: Allowed::ALL,
        workers: workers(),
        addresses: vec![GATEWAY.parse::<std::net::IpAddr>().unwrap().into()],
        peers: vec![host_peer()],
        realms: std::collections::BTreeMap::new(),
    };
    let run = |memory| {
        let mut keeper = Keeper::new(key(2), memory);
        let wish = Some(wish.clone());
        site.gateway.run(|| keeper.want(wish)).unwrap();
        keeper
    };
    let host = site.open_host();
    // It says nothing by itself.
    host.apply(vec![PeerSpec {
        keepalive: None,
        always_up: false,
        ..gateway_peer()
    }])
    .unwrap();
    let _host_echo = UdpEcho::start(&site.host, &[HOST]);

    let mut gateway = run(Memory::default());
    let (from_host, from_gateway) = (socket(&site.host, HOST), socket(&site.gateway, GATEWAY));
    let echo = UdpEcho::start(&site.gateway, &[GATEWAY]);
    eventually("the host calls", LIMIT, || answered(&from_host, GATEWAY));
    assert!(answered_within(&from_gateway, HOST, LIMIT));
    drop(echo);
    site.gateway.run(|| gateway.close()).unwrap();
    let memory = gateway.learned().unwrap().clone();
    assert_eq!(memory.0.len(), 1);

    let mut forgetful = run(Memory::default());
    let from_gateway = socket(&site.gateway, GATEWAY);
    assert!(!answered_within(
        &from_gateway,
        HOST,
        Duration::from_secs(1)
    ));
    site.gateway.run(|| forgetful.close()).unwrap();
    assert!(forgetful.learned().is_none(), "it has heard nothing");

    let mut gateway = run(memory);
    let from_gateway = socket(&site.gateway, GATEWAY);
    assert!(answered_within(&from_gateway, HOST, LIMIT));
    site.gateway.run(|| gateway.close()).unwrap();
}
