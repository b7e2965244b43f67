//! What requests are answered with.

use std::{fmt::Write as _, time::Duration};

use zeroize::Zeroizing;

use super::{Configuration, Errno};
use crate::keys::PublicKey;

/// What a running peer adds to what it was told to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// When the last handshake was completed, after 1970; zero when there was none.
    pub last_handshake: Duration,
    /// Bytes of WireGuard messages received.
    pub rx_bytes: u64,
    /// Bytes of WireGuard messages sent.
    pub tx_bytes: u64,
}

/// Whether keys that are nobody else's are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// To the owner of a plain device, whose tools read and write them.
    Told,
    /// A role's keys stay where they are.
    Kept,
}

/// The answer to a `get` of a device that has `listen_port`. The text is wiped when dropped.
pub fn get(
    configuration: &Configuration,
    listen_port: u16,
    secrets: Secrets,
    mut traffic: impl FnMut(&PublicKey) -> Traffic,
) -> Zeroizing<String> {
    let peers = configuration.peers();
    // Room for all of it: growing would leave copies of keys behind.
    let room: usize = peers
        .map(|(_, peer)| PEER + PREFIX * peer.allowed_ips.len())
        .sum();
    let mut text = Zeroizing::new(String::with_capacity(DEVICE + room));
    let told = secrets == Secrets::Told;
    if let Some(key) = configuration.private_key().filter(|_| told) {
        text.push_str("private_key=");
        key.write_hex(&mut text);
        text.push('\n');
    }
    line(&mut text, format_args!("listen_port={listen_port}"));
    if configuration.fwmark() != 0 {
        line(&mut text, format_args!("fwmark={}", configuration.fwmark()));
    }
    for (key, peer) in configuration.peers() {
        text.push_str("public_key=");
        key.write_hex(&mut text);
        if let Some(key) = peer.preshared_key.as_ref().filter(|_| told) {
            text.push_str("\npreshared_key=");
            key.write_hex(&mut text);
        }
        text.push_str("\nprotocol_version=1\n");
        if let Some(endpoint) = peer.endpoint {
            line(&mut text, format_args!("endpoint={endpoint}"));
        }
        let traffic = traffic(key);
        let (seconds, nanos) = (
            traffic.last_handshake.as_secs(),
            traffic.last_handshake.subsec_nanos(),
        );
        line(&mut text, format_args!("last_handshake_time_sec={seconds}"));
        line(&mut text, format_args!("last_handshake_time_nsec={nanos}"));
        line(&mut text, format_args!("tx_bytes={}", traffic.tx_bytes));
        line(&mut text, format_args!("rx_bytes={}", traffic.rx_bytes));
        let keepalive = peer.keepalive;
        line(
            &mut text,
            format_args!("persistent_keepalive_interval={keepalive}"),
        );
        for prefix in &peer.allowed_ips {
            line(&mut text, format_args!("allowed_ip={prefix}"));
        }
    }
    text.push_str(&errno(Ok(())));
    text
}

/// How a request ended; the end of every answer.
#[must_use]
pub fn errno(outcome: Result<(), Errno>) -> String {
    let number = outcome.map_or_else(Errno::number, |()| 0);
    format!("errno={number}\n\n")
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    let _ = text.write_fmt(line);
    text.push('\n');
}

/// More than the lines of a device, of a peer and of a prefix have, in bytes.
const DEVICE: usize = 160;
const PEER: usize = 480;
const PREFIX: usize = 64;
