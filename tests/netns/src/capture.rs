//! What was on the wire, and what another program makes of it.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::{
    lan::{BRIDGE, Lan},
    quietly, secs,
};

/// A running capture on the LAN's bridge.
#[derive(Debug)]
pub struct Capture {
    process: Child,
    file: PathBuf,
}

impl Capture {
    /// Starts capturing and waits until it does.
    #[must_use]
    pub fn start(lan: &Lan, filter: &str) -> Self {
        let file = lan.directory().join("capture.pcap");
        let log = lan.directory().join("tcpdump.log");
        let mut command = Command::new("tcpdump");
        command
            .args(["-i", BRIDGE, "-U", "-w"])
            .arg(&file)
            .args(["--immediate-mode", "-Z", "root", filter])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let process = lan.spawn(command);
        quietly("tcpdump listens", secs(10), || {
            fs::read_to_string(&log)
                .unwrap_or_default()
                .contains("listening on")
        });
        Self { process, file }
    }

    /// Ends the capture and returns the file.
    #[must_use]
    pub fn stop(mut self) -> PathBuf {
        let pid = self.process.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status().unwrap();
        quietly("tcpdump ends", secs(5), || {
            self.process.try_wait().unwrap().is_some()
        });
        self.file.clone()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.process.try_wait().unwrap().is_none() {
            self.process.kill().unwrap();
            self.process.wait().unwrap();
        }
    }
}

/// What an advert says, as tshark calls it.
pub const ADVERT: [&str; 12] = [
    "ip.src",
    "ip.dst",
    "ip.ttl",
    "ip.dsfield",
    "vrrp.version",
    "vrrp.type",
    "vrrp.virt_rtr_id",
    "vrrp.prio",
    "vrrp.addr_count",
    "vrrp.short_adver_int",
    "vrrp.ip_addr",
    "vrrp.checksum.status",
];

/// What tshark says about the fields of each packet that passes its filter; `as_in_v2` makes it
/// expect the checksum without pseudo-header.
#[must_use]
pub fn tshark(file: &PathBuf, as_in_v2: bool, filter: &str, fields: &[&str]) -> Vec<String> {
    let preference = format!(
        "vrrp.v3_checksum_as_in_v2:{}",
        if as_in_v2 { "TRUE" } else { "FALSE" }
    );
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(file)
        .args(["-o", &preference, "-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}
