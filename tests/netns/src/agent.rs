//! A whole agent on a host, as a process of its own, and the command line beside it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    asked::{Asked, Said},
    eventually,
    guardian::Guardian,
    lan::Host,
    secs,
};

/// An agent and its folders; killed when dropped.
#[derive(Debug)]
pub struct Agent<'a> {
    host: &'a Host,
    executable: PathBuf,
    root: PathBuf,
    process: Option<Child>,
}

impl<'a> Agent<'a> {
    /// A host's agent with this configuration, not started yet.
    #[must_use]
    pub fn new(host: &'a Host, executable: &str, yaml: &str) -> Self {
        let root = host.directory().join("root");
        fs::create_dir_all(root.join("etc/kedge")).unwrap();
        let agent = Self {
            host,
            executable: executable.into(),
            root,
            process: None,
        };
        agent.configure(yaml);
        agent
    }

    /// The same, started.
    #[must_use]
    pub fn running(host: &'a Host, executable: &str, yaml: &str) -> Self {
        let mut agent = Self::new(host, executable, yaml);
        agent.start();
        agent
    }

    /// Where its folders are.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes its configuration.
    pub fn configure(&self, yaml: &str) {
        fs::write(self.root.join("etc/kedge/agent.yaml"), yaml).unwrap();
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
            .arg("agent")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.process = Some(self.host.spawn(command));
        let socket = self.root.join("run/kedge/agent.sock");
        eventually(&format!("{} serves", self.host.name), secs(10), || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    /// Ends it as a crash does; its guardian lives.
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

    /// Runs another executable there, as `kedge` is.
    #[must_use]
    pub fn asked_by(&self, executable: impl AsRef<Path>, line: &str) -> Said {
        let mut command = Command::new(executable.as_ref());
        command
            .arg("--root")
            .arg(&self.root)
            .args(line.split(' '))
            .stdin(Stdio::null());
        let output = self.host.run(move || command.output().unwrap());
        Said::of(&output)
    }

    /// Starts `kedge` there, beside whatever else is asked; words are separated by one space.
    #[must_use]
    pub fn begin(&self, line: &str) -> Child {
        let mut command = Command::new(&self.executable);
        command
            .arg("--root")
            .arg(&self.root)
            .args(line.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.host.spawn(command)
    }

    /// Its guardian, as soon as there is one.
    #[must_use]
    pub fn guardian(&self) -> Guardian {
        Guardian::of(self.process.as_ref().unwrap().id())
    }

    /// What it logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = self.process.as_ref().unwrap().id();
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Asked for Agent<'_> {
    fn kedge(&self, line: &str) -> Said {
        self.asked_by(&self.executable, line)
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.host.name, self.log());
        }
    }
}
