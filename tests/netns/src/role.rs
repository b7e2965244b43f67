//! A role of Kedge on a host, as a process of its own below a root of its own, and the command line beside it.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    asked::{Asked, Said},
    eventually,
    lan::Host,
    secs,
};

/// A role and its folders; killed when dropped.
#[derive(Debug)]
pub struct RoleOf<'a> {
    pub(crate) host: &'a Host,
    executable: PathBuf,
    root: PathBuf,
    role: &'static str,
    process: Option<Child>,
}

impl<'a> RoleOf<'a> {
    /// A role with this configuration below `folder` of the host, not started yet.
    #[must_use]
    pub fn new(
        host: &'a Host,
        executable: &str,
        (role, folder): (&'static str, &str),
        yaml: &str,
    ) -> Self {
        let root = host.directory().join(folder);
        fs::create_dir_all(root.join("etc/kedge")).unwrap();
        let own = Self {
            host,
            executable: executable.into(),
            root,
            role,
            process: None,
        };
        own.configure(yaml);
        own
    }

    /// Where its folders are.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes its configuration.
    pub fn configure(&self, yaml: &str) {
        let file = format!("etc/kedge/{}.yaml", self.role);
        fs::write(self.root.join(file), yaml).unwrap();
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same, with more arguments.
    pub(crate) fn start_with(&mut self, arguments: &[&str]) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.root.join("log"))
            .unwrap();
        let mut command = self.command();
        command
            .arg(self.role)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(log);
        self.process = Some(self.host.spawn(command));
        let socket = self.root.join(format!("run/kedge/{}.sock", self.role));
        let what = format!("the {} of {} serves", self.role, self.host.name);
        eventually(&what, secs(15), || UnixStream::connect(&socket).is_ok());
    }

    /// Ends it as a crash does; what watches over it lives.
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

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().unwrap();
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Runs another executable there, as `kedge` is.
    #[must_use]
    pub fn asked_by(&self, executable: impl AsRef<Path>, line: &str) -> Said {
        let mut command = self.below_root(executable.as_ref());
        command.args(line.split(' '));
        let output = self.host.run(move || command.output().unwrap());
        Said::of(&output)
    }

    /// Starts `kedge` there, beside whatever else is asked; words are separated by one space.
    #[must_use]
    pub fn begin(&self, line: &str) -> Child {
        let mut command = self.command();
        command
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.host.spawn(command)
    }

    /// What it logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }

    fn command(&self) -> Command {
        self.below_root(&self.executable)
    }

    fn below_root(&self, executable: &Path) -> Command {
        let mut command = Command::new(executable);
        command.arg("--root").arg(&self.root).stdin(Stdio::null());
        command
    }
}

impl Asked for RoleOf<'_> {
    fn kedge(&self, line: &str) -> Said {
        self.asked_by(&self.executable, line)
    }
}

impl Drop for RoleOf<'_> {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
        if std::thread::panicking() {
            eprintln!("--- {} of {}\n{}", self.role, self.host.name, self.log());
        }
    }
}
