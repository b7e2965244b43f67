//! A real BIRD 2 on a host.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{lan::Host, quietly, secs};

/// A running BIRD; killed when dropped.
#[derive(Debug)]
pub struct Bird<'a> {
    host: &'a Host,
    process: Option<Child>,
    directory: TempDir,
}

impl<'a> Bird<'a> {
    /// Starts it with these options of `interface "eth0"` and one neighbour.
    #[must_use]
    pub fn start(host: &'a Host, options: &str, neighbor: &str) -> Self {
        Self::running(host, &text(host, options, neighbor))
    }

    /// Starts it with a configuration.
    #[must_use]
    pub fn running(host: &'a Host, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("bird.conf");
        fs::write(&config, text).unwrap();
        let output = fs::File::create(directory.path().join("out")).unwrap();
        let mut command = Command::new("/usr/sbin/bird");
        command
            .arg("-f")
            .arg("-c")
            .arg(&config)
            .arg("-s")
            .arg(directory.path().join("ctl"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let process = Some(host.spawn(command));
        let bird = Self {
            host,
            process,
            directory,
        };
        quietly("BIRD answers", secs(5), || {
            bird.birdc("show status").contains("BIRD")
        });
        bird
    }

    /// The state of its one session: `Up`, `Down`, `Init`, `AdminDown`, or empty.
    #[must_use]
    pub fn state(&self) -> String {
        let table = self.birdc("show bfd sessions");
        let row = table.lines().find(|line| line.contains("eth0"));
        let state = row.and_then(|row| row.split_whitespace().nth(2));
        state.unwrap_or_default().to_owned()
    }

    /// Takes other options for the interface.
    pub fn configure(&self, options: &str, neighbor: &str) {
        let config = self.directory.path().join("bird.conf");
        fs::write(&config, text(self.host, options, neighbor)).unwrap();
        let said = self.birdc("configure");
        assert!(said.contains("Reconfigured"), "{said}");
    }

    /// Runs a command of `birdc`.
    #[must_use]
    pub fn birdc(&self, command: &str) -> String {
        let mut birdc = Command::new("/usr/sbin/birdc");
        birdc.arg("-s").arg(self.directory.path().join("ctl"));
        birdc.args(command.split(' '));
        let output = self.host.run(move || birdc.output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What it wrote into its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("out")).unwrap_or_default()
    }

    /// Has it stand still, or go on.
    pub fn freeze(&self, is_frozen: bool) {
        use rustix::process::{Pid, Signal, kill_process};

        let process = self.process.as_ref().unwrap();
        let signal = if is_frozen {
            Signal::STOP
        } else {
            Signal::CONT
        };
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

impl Drop for Bird<'_> {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.kill();
        }
    }
}

fn text(host: &Host, options: &str, neighbor: &str) -> String {
    format!(
        "router id {};\nprotocol device {{ }}\nprotocol bfd watch {{\n  interface \"eth0\" {{ \
         {options} }};\n  neighbor {neighbor} dev \"eth0\";\n}}\n",
        host.address()
    )
}
