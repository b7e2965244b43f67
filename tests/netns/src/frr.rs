//! A real FRR vrrpd on a host, with the zebra it needs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{lan::Host, quietly, secs};

/// How it is configured. It preempts, as it does unless told not to.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// `vrrp VRID version`.
    pub version: u8,
    /// The virtual router.
    pub vrid: u8,
    /// `vrrp VRID priority`.
    pub priority: u8,
    /// `vrrp VRID advertisement-interval`, in milliseconds.
    pub interval: u32,
    /// The VIPs, of one family.
    pub vips: &'a [&'a str],
}

/// A running vrrpd; killed when dropped.
#[derive(Debug)]
pub struct Frr {
    daemons: Vec<Child>,
    directory: TempDir,
    ipv6: bool,
}

impl Frr {
    /// Starts it on a host, with the macvlan of the virtual hardware address that it expects.
    #[must_use]
    pub fn start(host: &Host, settings: Settings<'_>) -> Self {
        let ipv6 = settings.vips.iter().any(|vip| vip.contains(':'));
        macvlan(host, settings, ipv6);
        let (directory, config) = prepared(&text(settings, ipv6));
        let mut frr = Self {
            daemons: Vec::new(),
            directory,
            ipv6,
        };
        let socket = frr.directory.path().join("zserv.api");
        let zebra = daemon(host, frr.directory.path(), "zebra", &config, &[]);
        frr.daemons.push(zebra);
        quietly("zebra listens", secs(5), || socket.exists());
        let vrrpd = daemon(host, frr.directory.path(), "vrrpd", &config, &[]);
        frr.daemons.push(vrrpd);
        frr
    }

    /// What it says it is: `Initialize`, `Backup` or `Master`; empty before it answers.
    #[must_use]
    pub fn status(&self, host: &Host) -> String {
        let directory = self.directory.path().to_owned();
        let family = if self.ipv6 {
            "/0/v6/status"
        } else {
            "/0/v4/status"
        };
        let output = host.run(move || {
            let mut vtysh = Command::new("vtysh");
            vtysh.arg("--vty_socket").arg(directory);
            vtysh.args(["-c", "show vrrp json"]).output().unwrap()
        });
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let status = answer.pointer(family).and_then(Value::as_str);
        status.unwrap_or_default().to_owned()
    }

    /// Sends vrrpd a signal.
    pub fn signal(&self, signal: Signal) {
        let vrrpd = self.daemons.last().unwrap();
        kill_process(Pid::from_child(vrrpd), signal).unwrap();
    }

    /// Ends vrrpd as a service manager does.
    pub fn stop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let pid = daemon.id().to_string();
            Command::new("kill").args(["-TERM", &pid]).status().unwrap();
            quietly("FRR ends", secs(5), || daemon.try_wait().unwrap().is_some());
        }
        self.daemons.clear();
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }
}

/// Starts one of FRR's daemons with everything it writes in a directory of its own.
pub(crate) fn daemon(
    host: &Host,
    directory: &Path,
    name: &str,
    config: &Path,
    more: &[String],
) -> Child {
    let output = fs::File::create(directory.join(format!("{name}.out"))).unwrap();
    let mut command = Command::new(format!("/usr/lib/frr/{name}"));
    command
        .args(["--user", "frr", "--group", "frr", "--vty_port", "0"])
        .arg("--vty_socket")
        .arg(directory)
        .arg("--socket")
        .arg(directory.join("zserv.api"))
        .arg("--pid_file")
        .arg(directory.join(format!("{name}.pid")))
        .arg("--config_file")
        .arg(config)
        .args(more)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output);
    host.spawn(command)
}

/// A directory that FRR's daemons, which run as a user of their own, may write to, with their
/// configuration in it.
pub(crate) fn prepared(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::Builder::new().prefix("kedge-frr-").tempdir();
    let directory = directory.unwrap();
    let config = directory.path().join("frr.conf");
    fs::write(&config, text).unwrap();
    let owner = Command::new("chown")
        .args(["-R", "frr:frr"])
        .arg(directory.path())
        .status();
    assert!(owner.unwrap().success());
    (directory, config)
}

fn text(settings: Settings<'_>, ipv6: bool) -> String {
    let Settings {
        version,
        vrid,
        priority,
        interval,
        vips,
    } = settings;
    let keyword = if ipv6 { "ipv6" } else { "ip" };
    let vips: String = vips
        .iter()
        .map(|vip| format!(" vrrp {vrid} {keyword} {vip}\n"))
        .collect();
    format!(
        "interface eth0\n vrrp {vrid} version {version}\n vrrp {vrid} priority {priority}\n \
         vrrp {vrid} advertisement-interval {interval}\n{vips}"
    )
}

/// The interface on which it holds the addresses; it is found by its hardware address.
fn macvlan(host: &Host, settings: Settings<'_>, ipv6: bool) {
    let (family, prefix) = if ipv6 { (2, 64) } else { (1, 24) };
    let mac = format!("00:00:5e:00:0{family}:{:02x}", settings.vrid);
    let name = "vrrp-vip";
    let mut commands = vec![
        format!("link add {name} link eth0 type macvlan mode bridge"),
        format!("link set {name} address {mac}"),
        format!("link set {name} addrgenmode random"),
    ];
    for vip in settings.vips {
        let nodad = if ipv6 { "nodad" } else { "" };
        commands.push(format!("address add {vip}/{prefix} dev {name} {nodad}"));
    }
    commands.push(format!("link set {name} up"));
    host.run(move || {
        // One of before is in the way.
        _ = Command::new("ip").args(["link", "delete", name]).output();
        for command in commands {
            let status = Command::new("ip").args(command.split_whitespace()).status();
            assert!(status.unwrap().success(), "ip {command}");
        }
    });
}
