//! The agent as a process: it starts with nothing configured, answers, and leaves when told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kedge(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kedge"));
    command.arg("--root").arg(root).stdin(Stdio::null());
    command
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{what} did not happen"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_agent_starts_answers_reloads_and_leaves() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let notify = root.join("notify");
    let systemd = UnixDatagram::bind(&notify).unwrap();
    systemd
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut told = [0; 4096];
    let mut hear = || {
        let length = systemd.recv(&mut told).unwrap();
        String::from_utf8_lossy(&told[..length]).into_owned()
    };

    let log = fs::File::create(root.join("log")).unwrap();
    let mut agent = Agent(
        kedge(root)
            .arg("agent")
            .env("NOTIFY_SOCKET", &notify)
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    assert!(hear().contains("READY=1"));

    let status = kedge(root).args(["status", "-o", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(json["kind"], "AgentStatus", "{json}");
    let running = kedge(root)
        .args(["config", "view", "--running"])
        .output()
        .unwrap();
    assert_eq!(running.status.code(), Some(0));

    // A second one does not start beside it.
    let second = kedge(root).arg("agent").output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(text.contains("KEDGE-HOST-0003"), "{text}");

    // A bad configuration is refused on reload; the good one runs on.
    fs::create_dir_all(root.join("etc/kedge")).unwrap();
    fs::write(root.join("etc/kedge/agent.yaml"), "vipz: {}\n").unwrap();
    let hangup = Command::new("kill")
        .args(["-HUP", &agent.0.id().to_string()])
        .status()
        .unwrap();
    assert!(hangup.success());
    eventually("the refusal stands in the status", || {
        let status = kedge(root).arg("status").output().unwrap();
        String::from_utf8_lossy(&status.stdout).contains("KEDGE-CFG-0007")
    });

    let terminate = Command::new("kill")
        .arg(agent.0.id().to_string())
        .status()
        .unwrap();
    assert!(terminate.success());
    let mut ended = None;
    eventually("the agent leaves", || {
        ended = agent.0.try_wait().unwrap();
        ended.is_some()
    });
    let log = fs::read_to_string(root.join("log")).unwrap();
    assert_eq!(ended.unwrap().code(), Some(0), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
    assert!(!root.join("run/kedge/agent.sock").exists());
}
