//! Bytes of a connection in, requests out.
//!
//! ```text
//!            get=1                      empty line ─► Request::Get
//!   Idle ─┬────────► Get ───────────────┘
//!         │  set=1                      empty line ─► Request::Set
//!         ├────────► Set ─── key=value ─┘
//!         │                   │ refused
//!         │                   ▼          empty line ─► its errno
//!         │                Refused ──────┘
//!         └─ anything else ─► EPROTO, and nothing more is read
//! ```

use std::{
    mem,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    str::FromStr,
};

use ipnet::IpNet;
use zeroize::Zeroizing;

use super::{AllowedIp, Errno, PeerSet, Request, Set};
use crate::keys::{PresharedKey, PrivateKey, PublicKey};

/// Reads the requests of one connection, however they are cut into pieces.
#[derive(Debug)]
pub struct Parser {
    state: State,
    /// The line under way, which may hold a key.
    line: Zeroizing<Vec<u8>>,
    /// Bytes of the request under way.
    length: usize,
    scope: fn(&str) -> Option<u32>,
}

#[derive(Debug)]
enum State {
    Idle,
    Get,
    Set(Box<Set>),
    /// A line was refused; the rest of the request is passed over.
    Refused(Errno),
    /// There is no telling where the next request begins.
    Over(Errno),
}

impl Parser {
    /// A parser before the first byte. `scope` knows the number of the interface behind the `%` of
    /// a link-local address.
    #[must_use]
    pub fn new(scope: fn(&str) -> Option<u32>) -> Self {
        Self {
            state: State::Idle,
            line: Zeroizing::new(Vec::with_capacity(MAX_LINE)),
            length: 0,
            scope,
        }
    }

    /// Takes bytes up to the end of a request, and moves `bytes` behind what was taken. `None` asks
    /// for more; after an error that [ends the connection](Errno::ends_connection) each call
    /// answers it again and takes nothing.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Result<Request, Errno>> {
        loop {
            if let State::Over(errno) = self.state {
                return Some(Err(errno));
            }
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            self.length += 1;
            if self.length > MAX_REQUEST {
                self.state = State::Over(Errno::TooBig);
            } else if *first != b'\n' {
                if self.line.len() >= MAX_LINE {
                    self.state = State::Over(Errno::Protocol);
                } else {
                    self.line.push(*first);
                }
            } else if let Some(outcome) = self.end_of_line() {
                return Some(outcome);
            }
        }
    }

    fn end_of_line(&mut self) -> Option<Result<Request, Errno>> {
        let outcome = if self.line.is_empty() {
            self.end_of_request()
        } else {
            self.state = self.take_line();
            None
        };
        self.line.clear();
        outcome
    }

    fn end_of_request(&mut self) -> Option<Result<Request, Errno>> {
        self.length = 0;
        match mem::replace(&mut self.state, State::Idle) {
            // Between requests empty lines are nothing.
            State::Idle => None,
            State::Get => Some(Ok(Request::Get)),
            State::Set(set) => Some(Ok(Request::Set(*set))),
            State::Refused(errno) => Some(Err(errno)),
            State::Over(errno) => {
                self.state = State::Over(errno);
                Some(Err(errno))
            }
        }
    }

    fn take_line(&mut self) -> State {
        match mem::replace(&mut self.state, State::Idle) {
            State::Idle => match self.line.as_slice() {
                b"get=1" => State::Get,
                b"set=1" => State::Set(Box::default()),
                _ => State::Over(Errno::Protocol),
            },
            State::Get => State::Refused(Errno::Protocol),
            State::Set(mut set) => match take(&mut set, &self.line, self.scope) {
                Ok(()) => State::Set(set),
                Err(errno) => State::Refused(errno),
            },
            passed @ (State::Refused(_) | State::Over(_)) => passed,
        }
    }
}

