//! A real FRR bgpd on a host, without zebra: it computes routes and installs none.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use super::lab::{Host, eventually, secs};

const BGPD: &str = "/usr/lib/frr/bgpd";

/// A running bgpd; killed when dropped.
pub struct Bgpd<'a> {
    host: &'a Host,
    process: Child,
    directory: TempDir,
}

/// Whether it is installed. With `KEDGE_REQUIRE=netns` it has to be.
pub fn installed() -> bool {
    let is_there = fs::exists(BGPD).unwrap();
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    assert!(is_there || !required.contains("netns"), "needs FRR");
    is_there
}

impl<'a> Bgpd<'a> {
    pub fn running(host: &'a Host, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        let config = path.join("bgpd.conf");
        fs::write(&config, format!("log file {}/log\n{text}", path.display())).unwrap();
        let mut command = Command::new(BGPD);
        command
            .arg("-Z")
            .arg("-f")
            .arg(&config)
            .arg("-i")
            .arg(path.join("pid"));
        command.arg("--vty_socket").arg(path).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = host.run(|| command.spawn().unwrap());
        let bgpd = Self {
            host,
            process,
            directory,
        };
        eventually("bgpd answers", secs(10), || {
            bgpd.vtysh("show version").contains("FRR")
        });
        bgpd
    }

    /// Runs a command of `vtysh`.
    pub fn vtysh(&self, command: &str) -> String {
        let mut vtysh = Command::new("/usr/bin/vtysh");
        vtysh
            .arg("--vty_socket")
            .arg(self.directory.path())
            .arg("-c")
            .arg(command);
        let output = self.host.run(|| vtysh.output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Bgpd<'_> {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
