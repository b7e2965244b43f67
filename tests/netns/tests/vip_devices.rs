//! VIPs on a bridge, a VLAN and a bond. Kernels without the last two run this in a guest that has them
//! (`tests/vm/run`).
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{net::IpAddr, process::Command};

use kedge_net::link::Links;
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    lan::{Host, Lan},
    on_a_steady_machine, secs,
    train::{Echo, Train},
};

const VIP: &str = "10.20.14.10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

/// Runs `ip` on a host; whether the kernel took it.
fn ip(host: &Host, line: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(line.split(' '));
    let output = host.run(move || command.output().unwrap());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || said.contains("Unknown device type"),
        "ip {line}: {said}"
    );
    output.status.success()
}

/// Moves a host's address from `eth0` to `device` on top of it, which `add` makes. Whether the kernel
/// knows such devices.
fn put_on_top(host: &Host, device: &str, add: &[&str]) -> bool {
    let net = host.net;
    assert!(ip(host, &format!("address del {net} dev eth0")));
    if !add.iter().all(|line| ip(host, line)) {
        return false;
    }
    ip(host, &format!("link set {device} up"))
        && ip(host, "link set eth0 up")
        && ip(host, &format!("address add {net} dev {device}"))
}

fn holds(host: &Host, device: &'static str) -> bool {
    let vip: IpAddr = VIP.parse().unwrap();
    host.run(move || {
        let addresses = Links::open().unwrap().addresses(device).unwrap();
        addresses.iter().any(|net| net.addr() == vip)
    })
}

/// What a VIP does anywhere, on `device`: it comes, is handed over, survives its agent's death.
fn lives_on(device: &'static str, add: &[&str], client_too: bool) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let client = lan.host("client", "10.20.14.99/24");
    for host in [&a, &b] {
        if !put_on_top(host, device, add) {
            let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
            let required = required.split(',').any(|tier| tier == "devices");
            assert!(!required, "this kernel has no {device}");
            println!("skipped: this kernel has no such device as {device}");
            return;
        }
    }
    if client_too {
        assert!(put_on_top(&client, device, add));
    }
    let echoes = [&a, &b].map(Echo::start);
    let member = |priority| {
        format!(
            "vips: {{api: {{addresses: [{VIP}], health: none, vrid: 51, priority: {priority}, \
             profile: wan, startup_delay: 500ms}}}}\n"
        )
    };
    let mut first = Agent::running(&a, KEDGE, &member(250));
    eventually("a holds it", secs(30), || holds(&a, device));
    let mut second = Agent::running(&b, KEDGE, &member(240));
    eventually("b stands by", secs(30), || second.stands_by());
    let interface = first.vip()["interface"].clone();
    assert_eq!(interface, device);
    let train = Train::start(&client, VIP.parse().unwrap());
    first.stop();
    eventually("b holds it", secs(10), || holds(&b, device));
    assert!(!holds(&a, device));
    first.start();
    eventually("a stands by", secs(30), || first.stands_by());
    let _guardian = second.guardian();
    second.kill();
    eventually("a holds it again", secs(10), || holds(&a, device));
    eventually("b lets go", secs(10), || !holds(&b, device));
    let (sent, lost) = train.finish();
    println!("{device}: {lost} of {sent} lost");
    assert_eq!(lost, 0);
    drop(echoes);
}

#[test]
fn a_vip_lives_on_a_bridge() {
    let add = ["link add br1 type bridge", "link set eth0 master br1"];
    on_a_steady_machine(|| lives_on("br1", &add, false));
}

#[test]
fn a_vip_lives_on_a_vlan() {
    let add = ["link add link eth0 name eth0.5 type vlan id 5"];
    on_a_steady_machine(|| lives_on("eth0.5", &add, true));
}

#[test]
fn a_vip_lives_on_a_bond() {
    let add = [
        "link add bond0 type bond mode active-backup miimon 100",
        "link set eth0 down",
        "link set eth0 master bond0",
    ];
    on_a_steady_machine(|| lives_on("bond0", &add, false));
}
