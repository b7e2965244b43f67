//! A real keepalived on a host.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use kedge_net::netns::Namespace;
use rustix::process::{Pid, Signal, kill_process};

use crate::{lan::Host, quietly, secs};

/// How it is configured.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// `vrrp_version`.
    pub version: u8,
    /// `virtual_router_id`.
    pub vrid: u8,
    /// `priority`.
    pub priority: u8,
    /// `advert_int` in seconds, as keepalived reads it.
    pub advert_int: &'a str,
    /// The VIPs, with prefix length.
    pub vips: &'a [&'a str],
    /// Whether it takes over from a lower priority; keepalived does unless told not to.
    pub preempt: bool,
    /// More lines of the instance.
    pub lines: &'a str,
}

/// A running keepalived; killed when dropped.
#[derive(Debug)]
pub struct Keepalived {
    process: Child,
    log: PathBuf,
    vrrp_pid: PathBuf,
}

impl Keepalived {
    /// Starts it on a host.
    #[must_use]
    pub fn start(host: &Host, settings: Settings<'_>) -> Self {
        Self::start_binary(host, "keepalived", settings)
    }

    /// One that is as new as `least`: that of `KEDGE_KEEPALIVED`, or the system's. Without one it says
    /// what a test would need, and there is none: no package of this system is newer than its own.
    #[must_use]
    pub fn since(least: [u32; 3], what: &str) -> Option<String> {
        let binary = std::env::var("KEDGE_KEEPALIVED").unwrap_or("keepalived".to_owned());
        let [major, minor, patch] = least;
        match version(&binary) {
            Some((text, version)) if version >= least => {
                println!("keepalived {text}");
                Some(binary)
            }
            older => {
                let there = older.map_or("unknown".to_owned(), |(text, _)| text);
                println!(
                    "SKIPPED: keepalived {there} has no {what}; set KEDGE_KEEPALIVED to one of \
                     {major}.{minor}.{patch} or later, built from its source"
                );
                None
            }
        }
    }

    /// Starts another one than the system's.
    #[must_use]
    pub fn start_binary(host: &Host, binary: &str, settings: Settings<'_>) -> Self {
        let Settings {
            version,
            vrid,
            priority,
            advert_int,
            vips,
            preempt,
            lines,
        } = settings;
        let vips: String = vips
            .iter()
            .map(|vip| format!("    {vip} dev eth0\n"))
            .collect();
        let nopreempt = if preempt { "" } else { "nopreempt" };
        let config = format!(
            "global_defs {{\n  router_id {name}\n  vrrp_version {version}\n}}\n\
             vrrp_instance vip {{\n  state BACKUP\n  interface eth0\n  virtual_router_id {vrid}\n  \
             priority {priority}\n  advert_int {advert_int}\n  {nopreempt}\n  \
             {lines}\n  virtual_ipaddress {{\n{vips}  }}\n}}\n",
            name = host.name,
        );
        Self::start_with(host, binary, &config)
    }

    /// Starts it with a configuration of its own.
    #[must_use]
    pub fn start_with(host: &Host, binary: &str, config: &str) -> Self {
        let directory = host.directory();
        let path = directory.join("keepalived.conf");
        fs::write(&path, config).unwrap();
        let log = directory.join("keepalived.log");
        let vrrp_pid = directory.join("vrrp.pid");
        let output = fs::File::create(&log).unwrap();
        let mut command = Command::new(binary);
        command
            .args([
                "--dont-fork",
                "--log-console",
                "--vrrp",
                "--log-detail",
                "--use-file",
            ])
            .arg(&path)
            .arg("--pid")
            .arg(directory.join("keepalived.pid"))
            .arg("--vrrp_pid")
            .arg(&vrrp_pid)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        Self {
            process: host.spawn(command),
            log,
            vrrp_pid,
        }
    }

    /// Ends it as a service manager does: it says goodbye.
    pub fn stop(&mut self) {
        let pid = self.process.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        quietly("keepalived ends", secs(5), || {
            self.process.try_wait().unwrap().is_some()
        });
    }

    /// Kills both of its processes: the one that speaks, and before that the one that would start it
    /// again.
    pub fn kill(&mut self) {
        self.signal(Signal::STOP);
        kill_process(self.speaker(), Signal::KILL).unwrap();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // It would hold the next one for itself as long as nobody has reaped the child.
        fs::remove_file(&self.vrrp_pid).unwrap();
    }

    /// Sends both of its processes a signal.
    pub fn signal(&self, signal: Signal) {
        let parent = Pid::from_child(&self.process);
        for process in [parent, self.speaker()] {
            kill_process(process, signal).unwrap();
        }
    }

    /// The process that speaks.
    fn speaker(&self) -> Pid {
        let id = fs::read_to_string(&self.vrrp_pid).unwrap();
        Pid::from_raw(id.trim().parse().unwrap()).unwrap()
    }

    /// What it said.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How often it changed into or out of Active since it started.
    #[must_use]
    pub fn transitions(&self) -> usize {
        self.log().matches("Entering").count()
    }

    /// Kills every process of a host at once, as a power cut would.
    pub fn kill_all(namespace: &Namespace) {
        namespace.kill_all().unwrap();
    }
}

/// The version of a keepalived.
fn version(binary: &str) -> Option<(String, [u32; 3])> {
    let output = Command::new(binary).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = text.split("Keepalived v").nth(1)?;
    let text = text.split_whitespace().next()?.to_owned();
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    let version = [part(), part(), part()];
    Some((text, version))
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        // SIGTERM first: its child would outlive a killed parent.
        if self.process.try_wait().unwrap().is_none() {
            self.stop();
        }
    }
}
