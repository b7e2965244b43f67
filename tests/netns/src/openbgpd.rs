//! A real OpenBGPD on a host: it computes routes and installs none.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{lan::Host, left_out, quietly, secs};

/// A running bgpd of OpenBGPD; killed when dropped.
#[derive(Debug)]
pub struct OpenBgpd {
    process: Child,
    directory: TempDir,
}

impl OpenBgpd {
    /// Whether there is one on this machine. Says so otherwise.
    #[must_use]
    pub fn is_there() -> bool {
        let is_there = [SERVER, CLIENT].iter().all(|it| Path::new(it).exists());
        if !is_there {
            left_out("OpenBGPD (openbgpd) is not installed");
        }
        is_there
    }

    /// Starts it as AS 65014 with one neighbour of AS 65001, and a route of its own.
    #[must_use]
    pub fn running(host: &Host, [near, far]: [&str; 2]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("bgpd.conf");
        fs::write(&config, text(host, &directory, [near, far])).unwrap();
        // It reads none that others may write to.
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
        let output = fs::File::create(directory.path().join("out")).unwrap();
        let mut command = Command::new("/usr/bin/unshare");
        command
            .args([
                "--mount",
                "/bin/sh",
                "-ec",
                WITH_A_PLACE,
                SERVER,
                "-d",
                "-f",
            ])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let process = host.spawn(command);
        let openbgpd = Self { process, directory };
        quietly("OpenBGPD answers", secs(10), || {
            openbgpd.bgpctl("show summary").contains("kedge")
        });
        openbgpd
    }

    /// Runs a command of `bgpctl`, whose words no blank is in.
    #[must_use]
    pub fn bgpctl(&self, command: &str) -> String {
        // Its socket is a file: the network it is asked from is of no matter.
        let output = Command::new(CLIENT)
            .arg("-s")
            .arg(self.directory.path().join("ctl"))
            .args(command.split(' '))
            .output()
            .unwrap();
        let [out, error] = [output.stdout, output.stderr].map(String::from_utf8);
        out.unwrap() + &error.unwrap()
    }

    /// Its own route: one of the family that the session goes over. To others it gives a next hop that
    /// is none.
    #[must_use]
    pub fn route(near: &str) -> &'static str {
        if near.contains(':') {
            "2001:db8:99::/48"
        } else {
            "203.0.113.0/24"
        }
    }
}

impl Drop for OpenBgpd {
    fn drop(&mut self) {
        // Its other processes end as their pipe to this one does.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn text(host: &Host, directory: &TempDir, [near, far]: [&str; 2]) -> String {
    format!(
        "AS 65014\nrouter-id {}\nfib-update no\nsocket \"{}\"\nconnect-retry 1\nnetwork \
         {}\nneighbor {near} {{\n  remote-as 65001\n  descr \"kedge\"\n  local-address \
         {far}\n  announce IPv4 unicast\n  announce IPv6 unicast\n}}\nallow from any\nallow to any\n",
        host.address(),
        directory.path().join("ctl").display(),
        OpenBgpd::route(near)
    )
}

const SERVER: &str = "/usr/sbin/bgpd";
const CLIENT: &str = "/usr/sbin/bgpctl";
/// It locks itself into /run/openbgpd, which its unit makes; here it has one of its own.
const WITH_A_PLACE: &str =
    "mount -t tmpfs none /run; mkdir -m 0755 /run/openbgpd; exec \"$0\" \"$@\"";
