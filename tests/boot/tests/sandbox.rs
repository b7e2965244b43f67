//! What the agent does in the sandbox of its unit: everything it does outside of it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use std::collections::BTreeSet;

use kedge_tests_boot::{links::Links, node::Node, on_booted_nodes};
use kedge_tests_netns::{eventually, lan::Lan, secs};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");

/// Whatever needs something of the host: real time, locked memory, nftables, macvlans, a TUN device,
/// scripts of another user, files of another user, processes of another user.
const EVERYTHING: &str = "
vips:
  api:
    addresses: [10.20.14.10]
    health: none
    vrid: 51
    startup_delay: 500ms
    track:
      check: {script: [/bin/grep, -q, 'Uid:.65534', /proc/self/status], interval: 200ms, critical: true}
      private: {file: /srv/private/file, critical: true}
      resident: {process: dbus-daemon, critical: true}
  web:
    addresses: [10.20.14.20]
    health: none
    vrid: 52
    startup_delay: 500ms
    virtual_mac: true
tunnel:
  addresses: [198.18.0.1/32]
  peers:
    gateway:
      public_key: tyl9uGLQIGkucFkvGTZQtiYxZiuO/4uC6KTqqnODGyc=
      allowed_ips: [198.18.0.2/32]
";

#[test]
fn nothing_of_the_agent_is_in_the_way_of_its_unit() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let node = Node::boot(
            &lan,
            "a",
            (Links::Networkd, "10.20.14.11/24"),
            KEDGE,
            EVERYTHING,
        );
        node.write("srv/private/file", "");
        let owned = |path: &str| std::os::unix::fs::chown(node.path(path), Some(1), Some(1));
        owned("srv/private/file").unwrap();
        owned("srv/private").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(node.path("srv/private"), mode).unwrap();
        node.is_up();
        let problems = || -> Vec<Value> {
            let status = node.run("kedge status -o json").json();
            status["problems"].as_array().cloned().unwrap_or_default()
        };
        eventually("both VIPs are held", secs(15), || {
            let shown = node.run("kedge vip list -o json").out;
            shown.matches("\"Active\"").count() == 2
        });
        let ip = |line: &'static str| {
            let asked = node.inside("ip").args(line.split(' ')).output().unwrap();
            String::from_utf8(asked.stdout).unwrap()
        };
        // It has been there since before the agent started, or since this restart.
        node.systemctl("restart");
        let group = || node.run("stat -c %g:%a /run/kedge/agent.sock").out;
        eventually("the group may ask", secs(5), || group() == "990:660\n");
        eventually("both VIPs are held again", secs(15), || {
            let shown = node.run("kedge vip list -o json").out;
            shown.matches("\"Active\"").count() == 2
        });
        assert!(ip("link show kedge0").contains("POINTOPOINT"));
        assert!(ip("-d link").contains("macvlan"));
        eventually("nothing is wrong", secs(5), || problems().is_empty());
        let journal = node.journal();
        assert!(journal.contains("SCHED_FIFO"), "{journal}");
        assert!(!journal.contains("cannot be locked"), "{journal}");
        assert!(
            !journal.contains(" WARN") && !journal.contains("KEDGE-"),
            "{journal}"
        );
        no_script_outlives_its_time(&node);
    });
}

/// The agent may not signal processes of other users, and scripts are theirs.
fn no_script_outlives_its_time(node: &Node) {
    node.write("etc/kedge/agent.yaml.d/20-endless.yaml", ENDLESS);
    node.systemctl("reload");
    let mut seen = BTreeSet::new();
    eventually("it is run again and again", secs(10), || {
        let running = node.processes(b"7331");
        assert!(running.len() < 3, "{running:?}");
        seen.extend(running);
        seen.len() > 5
    });
}

const ENDLESS: &str = "\
vips: {api: {track: {endless: {script: [/bin/sleep, '7331'], interval: 200ms, timeout: 100ms, weight: -1}}}}
";
