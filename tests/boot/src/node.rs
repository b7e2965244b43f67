//! A booted system: its own systemd, D-Bus and systemd-networkd, in a container of systemd-nspawn.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use kedge_net::netns::{self, Namespace};
use kedge_tests_netns::{
    asked::{Asked, Said},
    lan::{Host, Lan},
    millis, quietly, secs,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub use crate::tree::write;
use crate::{cgroup::Cgroup, links::Links, packages::shipped, tree::Tree};

/// A node on the LAN. It ends, as if its power were cut, when it is dropped.
#[derive(Debug)]
pub struct Node {
    host: Option<Host>,
    name: String,
    nspawn: Child,
    leader: Pid,
    tree: Tree,
    cgroup: Cgroup,
}

impl Node {
    /// Boots one with this configuration of the agent and this address on `eth0`; its executable is what hosts get.
    #[must_use]
    pub fn boot(
        lan: &Lan,
        name: &str,
        (links, net): (Links, &str),
        kedge: &str,
        yaml: &str,
    ) -> Self {
        let tree = Tree::new(lan.id(), name, Some(&shipped(kedge)));
        tree.write("etc/kedge/agent.yaml", yaml);
        tree.enable(AGENT);
        Self::start(lan, name, (links, net), tree)
    }

    /// Boots one without Kedge, after this was done to its files.
    #[must_use]
    pub fn without_kedge(lan: &Lan, name: &str, net: &str, prepare: impl FnOnce(&Path)) -> Self {
        let tree = Tree::new(lan.id(), name, None);
        prepare(tree.root());
        Self::start(lan, name, (Links::Networkd, net), tree)
    }

    fn start(lan: &Lan, name: &str, (links, net): (Links, &str), tree: Tree) -> Self {
        links.install(&tree, net);
        let machine = format!("{}{name}", lan.id());
        let cgroup = Cgroup::create(&machine);
        let log = fs::File::create(lan.directory().join(format!("{name}.nspawn"))).unwrap();
        let port = format!("p-{name}");
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{}exec \"$@\"", cgroup.enter()), "sh"])
            .args([
                "systemd-nspawn",
                "--boot",
                "--register=no",
                "--keep-unit",
                "-D",
            ])
            .arg(tree.root())
            .args([format!("--machine={machine}"), format!("--hostname={name}")])
            .arg(format!("--network-veth-extra={port}:eth0"))
            .args(["--resolv-conf=off", "--timezone=off", "--link-journal=no"])
            .arg("--console=pipe")
            // Without the last one memory cannot be locked inside, whatever the limit says.
            .arg("--capability=CAP_NET_ADMIN,CAP_NET_RAW,CAP_IPC_LOCK")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut nspawn = lan.spawn(command);
        let leader = leader(&mut nspawn);
        let namespace = named(leader, &lan.namespace(name));
        let host = lan.adopt(name, net, namespace, &port);
        Self {
            host: Some(host),
            name: name.to_owned(),
            nspawn,
            leader,
            tree,
            cgroup,
        }
    }

    /// Waits until everything that is to run runs.
    pub fn is_up(&self) {
        let mut state = String::new();
        let mut settled = || {
            state = self.run("systemctl is-system-running").out;
            matches!(state.trim(), "running" | "degraded")
        };
        quietly(&format!("{} boots", self.name), secs(30), &mut settled);
        let failed = self.run("systemctl --failed --plain --no-legend").out;
        assert_eq!(state.trim(), "running", "{failed}");
    }

    /// Runs a command inside; words are separated by one space.
    #[must_use]
    pub fn run(&self, line: &str) -> Said {
        Said::of(&self.inside(line).output().unwrap())
    }

    /// A command that runs inside.
    #[must_use]
    pub fn inside(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.leader.as_raw_nonzero().to_string()])
            .args(["-m", "-u", "-i", "-n", "-p", "-r", "-w"])
            .args(line.split(' '))
            .stdin(Stdio::null());
        command
    }

    /// Tells systemd something about the agent's unit, and insists on it.
    pub fn systemctl(&self, verb: &str) {
        self.does(&format!("systemctl {verb} {AGENT}"));
    }

    /// Runs a command inside, and insists on it.
    pub fn does(&self, line: &str) {
        let said = self.run(line);
        assert_eq!(said.code, 0, "{line}: {said:?}");
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: &str) {
        self.tree.write(path, text);
    }

    /// Where its files are, as this machine sees them.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.root().join(path)
    }

    /// Where something is that was mounted inside, as this machine sees it.
    #[must_use]
    pub fn seen(&self, path: &str) -> PathBuf {
        let leader = self.leader.as_raw_nonzero();
        PathBuf::from(format!("/proc/{leader}/root{path}"))
    }

    /// What the agent's unit wrote to the journal.
    #[must_use]
    pub fn journal(&self) -> String {
        let line = format!("journalctl -u {AGENT} -o short-precise --no-pager -q");
        self.run(&line).out
    }

    /// The agent's process as systemd knows it; 0 without one.
    #[must_use]
    pub fn agent(&self) -> u32 {
        let said = self.run(&format!("systemctl show -P MainPID {AGENT}"));
        said.out.trim().parse().unwrap()
    }

    /// The guardians among the processes of the agent's unit.
    #[must_use]
    pub fn guardians(&self) -> Vec<u32> {
        self.processes(b"guardian")
    }

    /// The processes of the agent's unit that have this word in their command line.
    #[must_use]
    pub fn processes(&self, wanted: &[u8]) -> Vec<u32> {
        let mut all = self.cgroup.processes(AGENT);
        all.retain(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.any(|word| word == wanted)
        });
        all
    }

    /// Whether it runs.
    pub fn is_on(&mut self) -> bool {
        self.nspawn.try_wait().unwrap().is_none()
    }
}

