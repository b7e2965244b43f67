//! What `kedge migrate` writes, run beside what it was written for.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{fs, path::PathBuf, time::Duration};

use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    bounds::active_down,
    capture::{ADVERT, Capture, tshark},
    eventually,
    keepalived::Keepalived,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs, throughout,
};

const VIP: &str = "10.20.14.10";
const BESIDE: &str = "fd00:14::10";
const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

/// A file of keepalived, with a parameter and a track.
fn keepalived_conf(host: &Host, priority: u8) -> String {
    format!(
        "$VRID=51\n\
         global_defs {{\n  router_id {name}\n  vrrp_version 3\n  vrrp_garp_master_refresh 60\n}}\n\
         vrrp_instance api {{\n  state BACKUP\n  interface eth0\n  virtual_router_id $VRID\n  \
         priority {priority}\n  advert_int 0.1\n  \
         track_interface {{\n    eth0\n  }}\n  \
         virtual_ipaddress {{\n    {VIP}/24 dev eth0\n  }}\n  \
         virtual_ipaddress_excluded {{\n    {BESIDE}/64 dev eth0\n  }}\n}}\n",
        name = host.name,
    )
}

/// An agent with what `kedge migrate` makes of a file, not started yet.
fn migrated<'a>(host: &'a Host, kind: &str, file: &str, text: &str) -> Agent<'a> {
    let agent = Agent::new(host, KEDGE, "");
    let source = host.directory().join(file);
    fs::write(&source, text).unwrap();
    let config = agent.root().join("etc/kedge/agent.yaml");
    let (source, config) = (source.display(), config.display());
    let said = agent.kedge(&format!("migrate {kind} {source} --write {config} --force"));
    assert_eq!(said.code, 0, "{said:?}");
    println!("{}", fs::read_to_string(config.to_string()).unwrap());
    let checked = agent.kedge(&format!("config check {config}"));
    assert_eq!(checked.code, 0, "{checked:?}");
    agent
}

/// What the adverts of a host say, each kind once; not its goodbyes.
fn adverts(file: &PathBuf, of: &Host) -> Vec<String> {
    let filter = format!("vrrp.prio > 0 and ip.src == {}", of.address());
    let mut all = tshark(file, false, &filter, &ADVERT);
    assert!(all.len() >= 5, "{all:?}");
    all.dedup();
    all
}

#[test]
fn a_migrated_host_takes_the_place_of_the_keepalived_it_was_written_for() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        for host in [&a, &b] {
            host.add_ipv6();
        }
        let holds = |host: &Host| host.holds(VIP) && host.holds(BESIDE);
        let idle = |host: &Host| !host.holds(VIP) && !host.holds(BESIDE);
        let conf = keepalived_conf(&b, 100);

        // What it says before and after.
        let capture = Capture::start(&lan, "vrrp");
        let mut before = Keepalived::start_with(&b, "keepalived", &conf);
        eventually("keepalived holds it", secs(5), || holds(&b));
        throughout("it advertises", millis(700), || holds(&b));
        before.stop();
        let said_before = adverts(&capture.stop(), &b);
        assert!(idle(&b));
        let mut agent = migrated(&b, "keepalived", "before.conf", &conf);
        let capture = Capture::start(&lan, "vrrp");
        agent.start();
        eventually("the agent holds it", secs(5), || holds(&b));
        eventually("it advertises", secs(5), || {
            agent.counter("adverts_sent") >= 6
        });
        let said_after = adverts(&capture.stop(), &b);
        assert_eq!(said_before, said_after);
        assert_eq!(said_before.len(), 1, "{said_before:?}");

        // The other host has not been switched yet, and is the better one.
        let mut other = Keepalived::start_with(&a, "keepalived", &keepalived_conf(&a, 150));
        eventually("keepalived takes it", secs(5), || holds(&a) && idle(&b));
        eventually("the agent follows", secs(2), || agent.stands_by());
        lan.unplug(&a);
        let bound = active_down(3, millis(100), 100) + SLACK;
        eventually("the agent takes over from a cut port", bound, || holds(&b));
        lan.plug(&a);
        eventually("keepalived takes it back", secs(5), || {
            holds(&a) && idle(&b)
        });
        throughout("it stays", millis(500), || holds(&a) && idle(&b));
        other.stop();
        eventually("the agent succeeds it", secs(2), || holds(&b) && idle(&a));

        // And back: keepalived on its own host again.
        agent.stop();
        assert!(idle(&b));
        let mut back = Keepalived::start_with(&b, "keepalived", &conf);
        eventually("keepalived holds it", secs(5), || holds(&b));
        back.stop();
    });
}

#[test]
fn a_migrated_kube_vip_holds_the_address_of_the_control_plane() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: kube-vip, namespace: kube-system}}\n\
             spec:\n  hostNetwork: true\n  containers:\n  - name: kube-vip\n    \
             image: ghcr.io/kube-vip/kube-vip:v0.8.9\n    args: [manager]\n    env:\n    \
             - {{name: vip_arp, value: \"true\"}}\n    - {{name: port, value: \"6443\"}}\n    \
             - {{name: vip_interface, value: eth0}}\n    \
             - {{name: cp_enable, value: \"true\"}}\n    \
             - {{name: vip_leaderelection, value: \"true\"}}\n    \
             - {{name: address, value: {VIP}}}\n"
        );
        let mut first = migrated(&a, "kube-vip", "kube-vip.yaml", &manifest);
        first.start();
        eventually("a holds it before any API server runs", secs(10), || {
            first.state() == "Active" && a.holds(VIP)
        });
        let vip = first.vip();
        let because = vip["priorityBecause"].as_str().unwrap();
        assert!(because.contains("on 127.0.0.1:6443 since boot"), "{vip}");
        let mut second = migrated(&b, "kube-vip", "kube-vip.yaml", &manifest);
        second.start();
        eventually("b stands by", secs(10), || second.stands_by());
        first.stop();
        eventually("b succeeds it", secs(2), || b.holds(VIP) && !a.holds(VIP));
    });
}

/// What a loaded machine with two cores may add to a bound.
const SLACK: Duration = millis(300);