/// Takes one line of a `set`. Behind the first `public_key` lines are about peers.
fn take(set: &mut Set, line: &[u8], scope: fn(&str) -> Option<u32>) -> Result<(), Errno> {
    let at = line.iter().position(|byte| *byte == b'=');
    let (key, value) = at
        .and_then(|at| line.split_at_checked(at))
        .ok_or(Errno::Protocol)?;
    let value = value.get(1..).unwrap_or_default();
    if key == b"public_key" {
        let public_key = PublicKey::from_hex(value).map_err(|_| Errno::Invalid)?;
        set.peers.push(PeerSet::new(public_key));
        return Ok(());
    }
    match set.peers.last_mut() {
        Some(peer) => take_of_peer(peer, key, value, scope),
        None => take_of_device(set, key, value),
    }
}

fn take_of_device(set: &mut Set, key: &[u8], value: &[u8]) -> Result<(), Errno> {
    match key {
        b"private_key" => {
            set.private_key = Some(PrivateKey::from_hex(value).map_err(|_| Errno::Invalid)?);
        }
        b"listen_port" => set.listen_port = Some(number(value)?),
        b"fwmark" => set.fwmark = Some(number(value)?),
        b"replace_peers" => set.replace_peers = yes(value)?,
        _ => return Err(Errno::Invalid),
    }
    Ok(())
}

fn take_of_peer(
    peer: &mut PeerSet,
    key: &[u8],
    value: &[u8],
    scope: fn(&str) -> Option<u32>,
) -> Result<(), Errno> {
    match key {
        b"remove" => peer.remove = yes(value)?,
        b"update_only" => peer.update_only = yes(value)?,
        b"preshared_key" => {
            let key = PresharedKey::from_hex(value).map_err(|_| Errno::Invalid)?;
            peer.preshared_key = Some(key);
        }
        b"endpoint" => {
            let endpoint = std::str::from_utf8(value).ok();
            let endpoint = endpoint.and_then(|text| endpoint_of(text, scope));
            peer.endpoint = Some(endpoint.ok_or(Errno::Invalid)?);
        }
        b"persistent_keepalive_interval" => peer.keepalive = Some(number(value)?),
        b"replace_allowed_ips" => {
            peer.replace_allowed_ips = yes(value)?;
            // What stood before it is replaced, too.
            peer.allowed_ips.clear();
        }
        b"allowed_ip" => peer.allowed_ips.push(allowed_ip(value)?),
        b"protocol_version" if value == b"1" => {}
        _ => return Err(Errno::Invalid),
    }
    Ok(())
}

fn yes(value: &[u8]) -> Result<bool, Errno> {
    if value == b"true" {
        Ok(true)
    } else {
        Err(Errno::Invalid)
    }
}

/// A decimal number without a sign.
fn number<T: FromStr>(value: &[u8]) -> Result<T, Errno> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok())
        .ok_or(Errno::Invalid)
}

/// An address and a port; the scope of a link-local address may be an interface's name.
fn endpoint_of(text: &str, scope: fn(&str) -> Option<u32>) -> Option<SocketAddr> {
    if let Ok(endpoint) = text.parse() {
        return Some(endpoint);
    }
    let (address, port) = text.strip_prefix('[')?.split_once("]:")?;
    let (address, name) = address.split_once('%')?;
    let address: Ipv6Addr = address.parse().ok()?;
    let port = number(port.as_bytes()).ok()?;
    Some(SocketAddrV6::new(address, port, 0, scope(name)?).into())
}

fn allowed_ip(value: &[u8]) -> Result<AllowedIp, Errno> {
    let (value, remove) = match value.strip_prefix(b"-") {
        Some(value) => (value, true),
        None => (value, false),
    };
    let text = std::str::from_utf8(value).map_err(|_| Errno::Invalid)?;
    let (address, length) = text.split_once('/').ok_or(Errno::Invalid)?;
    let address: IpAddr = address.parse().map_err(|_| Errno::Invalid)?;
    let prefix = IpNet::new(address, number(length.as_bytes())?).map_err(|_| Errno::Invalid)?;
    Ok(AllowedIp {
        prefix: prefix.trunc(),
        remove,
    })
}

/// The longest line, in bytes; the longest that means something has 80.
pub const MAX_LINE: usize = 256;

/// The longest request, in bytes: 100 000 peers with a key, an endpoint and five prefixes each.
pub const MAX_REQUEST: usize = 64 * 1024 * 1024;
