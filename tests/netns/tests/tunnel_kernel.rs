//! The kernel's WireGuard as the tunnel's data plane: what it alone does, and how it gets on with
//! wireguard-go. Machines without it run this in a guest (`tests/vm/run kedge-tests-netns netns tunnel_kernel::`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::back_ends;
use crate::tunnel;

use std::time::Duration;

use back_ends::*;
use kedge_core::{Code, Coded as _};
use kedge_net::{netns::Namespace, wireguard::Wireguard};
use kedge_tunnel_device::{
    State,
    backend::{Backend, Kind},
    keeper::{Keeper, Wish},
    kernel::{self, Kernel, KernelConfig},
    offload::Allowed,
};
use kedge_tunnel_proto::memory::Memory;
use tunnel::{wireguard_go::WireGuardGo, *};

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn the_kernels_device_outlives_its_process() {
    if !ready() || !has(Kind::Kernel) {
        return;
    }
    let site = Site::new();
    let pair = Pair::new(&site, Kind::Kernel, End::Host);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let (session, port) = {
        let told = only(&*pair.host);
        (told.last_handshake, pair.host.device_stats().listen_port)
    };
    let Pair { host, gateway, .. } = pair;
    drop(host);
    assert!(answered(&probe, GATEWAY), "nobody is there and it works on");
    let again = open(&site, Kind::Kernel, End::Host).unwrap();
    assert!(answered(&probe, GATEWAY), "taken over, not made anew");
    assert_eq!(again.events(), [], "nothing is wanted yet");
    let diff = again
        .apply(&End::Host.desired(vec![gateway_peer()]))
        .unwrap();
    assert!(diff.is_empty(), "{diff:?}");
    assert_eq!(only(&*again).last_handshake, session);
    assert_eq!(again.device_stats().listen_port, port);

    // With another key it is another device to its peers.
    drop(again);
    let config = KernelConfig {
        private_key: key(5),
        ..kernel_config(End::Host)
    };
    let other = site.host.run(|| Kernel::open(&config)).unwrap().unwrap();
    assert_eq!(other.device_stats().public_key, key(5).public());
    other
        .apply(&End::Host.desired(vec![gateway_peer()]))
        .unwrap();
    assert!(!answered(&probe, GATEWAY));
    drop(other);
    site.host
        .run(|| {
            assert!(kernel::clear("kedge0").unwrap());
            assert!(!kernel::clear("kedge0").unwrap());
        })
        .unwrap();
    drop(gateway);
}

#[test]
fn a_keeper_repairs_it_leaves_it_and_clears_it_for_the_engine() {
    if !ready() || !has(Kind::Kernel) {
        return;
    }
    let site = Site::new();
    let gateway = open(&site, Kind::Userspace, End::Gateway).unwrap();
    gateway
        .apply(&End::Gateway.desired(vec![host_peer()]))
        .unwrap();
    let _echo = site.echo();
    let desired = End::Host.desired(vec![gateway_peer()]);
    let wish = Wish {
        ifname: "kedge0".into(),
        listen_port: 0,
        other_port: None,
        mtu: 1420,
        noise_core: noise_core(),
        offload: Allowed::ALL,
        workers: workers(),
        addresses: desired.addresses,
        peers: desired.peers,
        realms: desired.realms,
    };
    let keeper = |kind, number| Keeper::of(kind, key(number), Memory::default());
    let job = || {
        let probe = || std::net::UdpSocket::bind((HOST, 0)).unwrap();
        let mut kernel = keeper(Kind::Kernel, 1);
        kernel.want(Some(wish.clone()));
        assert_eq!(kernel.problem(), None);
        let at_host = probe();
        eventually("first answer", LIMIT, || answered(&at_host, GATEWAY));
        let peer = key(2).public().to_string();
        here("wg", &["set", "kedge0", "peer", &peer, "remove"]);
        assert!(!answered(&at_host, GATEWAY));
        kernel.tend();
        assert_eq!(kernel.repairs(), 1);
        eventually("repaired", LIMIT, || answered(&at_host, GATEWAY));
        here("ip", &["link", "delete", "kedge0"]);
        kernel.tend();
        assert_eq!(
            (kernel.openings(), kernel.problem()),
            (2, None),
            "made anew"
        );
        eventually("an answer again", LIMIT, || answered(&at_host, GATEWAY));
        kernel.leave();
        assert!(answered(&at_host, GATEWAY), "it works on");

        let mut engine = keeper(Kind::Userspace, 1);
        engine.want(Some(wish.clone()));
        assert_eq!(engine.problem(), None, "the name is free");
        assert_eq!(engine.device().unwrap().kind(), Kind::Userspace);
        engine.close();
    };
    site.host.run(job).unwrap();
}

