//! A real FRR bgpd on a host: alone it computes routes and installs none, with zebra it installs them, and
//! with bfdd it follows BFD.

use std::{
    process::{Child, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use kedge_net::link::sysctl;
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
    /// In the order in which they were started; bgpd is the last one.
    processes: Vec<Child>,
    directory: TempDir,
}

impl<'a> Bgpd<'a> {
    /// Starts it with a configuration.
    #[must_use]
    pub fn running(host: &'a Host, text: &str) -> Self {
        Self::start(host, text, false)
    }

    /// Starts it with a configuration, and with zebra and bfdd, as FRR runs on a router.
    #[must_use]
    pub fn routing(host: &'a Host, text: &str) -> Self {
        host.run(|| {
            for family in ["ipv4/conf/all", "ipv6/conf/all"] {
                sysctl(&format!("{family}/forwarding"), "1").unwrap();
            }
        });
        Self::start(host, text, true)
    }

    fn start(host: &'a Host, text: &str, routing: bool) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        let (directory, config) = prepared(text);
        let path = directory.path();
        let mut processes = Vec::new();
        if routing {
            processes.push(daemon(host, path, "zebra", &config, &[]));
            let socket = path.join("zserv.api");
            quietly("zebra listens", secs(5), || socket.exists());
            // Unique: it is a name in the file system of all hosts.
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let control = path.join(format!("bgpd-{count}.sock"));
            let control = ["--bfdctl".to_owned(), control.display().to_string()];
            processes.push(daemon(host, path, "bfdd", &config, &control));
        }
        let alone = ["-Z".to_owned()];
        let more = if routing { &[][..] } else { &alone };
        processes.push(daemon(host, path, "bgpd", &config, more));
        let bgpd = Self {
            host,
            processes,
            directory,
        };
        quietly("bgpd answers", secs(10), || {
            bgpd.vtysh("show version").contains("FRR")
        });
        bgpd
    }

    /// What the kernel has for a destination, as `ip route` writes it.
    #[must_use]
    pub fn kernel_route(&self, destination: &str) -> String {
        let mut ip = Command::new("ip");
        ip.args(["route", "show", destination]);
        let output = self.host.run(move || ip.output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What its daemons wrote.
    #[must_use]
    pub fn log(&self) -> String {
        let read = |name: &str| {
            let file = self.directory.path().join(format!("{name}.out"));
            std::fs::read_to_string(file).unwrap_or_default()
        };
        ["zebra", "bfdd", "bgpd"].map(read).concat()
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
        for process in self.processes.iter_mut().rev() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}
