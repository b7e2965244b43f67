//! A real GoBGP on a host: it computes routes and installs none.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{lan::Host, left_out, quietly, secs};

/// A running gobgpd; killed when dropped.
#[derive(Debug)]
pub struct GoBgp {
    process: Child,
    directory: TempDir,
}

impl GoBgp {
    /// Whether there is one on this machine. Says so otherwise.
    #[must_use]
    pub fn is_there() -> bool {
        let is_there = [SERVER, CLIENT].iter().all(|it| Path::new(it).exists());
        if !is_there {
            left_out("GoBGP (gobgpd) is not installed");
        }
        is_there
    }

    /// Starts it as AS 65014 with one neighbour of AS 65001, and a route of its own.
    #[must_use]
    pub fn running(host: &Host, near: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("gobgpd.toml");
        fs::write(&config, text(host, near)).unwrap();
        let output = fs::File::create(directory.path().join("out")).unwrap();
        let mut command = Command::new(SERVER);
        command
            .args(["--log-plain", "--pprof-disable", "--config-file"])
            .arg(&config)
            .arg(format!("--api-hosts={}", address(&directory)))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let process = host.spawn(command);
        let gobgp = Self { process, directory };
        quietly("GoBGP answers", secs(10), || {
            gobgp.gobgp("neighbor").contains(near)
        });
        let _ = gobgp.gobgp("global rib add 203.0.113.0/24 -a ipv4");
        gobgp
    }

    /// Runs a command of `gobgp`, whose words no blank is in.
    #[must_use]
    pub fn gobgp(&self, command: &str) -> String {
        // Its socket is a file: the network it is asked from is of no matter.
        let output = Command::new(CLIENT)
            .arg(format!("--target={}", address(&self.directory)))
            .args(command.split(' '))
            .output()
            .unwrap();
        let [out, error] = [output.stdout, output.stderr].map(String::from_utf8);
        out.unwrap() + &error.unwrap()
    }

    /// What it wrote into its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("out")).unwrap_or_default()
    }
}

impl Drop for GoBgp {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn address(directory: &TempDir) -> String {
    format!("unix://{}", directory.path().join("api").display())
}

fn text(host: &Host, near: &str) -> String {
    let families = ["ipv4-unicast", "ipv6-unicast"].map(|family| {
        format!(
            "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{family}\"\n"
        )
    });
    format!(
        "[global.config]\nas = 65014\nrouter-id = \"{}\"\n[[neighbors]]\n[neighbors.config]\n\
         neighbor-address = \"{near}\"\npeer-as = 65001\n[neighbors.timers.config]\nconnect-retry = 1\n\
         idle-hold-time-after-reset = 1\n{}",
        host.address(),
        families.concat()
    )
}

const SERVER: &str = "/usr/bin/gobgpd";
const CLIENT: &str = "/usr/bin/gobgp";