/// Runs a program in the namespace of this thread.
fn here(program: &str, arguments: &[&str]) {
    let mut command = std::process::Command::new(program);
    text(program, command.args(arguments).output());
}

#[test]
fn the_kernels_device_takes_nothing_of_somebody_elses() {
    if !ready() || !has(Kind::Kernel) {
        return;
    }
    let site = Site::new();
    run(
        &site.host,
        "ip",
        &["link", "add", "kedge0", "type", "wireguard"],
    );
    let problem = open(&site, Kind::Kernel, End::Host).unwrap_err().problem();
    assert_eq!(problem.code, Code::TunDeviceMissing);
    assert!(!site.host.run(|| kernel::clear("kedge0")).unwrap().unwrap());
    let links = run(&site.host, "ip", &["-o", "link", "show", "kedge0"]);
    assert!(links.contains("kedge0"), "{links}");

    // Nor its port, and nothing is left of the attempt.
    let taken = socket(&site.gateway, "0.0.0.0");
    let port = taken.local_addr().unwrap().port();
    let config = KernelConfig {
        listen_port: port,
        ..kernel_config(End::Gateway)
    };
    let error = site
        .gateway
        .run(|| Kernel::open(&config))
        .unwrap()
        .unwrap_err();
    assert_eq!(error.problem().code, Code::TunPortInUse);
    let links = run(&site.gateway, "ip", &["-o", "link", "show"]);
    assert!(!links.contains("kedge0"), "{links}");
}

#[test]
fn a_kernel_without_wireguard_is_told_as_such() {
    if !ready() || Wireguard::open().is_ok() {
        return;
    }
    let site = Site::new();
    let problem = open(&site, Kind::Kernel, End::Host).unwrap_err().problem();
    assert_eq!(problem.code, Code::TunNoKernel);
    assert!(
        problem
            .fix
            .unwrap()
            .command
            .unwrap()
            .contains("modprobe wireguard")
    );
    let links = run(&site.host, "ip", &["-o", "link", "show"]);
    assert!(!links.contains("kedge0"), "{links}");
}

#[test]
fn the_kernel_calls_wireguard_go() {
    if !ready() || !has(Kind::Kernel) {
        return;
    }
    let site = Site::new();
    let theirs = wireguard_go_at_the_gateway(&site);
    let ours = open(&site, Kind::Kernel, End::Host).unwrap();
    ours.apply(&End::Host.desired(vec![gateway_peer()]))
        .unwrap();
    let _echo = site.echo();
    same_on_both_sides(&site, &theirs, &site.gateway, &*ours);
}

#[test]
fn wireguard_go_calls_the_kernel() {
    if !ready() || !has(Kind::Kernel) {
        return;
    }
    let site = Site::new();
    let ours = open(&site, Kind::Kernel, End::Gateway).unwrap();
    ours.apply(&End::Gateway.desired(vec![host_peer()]))
        .unwrap();
    let _echo = site.echo();
    let theirs = wireguard_go_at_the_host(&site);
    same_on_both_sides(&site, &theirs, &site.host, &*ours);
}

/// Traffic of all sizes passes, and both ends tell the same.
fn same_on_both_sides(
    site: &Site,
    theirs: &WireGuardGo,
    their_namespace: &Namespace,
    ours: &dyn Backend,
) {
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    eventually("first answer, IPv6", LIMIT, || answered(&v6, GATEWAY));
    eventually("first answer, IPv4", LIMIT, || answered(&v4, GATEWAY_V4));
    for length in [0, 1, 15, 16, 17, 1_000, 1_371, 1_372, 4_000] {
        assert!(echoed(&v6, GATEWAY, length), "{length} bytes");
    }
    eventually("both count the same bytes", LIMIT, || {
        let (_, received, sent) = theirs.show(their_namespace);
        let peer = only(ours);
        (received, sent) == (peer.tx_bytes, peer.rx_bytes)
    });
    assert_eq!(only(ours).state, State::Connected);
}
