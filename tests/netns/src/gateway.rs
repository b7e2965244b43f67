//! A whole gateway on a host, as a process of its own, and the command line beside it. It has no
//! manager: it serves the desired state that it finds on its disk.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use kedge_control::agent::GatewayConfig;
use kedge_host::{Role, Root, identity::TunnelKey, state::Store};
use kedge_net::netns::Enclosure;
use kedge_tunnel_proto::keys::{PrivateKey, PublicKey};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    asked::{Asked, Said},
    eventually,
    lan::Host,
    secs,
};

/// A gateway and its folders; killed when dropped.
#[derive(Debug)]
pub struct Gateway<'a> {
    host: &'a Host,
    executable: PathBuf,
    root: PathBuf,
    process: Option<Child>,
}

/// The public key of a role's tunnel below `root`, made if there is none.
#[must_use]
pub fn tunnel_key(root: impl Into<PathBuf>, role: Role) -> PublicKey {
    let key = TunnelKey::load_or_create(&Root::new(root), role).unwrap();
    PrivateKey::from_bytes(*key.expose()).unwrap().public()
}

impl<'a> Gateway<'a> {
    /// A host's gateway with this configuration, not started yet.
    #[must_use]
    pub fn new(host: &'a Host, executable: &str, yaml: &str) -> Self {
        let root = host.directory().join("gateway");
        fs::create_dir_all(root.join("etc/kedge")).unwrap();
        let gateway = Self {
            host,
            executable: executable.into(),
            root,
            process: None,
        };
        gateway.configure(yaml);
        gateway
    }

    /// Where its folders are.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes its configuration.
    pub fn configure(&self, yaml: &str) {
        fs::write(self.root.join("etc/kedge/gateway.yaml"), yaml).unwrap();
    }

    /// The public key of its tunnel.
    #[must_use]
    pub fn key(&self) -> PublicKey {
        tunnel_key(&self.root, Role::Gateway)
    }

    /// Leaves on its disk what it is to do.
    pub fn remember(&self, wished: &GatewayConfig) {
        let store = Store::new(Root::new(&self.root).state_dir(Role::Gateway));
        store.save("desired", wished).unwrap();
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root.join("log"))
            .unwrap();
        let mut command = Command::new(&self.executable);
        command
            .arg("--root")
            .arg(&self.root)
            .arg("gateway")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.process = Some(self.host.spawn(command));
        let socket = self.root.join("run/kedge/gateway.sock");
        eventually(&format!("{} serves", self.host.name), secs(10), || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Tells it to read its configuration again.
    pub fn reload(&self) {
        self.signal(Signal::HUP);
    }

    /// Ends it as a service manager does, and waits for it.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert!(self.process.take().unwrap().wait().unwrap().success());
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// What it logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }
}

impl Asked for Gateway<'_> {
    fn kedge(&self, line: &str) -> Said {
        let mut command = Command::new(&self.executable);
        command
            .arg("--root")
            .arg(&self.root)
            .args(line.split(' '))
            .stdin(Stdio::null());
        let output = self.host.run(move || command.output().unwrap());
        Said::of(&output)
    }
}

impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
        // What outlives a gateway does not outlive a test.
        let namespaces = self.root.join("run/kedge/netns");
        for name in Enclosure::names(&namespaces).unwrap_or_default() {
            let _ = Enclosure::remove(&namespaces.join(name));
        }
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.host.name, self.log());
        }
    }
}
