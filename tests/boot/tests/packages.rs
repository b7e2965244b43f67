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
    packages::{NEW, OLD, Packages, system},
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
        let b = standing_by(&lan);
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

        let _services = stands_by(&a, &b);
        for version in [NEW, OLD] {
            stays_while(&a, &b, &client, version, || install(version));
            let shown = a.run("dpkg-query --show --showformat=${Version} kedge");
            assert_eq!(shown.out, format!("{version}-1kedge1"));
        }
        assert_eq!(fs::read_to_string(a.path(SITE)).unwrap(), member(250));

        leaves_while(&a, &b, &client, || a.does("dpkg --remove kedge"));
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
fn an_rpm_comes_with_a_system_and_is_upgraded_downgraded_and_erased_without_a_lost_packet() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let packages = Packages::of(KEDGE);
        let rpm = packages.write(Form::Rpm, OLD);
        let a = Node::without_kedge(&lan, "a", "10.20.14.11/24", |root| {
            // The database of this system's packages is another one.
            let mut install = Command::new("rpm");
            install.arg("--root").arg(root);
            install.arg("-i").args([&system(root), &rpm]);
            let output = install.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            node::write(root, SITE, &member(250));
            packages.release(&[Form::Rpm], NEW, None, &root.join("root/new"));
            let old = root.join("root/old");
            fs::create_dir(&old).unwrap();
            fs::copy(&rpm, old.join(rpm.file_name().unwrap())).unwrap();
        });
        let b = standing_by(&lan);
        let client = lan.host("c", "10.20.14.13/24");
        a.is_up();
        b.is_up();
        eventually("the VIP answers", secs(15), || answers(&client));
        a.does("systemctl is-enabled kedge-agent.service");
        a.does("getent group kedge");
        assert!(
            a.run("stat -c %G:%a /run/kedge/agent.sock")
                .out
                .starts_with("kedge:660")
        );

        let _services = stands_by(&a, &b);
        // By the system's own rpm from here on, with its scripts.
        let shown = || a.run("rpm --query --queryformat %{VERSION} kedge").out;
        let rpm = |version: &str, folder: &str| {
            let name = format!("kedge-{version}-1.{}.rpm", std::env::consts::ARCH);
            let upgrade = "rpm --upgrade --oldpackage";
            a.does(&format!("{upgrade} /root/{folder}/{name}"));
        };
        let asked = || {
            let said = a.kedge("upgrade /root/new");
            println!("{}", said.out);
            assert_eq!(said.code, 0, "{said:?}");
        };
        let ways: [(&str, &dyn Fn()); 3] = [
            (NEW, &|| rpm(NEW, "new")),
            (OLD, &|| rpm(OLD, "old")),
            (NEW, &asked),
        ];
        for (version, way) in ways {
            stays_while(&a, &b, &client, version, way);
            assert_eq!(shown(), version);
        }
        a.does("systemctl is-enabled kedge-agent.service");
        assert_eq!(fs::read_to_string(a.path(SITE)).unwrap(), member(250));
        leaves_while(&a, &b, &client, || a.does("rpm --erase kedge"));
        assert!(!a.path("usr/bin/kedge").exists() && a.path(SITE).exists());
    });
}

#[test]
fn a_system_extension_is_merged_and_another_one_after_it_without_a_lost_packet() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let packages = Packages::of(KEDGE);
        let a = Node::without_kedge(&lan, "a", "10.20.14.11/24", |root| {
            for version in [OLD, NEW] {
                let files = root.join(format!("var/lib/kedge-images/{version}"));
                packages.extension(version).write(&files).unwrap();
            }
            fs::create_dir_all(root.join("var/lib/extensions")).unwrap();
            node::write(root, SITE, &member(250));
        });
        let b = standing_by(&lan);
        let client = lan.host("c", "10.20.14.13/24");
        a.is_up();
        b.is_up();
        // A folder in the place of an image, which takes a loop device; the name leads to it as to those.
        let leads_to = |version: &str| {
            a.does(&format!(
                "ln -sfn ../kedge-images/{version} /var/lib/extensions/kedge"
            ));
        };
        leads_to(OLD);
        let begun = Instant::now();
        a.does("systemd-sysext merge");
        a.does("systemctl daemon-reload");
        eventually("the VIP answers", secs(15), || answers(&client));
        println!("from the merge to the VIP: {:?}", begun.elapsed());
        a.does("getent group kedge");
        let _services = stands_by(&a, &b);
        for version in [NEW, OLD] {
            stays_while(&a, &b, &client, version, || {
                leads_to(version);
                a.does("systemd-sysext refresh");
                a.does("systemctl daemon-reload");
                a.does("systemctl restart kedge-agent.service");
            });
            let marker = fs::read_to_string(a.seen("/usr/lib/kedge/release.json")).unwrap();
            assert!(
                marker.contains(&format!("\"version\": \"{version}\"")),
                "{marker}"
            );
        }
        // The target upholds it: what is only stopped comes back.
        a.does("systemctl mask --runtime --now kedge-agent.service");
        a.does("systemd-sysext unmerge");
        assert!(!a.path("usr/bin/kedge").exists());
    });
}

/// Another host, which is to stand by.
fn standing_by(lan: &Lan) -> Node {
    let (links, yaml) = ((Links::Networkd, "10.20.14.12/24"), "version: 1\n");
    Node::boot(lan, "b", links, KEDGE, yaml)
}

/// The VIP has services on both hosts, and one of them stands by.
fn stands_by(a: &Node, b: &Node) -> (Echo, Echo) {
    b.write("etc/kedge/agent.yaml", &member(240));
    b.systemctl("reload");
    eventually("b stands by", secs(10), || b.stands_by());
    (Echo::start(a), Echo::start(b))
}

/// The agent is replaced by another one, which has the VIP as if nothing had been.
fn stays_while(a: &Node, b: &Node, client: &Host, version: &str, act: impl Fn()) {
    eventually("it is guarded", secs(5), || a.guardians().len() == 1);
    let (agent, train) = (a.agent(), Train::start(client, VIP.parse().unwrap()));
    act();
    eventually("another agent goes on", secs(10), || {
        a.agent() != agent && a.state() == "Active"
    });
    let (sent, lost) = train.finish();
    println!("to {version}: {lost} of {sent} packets lost");
    assert_eq!(lost, 0);
    assert_eq!(b.counter("became_active"), 0);
}

/// The other host takes the VIP over.
fn leaves_while(a: &Node, b: &Node, client: &Host, act: impl Fn()) {
    eventually("it is guarded", secs(5), || a.guardians().len() == 1);
    let train = Train::start(client, VIP.parse().unwrap());
    act();
    eventually("b takes it", secs(5), || b.holds(VIP) && !a.holds(VIP));
    let (sent, lost) = train.finish();
    println!("removed: {lost} of {sent} packets lost");
    assert_eq!(lost, 0);
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
