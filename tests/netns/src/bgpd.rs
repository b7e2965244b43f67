//! A real FRR bgpd on a host, without zebra: it computes routes and installs none.

use std::process::{Child, Command};

use tempfile::TempDir;

use crate::{
    frr::{daemon, prepared},
    lan::Host,
    quietly, secs,
};

/// A running bgpd; killed when dropped.
#[derive(Debug)]
pub struct Bgpd<'a> {
    host: &'a Host,
    process: Child,
    directory: TempDir,
}

impl<'a> Bgpd<'a> {
    /// Starts it with a configuration.
    #[must_use]
    pub fn running(host: &'a Host, text: &str) -> Self {
        let (directory, config) = prepared(text);
        let process = daemon(host, directory.path(), "bgpd", &config, &["-Z".to_owned()]);
        let bgpd = Self {
            host,
            process,
            directory,
        };
        quietly("bgpd answers", secs(10), || {
            bgpd.vtysh("show version").contains("FRR")
        });
        bgpd
    }

    /// Runs a command of `vtysh`.
    #[must_use]
    pub fn vtysh(&self, command: &str) -> String {
        let mut vtysh = Command::new("vtysh");
        vtysh.arg("--vty_socket").arg(self.directory.path());
        vtysh.args(["-c", command]);
        let output = self.host.run(move || vtysh.output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Bgpd<'_> {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
