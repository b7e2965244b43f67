//! A real FRR bfdd on a host, with the zebra it needs.

use std::{
    process::{Child, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    frr::{daemon, prepared},
    lan::Host,
    quietly, secs,
};

/// A running bfdd; killed when dropped.
#[derive(Debug)]
pub struct Bfdd<'a> {
    host: &'a Host,
    zebra: Child,
    bfdd: Option<Child>,
    directory: TempDir,
}

impl<'a> Bfdd<'a> {
    /// Starts it with peers, each as `peer …` says it, and lines that stand below it.
    #[must_use]
    pub fn start(host: &'a Host, peers: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        let peers: String = peers
            .iter()
            .map(|(peer, lines)| {
                let lines = lines.split(", ").filter(|line| !line.is_empty());
                let lines: String = lines.map(|line| format!("  {line}\n")).collect();
                format!(" peer {peer}\n{lines}  no shutdown\n !\n")
            })
            .collect();
        let (directory, config) = prepared(&format!("bfd\n{peers}!\n"));
        let path = directory.path();
        let zebra = daemon(host, path, "zebra", &config, &[]);
        let socket = path.join("zserv.api");
        quietly("zebra listens", secs(5), || socket.exists());
        // Unique: it is a name in the file system of all hosts.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let control = path.join(format!("bfdd-{count}.sock"));
        let control = ["--bfdctl".to_owned(), control.display().to_string()];
        let bfdd = daemon(host, path, "bfdd", &config, &control);
        let frr = Self {
            host,
            zebra,
            bfdd: Some(bfdd),
            directory,
        };
        quietly("bfdd answers", secs(5), || frr.peers().is_array());
        frr
    }

    /// Everything it says of its peers.
    #[must_use]
    pub fn peers(&self) -> Value {
        let output = self.vtysh(&["show bfd peers json"]);
        serde_json::from_str(&output).unwrap_or_default()
    }

    /// What it says of the peer with that address.
    #[must_use]
    pub fn peer(&self, address: &str) -> Value {
        let peers = self.peers();
        let mut all = peers.as_array().into_iter().flatten();
        let found = all.find(|it| it.get("peer").is_some_and(|peer| peer == address));
        found.cloned().unwrap_or_default()
    }

    /// The state of that peer: `up`, `down`, `init` or `shutdown`.
    #[must_use]
    pub fn status(&self, address: &str) -> String {
        let peer = self.peer(address);
        let status = peer.get("status").and_then(Value::as_str);
        status.unwrap_or_default().to_owned()
    }

    /// One of that peer's numbers.
    #[must_use]
    pub fn number(&self, address: &str, key: &str) -> u64 {
        let peer = self.peer(address);
        peer.get(key).and_then(Value::as_u64).unwrap_or_default()
    }

    /// How often that session went down.
    #[must_use]
    pub fn downs(&self, address: &str) -> u64 {
        let output = self.vtysh(&["show bfd peers counters json"]);
        let counters: Value = serde_json::from_str(&output).unwrap_or_default();
        let mut all = counters.as_array().into_iter().flatten();
        let found = all.find(|it| it.get("peer").is_some_and(|peer| peer == address));
        let downs = found.and_then(|it| it.get("session-down"));
        downs.and_then(Value::as_u64).unwrap_or_default()
    }

    /// Configures lines of a peer, as `peer …` says it.
    pub fn configure(&self, peer: &str, lines: &[&str]) {
        let peer = format!("peer {peer}");
        let mut commands = vec!["configure terminal", "bfd", &peer];
        commands.extend(lines);
        let said = self.vtysh(&commands);
        assert!(!said.contains('%'), "{commands:?}: {said}");
    }

    /// Ends bfdd as a crash does.
    pub fn kill(&mut self) {
        let mut bfdd = self.bfdd.take().unwrap();
        bfdd.kill().unwrap();
        bfdd.wait().unwrap();
    }

    fn vtysh(&self, commands: &[&str]) -> String {
        let mut vtysh = Command::new("vtysh");
        vtysh.arg("--vty_socket").arg(self.directory.path());
        for command in commands {
            vtysh.args(["-c", command]);
        }
        let output = self.host.run(move || vtysh.output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Bfdd<'_> {
    fn drop(&mut self) {
        for daemon in self.bfdd.iter_mut().chain([&mut self.zebra]) {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }
}
