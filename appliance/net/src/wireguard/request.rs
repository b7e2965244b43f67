//! A change, as messages that the kernel takes (`WG_CMD_SET_DEVICE`).
//!
//! A message has a bounded size. A peer whose prefixes do not fit goes on in the next one, where it is
//! named again, to be updated and no more.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use zeroize::Zeroizing;

use super::{
    NO_KEY, PeerSet, SET_DEVICE, Set, VERSION, allowed_ip,
    attribute::{Open, Writer},
    device, family, peer,
};

/// The messages that make `set` of the device with the number `ifindex`, to be sent in order: each a
/// generic netlink header and its attributes, at most `limit` bytes and never less than a peer needs.
#[must_use]
pub fn requests(ifindex: u32, set: &Set, limit: usize) -> Vec<Zeroizing<Vec<u8>>> {
    if set.is_empty() {
        return Vec::new();
    }
    let mut messages = Messages::new(ifindex, limit.max(LEAST));
    messages.device(set);
    for peer in &set.peers {
        messages.peer(peer);
    }
    messages.finish()
}

struct Messages {
    ifindex: u32,
    limit: usize,
    done: Vec<Zeroizing<Vec<u8>>>,
    writer: Writer,
    peers: Option<Open>,
}

impl Messages {
    fn new(ifindex: u32, limit: usize) -> Self {
        Self {
            ifindex,
            limit,
            done: Vec::new(),
            writer: begin(ifindex, limit),
            peers: None,
        }
    }

    fn device(&mut self, set: &Set) {
        if let Some(key) = &set.private_key {
            self.writer.put(device::PRIVATE_KEY, key.expose());
        }
        if let Some(port) = set.listen_port {
            self.writer.put(device::LISTEN_PORT, &port.to_ne_bytes());
        }
        if let Some(mark) = set.fwmark {
            self.writer.put(device::FWMARK, &mark.to_ne_bytes());
        }
    }

    fn peer(&mut self, set: &PeerSet) {
        if !self.writer.has_room(PEER) {
            self.turn_over();
        }
        self.open_peers();
        let mut at = self.writer.open(0);
        self.head(set);
        let mut prefixes: Option<Open> = None;
        for prefix in &set.allowed_ips {
            if !self.writer.has_room(PREFIX) {
                self.close(prefixes.take());
                self.close(Some(at));
                self.turn_over();
                self.open_peers();
                at = self.writer.open(0);
                self.head(&PeerSet {
                    update_only: true,
                    ..PeerSet::of(set.public_key)
                });
            }
            if prefixes.is_none() {
                prefixes = Some(self.writer.open(peer::ALLOWED_IPS));
            }
            self.prefix(*prefix);
        }
        self.close(prefixes);
        self.close(Some(at));
    }

    fn head(&mut self, set: &PeerSet) {
        let writer = &mut self.writer;
        writer.put(peer::PUBLIC_KEY, &set.public_key);
        if let Some(key) = &set.preshared_key {
            let bytes = key.as_ref().map_or(&NO_KEY, |key| key.expose());
            writer.put(peer::PRESHARED_KEY, bytes);
        }
        let flags = [
            (set.remove, peer::REMOVE_ME),
            (set.replace_allowed_ips, peer::REPLACE_ALLOWED_IPS),
            (set.update_only, peer::UPDATE_ONLY),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        let flags = flags.fold(0_u32, |all, (_, flag)| all | flag);
        if flags != 0 {
            writer.put(peer::FLAGS, &flags.to_ne_bytes());
        }
        if let Some(endpoint) = set.endpoint {
            put_endpoint(writer, endpoint);
        }
        if let Some(seconds) = set.keepalive {
            writer.put(peer::KEEPALIVE, &seconds.to_ne_bytes());
        }
    }

    fn prefix(&mut self, prefix: IpNet) {
        let writer = &mut self.writer;
        let at = writer.open(0);
        match prefix.network() {
            IpAddr::V4(address) => {
                writer.put(allowed_ip::FAMILY, &family::V4.to_ne_bytes());
                writer.put(allowed_ip::ADDRESS, &address.octets());
            }
            IpAddr::V6(address) => {
                writer.put(allowed_ip::FAMILY, &family::V6.to_ne_bytes());
                writer.put(allowed_ip::ADDRESS, &address.octets());
            }
        }
        writer.put(allowed_ip::PREFIX_LENGTH, &[prefix.prefix_len()]);
        writer.close(at);
    }

    fn open_peers(&mut self) {
        if self.peers.is_none() {
            self.peers = Some(self.writer.open(device::PEERS));
        }
    }

    fn close(&mut self, open: Option<Open>) {
        if let Some(open) = open {
            self.writer.close(open);
        }
    }

    fn turn_over(&mut self) {
        let peers = self.peers.take();
        self.close(peers);
        let fresh = begin(self.ifindex, self.limit);
        let full = std::mem::replace(&mut self.writer, fresh);
        self.done.push(full.finish());
    }

    fn finish(mut self) -> Vec<Zeroizing<Vec<u8>>> {
        let peers = self.peers.take();
        self.close(peers);
        self.done.push(self.writer.finish());
        self.done
    }
}

fn begin(ifindex: u32, limit: usize) -> Writer {
    let mut writer = Writer::new(limit, &[SET_DEVICE, VERSION, 0, 0]);
    writer.put(device::IFINDEX, &ifindex.to_ne_bytes());
    writer
}

/// A `struct sockaddr_in` or `sockaddr_in6`.
fn put_endpoint(writer: &mut Writer, endpoint: SocketAddr) {
    match endpoint {
        SocketAddr::V4(v4) => {
            let mut bytes = [0; 16];
            let (head, _) = bytes.split_at_mut(8);
            let [p, q] = v4.port().to_be_bytes();
            let [f, g] = family::V4.to_ne_bytes();
            let [a, b, c, d] = v4.ip().octets();
            head.copy_from_slice(&[f, g, p, q, a, b, c, d]);
            writer.put(peer::ENDPOINT, &bytes);
        }
        SocketAddr::V6(v6) => {
            let mut bytes = [0; 28];
            let (head, rest) = bytes.split_at_mut(8);
            let (address, scope) = rest.split_at_mut(16);
            let [p, q] = v6.port().to_be_bytes();
            let [f, g] = family::V6.to_ne_bytes();
            let [h, i, j, k] = v6.flowinfo().to_be_bytes();
            head.copy_from_slice(&[f, g, p, q, h, i, j, k]);
            address.copy_from_slice(&v6.ip().octets());
            scope.copy_from_slice(&v6.scope_id().to_ne_bytes());
            writer.put(peer::ENDPOINT, &bytes);
        }
    }
}

/// What a peer needs at most without its prefixes: the headers around it, two keys, flags, an
/// endpoint, a keepalive and the header of prefixes.
const PEER: usize = 8 + 2 * 36 + 8 + 32 + 8 + 4;
/// What a prefix of IPv6 needs, and the header of prefixes.
const PREFIX: usize = 4 + 4 + 8 + 20 + 8;
/// The least that takes the device, a peer and a prefix.
const LEAST: usize = 12 + 36 + 8 + 8 + PEER + PREFIX;
