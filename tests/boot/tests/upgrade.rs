//! `kedge upgrade` on booted systems: what is verified, who installs it, and what becomes of a VIP.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{fs, path::Path, process::Command};

use kedge_dist::Form;
use kedge_tests_boot::{
    node::{self, Node},
    on_booted_nodes,
    packages::{NEW, OLD, Packages},
    pair::{VIP, member},
    web::Web,
};
use kedge_tests_netns::{
    asked::{Asked, Said},
    eventually,
    lan::{Host, Lan},
    secs,
    train::{Echo, Train},
};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-booted");
const BROKEN: &str = "0.1.2";
/// It accepts every configuration and does not run.
const DOES_NOT_RUN: &str = "#!/bin/sh\ncase \"$*\" in *config*) exit 0 ;; esac\nexit 7\n";

#[test]
fn a_release_is_verified_installed_taken_back_and_rolled_back_without_a_lost_packet() {
    on_booted_nodes(|| {
        let lan = Lan::new();
        let packages = Packages::of(KEDGE);
        let a = Node::without_kedge(&lan, "a", "10.20.14.11/24", |root| {
            unpack(&packages.write(Form::Tarball, OLD), root);
            node::write(root, "etc/kedge/agent.yaml.d/10-site.yaml", &member(250));
            let wants = root.join("etc/systemd/system/multi-user.target.wants");
            fs::create_dir_all(&wants).unwrap();
            let unit = "/usr/lib/systemd/system/kedge-agent.service";
            std::os::unix::fs::symlink(unit, wants.join("kedge-agent.service")).unwrap();
        });
        let b = Node::without_kedge(&lan, "b", "10.20.14.12/24", |_| {});
        let client = lan.host("c", "10.20.14.13/24");
        a.is_up();
        b.is_up();
        let deb = packages.write(Form::Deb, OLD);
        fs::copy(&deb, b.path("root/kedge.deb")).unwrap();
        b.does("dpkg -i /root/kedge.deb");
        eventually("a holds it", secs(15), || a.holds(VIP));
        b.write("etc/kedge/agent.yaml.d/10-site.yaml", &member(240));
        b.systemctl("reload");
        eventually("b stands by", secs(10), || b.stands_by());
        let _services = (Echo::start(&a), Echo::start(&b));
        for (node, form) in [(&a, Form::Tarball), (&b, Form::Deb)] {
            packages.release(&[form], NEW, None, &node.path("root/new"));
            packages.release(
                &[form],
                BROKEN,
                Some(DOES_NOT_RUN),
                &node.path("root/broken"),
            );
        }
        packages.listed(&[archive(OLD)], &a.path("root/old"));

        what_is_not_as_signed_is_refused(&a);

        // Files of the archive, from a web server.
        let stays = Stays::new(&a, &b, &client);
        let server = Web::serve(&client, a.path("root/new"));
        let said = a.kedge(&format!("upgrade {}", server.url()));
        // The list, its signature and a package.
        assert_eq!(server.asked(), 3);
        stays.and_is(&said, NEW);
        let older = a.kedge("upgrade /root/old");
        refused(&older, "KEDGE-PKG-0003");
        assert_eq!(a.kedge("upgrade /root/new").code, 0, "it is there already");
        let stays = Stays::new(&a, &b, &client);
        let said = a.kedge("upgrade /root/broken");
        assert!(said.err.contains("KEDGE-PKG-0007"), "{said:?}");
        assert!(said.err.contains("auto-restart"), "{said:?}");
        stays.is(NEW);
        a.does("kedge vip freeze api --for 1h");
        as_a_later_version_writes_it(&a.path("var/lib/kedge/agent"));
        let stays = Stays::new(&a, &b, &client);
        stays.and_is(&a.kedge("upgrade --rollback"), OLD);
        assert!(
            !a.vip()["frozen"].is_null(),
            "orders are read one version back"
        );
        let state = a.run("ls /var/lib/kedge/agent").out;
        assert!(!state.contains("corrupt"), "{state}");
        a.does("kedge vip thaw api");
        let said = a.kedge("upgrade --rollback");
        assert!(said.err.contains("KEDGE-PKG-0008"), "{said:?}");

        // The package of another host, by its package manager.
        a.does("kedge vip release api --yes");
        eventually("b holds it", secs(10), || b.holds(VIP) && a.stands_by());
        let stays = Stays::new(&b, &a, &client);
        stays.and_is(&b.kedge("upgrade /root/new"), NEW);
        let shown = || b.run("dpkg-query --show --showformat=${Version} kedge").out;
        assert_eq!(shown(), format!("{NEW}-1kedge1"));
        // A hand-over is not excluded here: a package manager needs seconds, and the guardian waits for five.
        let train = Train::start(&client, VIP.parse().unwrap());
        let said = b.kedge("upgrade /root/broken");
        assert!(said.err.contains("KEDGE-PKG-0007"), "{said:?}");
        let (sent, lost) = train.finish();
        println!("a package taken back: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);
        assert_eq!(shown(), format!("{NEW}-1kedge1"));
        b.does("systemctl is-active kedge-agent.service");
        eventually("one has it", secs(10), || a.holds(VIP) || b.holds(VIP));
    });
}

fn what_is_not_as_signed_is_refused(a: &Node) {
    let agent = a.agent();
    let tamper = |name: &str, file: &str, change: fn(&mut Vec<u8>)| {
        let folder = a.path(&format!("root/{name}"));
        fs::create_dir(&folder).unwrap();
        for entry in fs::read_dir(a.path("root/new")).unwrap().flatten() {
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
        let path = folder.join(file);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        a.kedge(&format!("upgrade --dry-run /root/{name}"))
    };
    let archive = archive(NEW);
    let flip: fn(&mut Vec<u8>) = |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    };
    refused(&tamper("flipped", &archive, flip), "KEDGE-PKG-0001");
    refused(&tamper("other-list", "SHA256SUMS", flip), "KEDGE-PKG-0001");
    let short: fn(&mut Vec<u8>) = |bytes| bytes.truncate(1_000);
    refused(&tamper("short", &archive, short), "KEDGE-PKG-0001");
    // Signed well, by somebody else.
    tamper("strangers", &archive, |_| {});
    Packages::signed_by_a_stranger(&a.path("root/strangers"));
    refused(&a.kedge("upgrade /root/strangers"), "KEDGE-PKG-0002");
    // One key that is named is the only one that is trusted.
    fs::write(a.path("root/empty.pub"), "").unwrap();
    refused(
        &a.kedge("upgrade --key /root/empty.pub /root/new"),
        "KEDGE-PKG-0002",
    );
    let absent = a.kedge("upgrade /root/nowhere");
    assert!(absent.err.contains("KEDGE-PKG-0005"), "{absent:?}");
    let planned = a.kedge("upgrade --dry-run /root/new");
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(
        planned.out.contains("the guardian keeps api"),
        "{planned:?}"
    );
    assert_eq!((a.agent(), version(a)), (agent, OLD.to_owned()));
}

fn refused(said: &Said, code: &str) {
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.err.contains(code), "{said:?}");
}

