//! A real ExaBGP on a host: it says what it is told to say, and writes down what it hears.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{lan::Host, left_out, quietly, secs};

/// A running ExaBGP; killed when dropped.
#[derive(Debug)]
pub struct ExaBgp {
    process: Child,
    directory: TempDir,
}

impl ExaBgp {
    /// Whether there is one on this machine. Says so otherwise.
    #[must_use]
    pub fn is_there() -> bool {
        let is_there = Path::new(SERVER).exists();
        if !is_there {
            left_out("ExaBGP (exabgp) is not installed");
        }
        is_there
    }

    /// Starts it as AS 65014 with one neighbour of AS 65001, and a route of its own.
    #[must_use]
    pub fn running(host: &Host, ends: [&str; 2]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let made = Command::new("mkfifo").arg(file("orders")).status();
        assert!(made.unwrap().success());
        fs::write(file("feed"), FEED).unwrap();
        fs::write(file("conf"), text(host, &directory, ends)).unwrap();
        let output = fs::File::create(file("out")).unwrap();
        let mut command = Command::new(SERVER);
        command
            .arg(file("conf"))
            .env("exabgp.daemon.user", "root")
            .env("exabgp.daemon.drop", "false")
            .env("exabgp.api.cli", "false")
            .env("exabgp.log.short", "true")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let process = host.spawn(command);
        let exabgp = Self { process, directory };
        quietly("ExaBGP's process of ours runs", secs(10), || {
            exabgp.directory.path().join("events").exists()
        });
        exabgp
    }

    /// Has it do something, in the words of its API.
    pub fn order(&self, order: &str) {
        let path = self.directory.path().join("orders");
        let mut orders = fs::OpenOptions::new().write(true).open(path).unwrap();
        orders.write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    /// What it told its process, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory.path().join("events")).unwrap_or_default();
        // The last line may be on its way, and answers to orders are words.
        let lines = text.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The routes it knows, and what is said of them.
    #[must_use]
    pub fn routes(&self) -> BTreeMap<String, Value> {
        let mut routes = BTreeMap::new();
        for event in self.events() {
            if event["type"] == "state" && event["neighbor"]["state"] != "up" {
                routes.clear();
            }
            let update = &event["neighbor"]["message"]["update"];
            for prefix in prefixes(&update["withdraw"]) {
                routes.remove(&prefix);
            }
            for prefix in prefixes(&update["announce"]) {
                routes.insert(prefix, update.clone());
            }
        }
        routes
    }

    /// Why it lost its session, time after time.
    #[must_use]
    pub fn lost(&self) -> String {
        let events = self.events().into_iter();
        let reasons = events.filter_map(|it| Some(it["neighbor"]["reason"].as_str()?.to_owned()));
        reasons.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for ExaBgp {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The destinations below the families of an update, with or without next hops between.
fn prefixes(told: &Value) -> Vec<String> {
    match told {
        Value::Object(fields) => match fields.get("nlri").and_then(Value::as_str) {
            Some(prefix) => vec![prefix.to_owned()],
            None => fields.values().flat_map(prefixes).collect(),
        },
        Value::Array(all) => all.iter().flat_map(prefixes).collect(),
        _ => Vec::new(),
    }
}

fn text(host: &Host, directory: &TempDir, [near, far]: [&str; 2]) -> String {
    format!(
        "process feed {{\n  run /bin/sh {}/feed;\n  encoder json;\n}}\nneighbor {near} {{\n  router-id \
         {};\n  local-address {far};\n  local-as 65014;\n  peer-as 65001;\n  family {{\n    ipv4 \
         unicast;\n    ipv6 unicast;\n  }}\n  static {{\n    route 203.0.113.0/24 next-hop \
         10.20.14.12;\n  }}\n  api {{\n    processes [ feed ];\n    neighbor-changes;\n    receive {{\n      \
         parsed;\n      update;\n      notification;\n    }}\n  }}\n}}\n",
        directory.path().display(),
        host.address()
    )
}

const SERVER: &str = "/usr/sbin/exabgp";
/// Orders come in by a pipe with a name, and events go to a file; it ends when ExaBGP does.
const FEED: &str = r#"cd "${0%/*}"
cat <>orders &
feeder=$!
trap 'kill $feeder' EXIT TERM
cat >events
"#;