impl Asked for Node {
    fn kedge(&self, line: &str) -> Said {
        self.run(&format!("kedge {line}"))
    }

    /// Null while nobody answers.
    fn vip(&self) -> Value {
        let said = self.kedge("vip show api -o json");
        serde_json::from_str(&said.out).unwrap_or_default()
    }
}

impl Deref for Node {
    type Target = Host;

    fn deref(&self) -> &Host {
        self.host.as_ref().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() && self.is_on() {
            eprintln!("--- {}\n{}", self.name, self.journal());
        }
        // Its thread is inside.
        let namespace = self.host.take().map(|it| it.namespace().name().to_owned());
        _ = kill_process(self.leader, Signal::KILL);
        let begun = std::time::Instant::now();
        while self.is_on() && begun.elapsed() < secs(5) {
            std::thread::sleep(millis(5));
        }
        _ = self.nspawn.kill();
        _ = self.nspawn.wait();
        if let Some(namespace) = namespace {
            _ = netns::remove(&namespace);
        }
    }
}

/// The container's first process, as soon as it is in a network of its own.
fn leader(nspawn: &mut Child) -> Pid {
    let id = nspawn.id();
    let mut found = None;
    let own = fs::read_link(format!("/proc/{id}/ns/net")).unwrap();
    quietly("a container starts", secs(10), || {
        assert!(nspawn.try_wait().unwrap().is_none(), "nspawn has ended");
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let child = children.split_whitespace().find_map(|pid| pid.parse().ok());
        // Its program is started last, when everything is in its place.
        found = child.filter(|pid| {
            let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let apart = fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|it| it != own);
            apart && program.ends_with("lib/systemd/systemd")
        });
        found.is_some()
    });
    Pid::from_raw(found.unwrap()).unwrap()
}

/// Gives a process's network a name.
fn named(process: Pid, name: &str) -> Namespace {
    let place = Path::new("/run/netns").join(name);
    fs::File::create_new(&place).unwrap();
    let network = format!("/proc/{}/ns/net", process.as_raw_nonzero());
    rustix::mount::mount_bind(network, &place).unwrap();
    Namespace::open(name).unwrap()
}

/// The agent's unit.
pub const AGENT: &str = "kedge-agent.service";
