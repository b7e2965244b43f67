//! Packages on booted systems: what an installation, an upgrade and a removal do to a VIP and leave behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    collections::BTreeSet,
    fs, io,
    net::{SocketAddr, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use kedge_dist::Form;
use kedge_tests_boot::{
    links::Links,
    node::{self, Node},
    on_booted_nodes,
    packages::{NEW, OLD, Packages},
    pair::{VIP, member},
};
use kedge_tests_netns::{
    asked::Asked,
    eventually,
    lan::{Host, Lan},
    millis, secs,
    train::{Echo, Train},
};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");
const SITE: &str = "etc/kedge/agent.yaml.d/10-site.yaml";

#[test]
fn a_deb_is_installed_upgraded_downgraded_removed_and_purged_without_a_lost_packet() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let packages = Packages::of(KEDGE);
        let a = Node::without_kedge(&lan, "a", "10.20.14.11/24", |_| {});
        let b = Node::boot(
            &lan,
            "b",
            (Links::Networkd, "10.20.14.12/24"),
            KEDGE,
            "version: 1\n",
        );
        let client = lan.host("c", "10.20.14.13/24");
        a.is_up();
        b.is_up();
        for version in [OLD, NEW] {
            let deb = packages.write(Form::Deb, version);
            fs::copy(&deb, a.path(&format!("root/{version}.deb"))).unwrap();
        }
        let before = files(&a);
        let install = |version: &str| a.does(&format!("dpkg -i /root/{version}.deb"));
        // Configuration may come first, as cloud-init writes it.
        a.write(SITE, &member(250));
        let begun = Instant::now();
        install(OLD);
        let installed = begun.elapsed();
        let answers = eventually("the VIP answers", secs(15), || answers(&client));
        println!("dpkg -i took {installed:?}, and {answers:?} later the VIP answered");
        // What is listened to before it is taken is 3 s.
        assert!(installed + answers < secs(5 + 3));
        a.does("systemctl is-enabled kedge-agent.service");
        a.does("systemctl is-active kedge-agent.service kedge-handover.service");
        assert_ne!(a.run("systemctl is-enabled kedge-gateway.service").code, 0);
        a.does("systemd-analyze security --no-pager --threshold=30 kedge-agent.service");
        a.does("systemd-analyze verify kedge-agent.service kedge-gateway.service");
        let explained = a.run("journalctl --list-catalog 5d1be8c0a84f4d3b9e72564950000005");
        assert!(explained.out.contains("KEDGE-VIP-0005"), "{explained:?}");

        let _services = (Echo::start(&a), Echo::start(&b));
        b.write("etc/kedge/agent.yaml", &member(240));
        b.systemctl("reload");
        eventually("b stands by", secs(10), || b.stands_by());
        for version in [NEW, OLD] {
            eventually("it is guarded", secs(5), || a.guardians().len() == 1);
            let (agent, train) = (a.agent(), Train::start(&client, VIP.parse().unwrap()));
            install(version);
            eventually("another agent goes on", secs(10), || {
                a.agent() != agent && a.state() == "Active"
            });
            let (sent, lost) = train.finish();
            println!("to {version}: {lost} of {sent} packets lost");
            assert_eq!(lost, 0);
            assert_eq!(b.counter("became_active"), 0);
            let shown = a.run("dpkg-query --show --showformat=${Version} kedge");
            assert_eq!(shown.out, format!("{version}-1kedge1"));
        }
        assert_eq!(fs::read_to_string(a.path(SITE)).unwrap(), member(250));

        eventually("it is guarded", secs(5), || a.guardians().len() == 1);
        let train = Train::start(&client, VIP.parse().unwrap());
        a.does("dpkg --remove kedge");
        eventually("b takes it", secs(5), || b.holds(VIP) && !a.holds(VIP));
        let (sent, lost) = train.finish();
        println!("removed: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);
        // A removal keeps what was configured, and what the host is known by.
        assert!(a.path(SITE).exists() && a.path("var/lib/kedge").exists());
        a.does("dpkg --purge kedge");
        let mut left = files(&a);
        left.retain(|path| !before.contains(path) && !is_the_systems(path));
        assert_eq!(left, BTreeSet::new());
        assert_ne!(a.run("getent group kedge").code, 0);
        assert_eq!(a.run("nft list ruleset").out, "");
        assert!(!a.run("ip -o link").out.contains("kedge"));
        assert_eq!(
            a.run("systemctl is-failed kedge-agent.service").out,
            "inactive\n"
        );
    });
}

#[test]
fn an_rpm_is_installed_into_the_files_of_a_system_and_starts_with_it() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let packages = Packages::of(KEDGE);
        let rpm = packages.write(Form::Rpm, OLD);
        let a = Node::without_kedge(&lan, "a", "10.20.14.11/24", |root| {
            let mut install = Command::new("rpm");
            // The database of this system's packages is another one.
            install
                .args(["--nodeps", "--root"])
                .arg(root)
                .arg("-i")
                .arg(&rpm);
            let output = install.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            node::write(root, SITE, &member(250));
        });
        let client = lan.host("c", "10.20.14.13/24");
        a.is_up();
        eventually("the VIP answers", secs(15), || answers(&client));
        a.does("systemctl is-enabled kedge-agent.service");
        a.does("getent group kedge");
        assert!(
            a.run("stat -c %G:%a /run/kedge/agent.sock")
                .out
                .starts_with("kedge:660")
        );
    });
}

#[test]
fn a_system_extension_is_merged_and_its_agent_starts() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let packages = Packages::of(KEDGE);
        let extension = packages.extension();
        let a = Node::without_kedge(&lan, "a", "10.20.14.11/24", |root| {
            extension
                .write(&root.join("var/lib/extensions/kedge"))
                .unwrap();
            node::write(root, SITE, &member(250));
        });
        let client = lan.host("c", "10.20.14.13/24");
        a.is_up();
        let begun = Instant::now();
        a.does("systemd-sysext merge");
        a.does("systemctl daemon-reload");
        eventually("the VIP answers", secs(15), || answers(&client));
        println!("from the merge to the VIP: {:?}", begun.elapsed());
        a.does("getent group kedge");
        // The target upholds it: what is only stopped comes back.
        a.does("systemctl mask --runtime --now kedge-agent.service");
        a.does("systemd-sysext unmerge");
        assert!(!a.path("usr/bin/kedge").exists());
    });
}

/// Whether anybody answers at the VIP, if only that nobody listens there.
fn answers(client: &Host) -> bool {
    client.run(|| {
        let to = SocketAddr::new(VIP.parse().unwrap(), 7);
        let refused = TcpStream::connect_timeout(&to, LIMIT).map_err(|error| error.kind());
        matches!(refused, Ok(_) | Err(io::ErrorKind::ConnectionRefused))
    })
}

fn files(node: &Node) -> BTreeSet<String> {
    let found = node.run("find /etc /root /usr /var /opt /srv -xdev");
    found.out.lines().map(str::to_owned).collect()
}

/// What package manager, journal and service manager write for themselves.
fn is_the_systems(path: &str) -> bool {
    let places = [
        "/var/lib/dpkg",
        "/var/log",
        "/var/lib/systemd",
        "/var/tmp",
        "/var/cache",
    ];
    let is_a_backup = matches!(path, "/etc/group-" | "/etc/gshadow-" | "/etc/.pwd.lock");
    places.iter().any(|place| path.starts_with(place)) && !path.contains("kedge") || is_a_backup
}

const LIMIT: Duration = millis(100);