/// A VIP whose packets are counted while the agent that holds it is another one.
struct Stays<'a> {
    here: &'a Node,
    there: &'a Node,
    train: Train,
    agent: u32,
    taken: u64,
}

impl<'a> Stays<'a> {
    fn new(here: &'a Node, there: &'a Node, client: &Host) -> Self {
        eventually("it is guarded", secs(5), || here.guardians().len() == 1);
        Self {
            here,
            there,
            train: Train::start(client, VIP.parse().unwrap()),
            agent: here.agent(),
            taken: there.counter("became_active"),
        }
    }

    fn and_is(self, said: &Said, version: &str) {
        assert_eq!(said.code, 0, "{said:?}");
        println!("{}", said.out);
        self.is(version);
    }

    fn is(self, expected: &str) {
        assert_ne!(self.here.agent(), self.agent, "another agent goes on");
        assert_eq!(self.here.state(), "Active");
        let (sent, lost) = self.train.finish();
        println!("to {expected}: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);
        assert_eq!(self.there.counter("became_active"), self.taken);
        assert_eq!(version(self.here), expected);
    }
}

/// Adds what this version does not know to each file of an agent's state.
fn as_a_later_version_writes_it(folder: &Path) {
    let mut changed = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let Some((header, body)) = text.split_once('\n') else {
            continue;
        };
        let Ok(serde_json::Value::Object(mut body)) = serde_json::from_str(body) else {
            continue;
        };
        body.insert("ofLater".into(), serde_json::json!({"any": ["thing"]}));
        let body = serde_json::Value::from(body).to_string();
        let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
        let beside = path.with_extension("body");
        fs::write(&beside, &body).unwrap();
        let sum = Command::new("sha256sum").arg(&beside).output().unwrap();
        fs::remove_file(&beside).unwrap();
        header["sha256"] = String::from_utf8(sum.stdout).unwrap()[..64].into();
        fs::write(&path, format!("{header}\n{body}\n")).unwrap();
        changed += 1;
    }
    assert!(changed > 0);
}

fn archive(version: &str) -> String {
    let machine = std::env::consts::ARCH;
    format!("kedge-{version}-linux-{machine}.tar.xz")
}

fn version(node: &Node) -> String {
    let marker = fs::read_to_string(node.path("usr/lib/kedge/release.json")).unwrap();
    let marker: serde_json::Value = serde_json::from_str(&marker).unwrap();
    marker["version"].as_str().unwrap().to_owned()
}

fn unpack(archive: &Path, root: &Path) {
    let mut tar = Command::new("tar");
    tar.arg("-xJf")
        .arg(archive)
        .args(["--strip-components=1", "-C"]);
    assert!(tar.arg(root).status().unwrap().success(), "{tar:?}");
}
