//! Hosts with virtual hardware addresses, and a service to be reached there.

use std::{
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use kedge_net::virtual_link::VirtualLinks;

use crate::{capture::tshark, eventually, lan::Host, millis, secs};

/// That of VRID 51 for IPv4.
pub const MAC: [u8; 6] = [0, 0, 0x5e, 0, 1, 51];
/// The same for IPv6.
pub const MAC_V6: [u8; 6] = [0, 0, 0x5e, 0, 2, 51];

/// The names of a host's virtual links, and which are up.
#[must_use]
pub fn links(host: &Host) -> Vec<(String, bool)> {
    let all = host.run(|| VirtualLinks::open().unwrap().list().unwrap());
    all.into_iter().map(|link| (link.name, link.up)).collect()
}

/// Whether its only one is that of VRID 51 for IPv4, and up or down.
#[must_use]
pub fn link_is(host: &Host, up: bool) -> bool {
    links(host) == [("kedge-vr51-4".to_owned(), up)]
}

/// Whether an address stands on a link, of whatever kind.
#[must_use]
pub fn holds(host: &Host, address: &str) -> bool {
    let words = format!("address show to {address}");
    !ip_says(host, &words).is_empty()
}

/// Has `ip` do something on a host.
pub fn ip(host: &Host, words: &str) {
    _ = ip_says(host, words);
}

/// What `ip` says on a host.
#[must_use]
pub fn ip_says(host: &Host, words: &str) -> String {
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let output = host.run(move || Command::new("ip").args(words).output().unwrap());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits for a fence.
pub fn fence_stands(host: &Host) {
    eventually("a fence stands", secs(5), || {
        host.run(|| !kedge_net::fence::standing().unwrap().is_empty())
    });
}

/// A service on every address of a host.
#[must_use]
pub fn listen(host: &Host) -> TcpListener {
    host.run(|| TcpListener::bind("[::]:7777").unwrap())
}

/// Whether a client reaches it.
#[must_use]
pub fn connects(client: &Host, to: &str) -> bool {
    let to = SocketAddr::new(to.parse::<IpAddr>().unwrap(), 7777);
    client.run(move || TcpStream::connect_timeout(&to, millis(700)).is_ok())
}

/// What a host sends from the virtual hardware address, as far as it leaves.
#[derive(Debug)]
pub struct Port {
    capture: Child,
    file: PathBuf,
}

impl Port {
    /// Starts looking.
    #[must_use]
    pub fn start(host: &Host) -> Self {
        let file = host.directory().join("port.pcap");
        let mut command = Command::new("tcpdump");
        command
            .args([
                "-i",
                "eth0",
                "-Q",
                "out",
                "-U",
                "--immediate-mode",
                "-Z",
                "root",
                "-w",
            ])
            .arg(&file)
            .arg("ether src 00:00:5e:00:01:33")
            .stderr(Stdio::null());
        let capture = host.spawn(command);
        eventually("tcpdump listens", secs(10), || file.exists());
        Self { capture, file }
    }

    /// The frames so far.
    #[must_use]
    pub fn frames(&self) -> Vec<String> {
        tshark(
            &self.file,
            false,
            "eth.src == 00:00:5e:00:01:33",
            &["frame.number"],
        )
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.capture.kill().unwrap();
        self.capture.wait().unwrap();
    }
}
