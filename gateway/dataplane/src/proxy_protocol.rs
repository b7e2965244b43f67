//! The PROXY protocol, versions 1 and 2: who a client is, said by a load balancer before its first byte. Read and
//! written; no I/O.
//!
//! `doc/proxy-protocol.txt` of HAProxy is what is said of sections here. A header is told from anything else by its
//! first bytes, and nobody who says something else is waited for.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use kedge_control::frontend::ClientIp;

/// Both ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// Where it went.
    pub destination: SocketAddr,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Who the client is.
    Proxied(Addresses),
    /// That whoever has the connection speaks for itself (`LOCAL`), or does not know for whom (`UNKNOWN`,
    /// `UNSPEC`).
    Own,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// They begin otherwise.
    NoHeader,
    /// The header says something that the protocol does not have, or not for TCP.
    Invalid,
    /// It is longer than is read.
    TooLong,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHeader => "no header of the PROXY protocol",
            Self::Invalid => "a header that is none for TCP",
            Self::TooLong => "a header that is too long",
        })
    }
}

/// The header at the beginning of what was said so far, with its length; `None` while more bytes are needed.
pub(crate) fn read(said: &[u8]) -> Result<Option<(Header, usize)>, Wrong> {
    if begins(said, SIGNATURE) {
        binary(said)
    } else if begins(said, WORD) {
        text(said)
    } else {
        Err(Wrong::NoHeader)
    }
}

/// Whether it begins so, as far as it goes.
fn begins(said: &[u8], with: &[u8]) -> bool {
    said.iter().zip(with).all(|(byte, wanted)| byte == wanted)
}

/// Version 1 (section 2.1): a line.
fn text(said: &[u8]) -> Result<Option<(Header, usize)>, Wrong> {
    let most = said.get(..MOST_TEXT).unwrap_or(said);
    let Some(end) = most.windows(2).position(|two| two == b"\r\n") else {
        return match said.len() {
            0..MOST_TEXT => Ok(None),
            _ => Err(Wrong::TooLong),
        };
    };
    let line = said.get(WORD.len()..end).unwrap_or_default();
    let line = str::from_utf8(line).map_err(|_| Wrong::Invalid)?;
    let header = match line.split_once(' ') {
        _ if line == "UNKNOWN" || line.starts_with("UNKNOWN ") => Some(Header::Own),
        Some(("TCP4", rest)) => ends::<Ipv4Addr>(rest).map(Header::Proxied),
        Some(("TCP6", rest)) => ends::<Ipv6Addr>(rest).map(Header::Proxied),
        Some(_) | None => None,
    };
    Ok(Some((header.ok_or(Wrong::Invalid)?, end + 2)))
}

fn ends<A: std::str::FromStr + Into<IpAddr>>(rest: &str) -> Option<Addresses> {
    let words: Vec<&str> = rest.split(' ').take(5).collect();
    let [source, destination, from, to] = *words else {
        return None;
    };
    let at = |address: &str, port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let address: A = address.parse().ok()?;
        let port = port.parse().ok().filter(|_| digits)?;
        Some(SocketAddr::new(address.into(), port))
    };
    Some(Addresses {
        source: at(source, from)?,
        destination: at(destination, to)?,
    })
}

/// Version 2 (section 2.2): what it adds behind the addresses is skipped.
fn binary(said: &[u8]) -> Result<Option<(Header, usize)>, Wrong> {
    let byte = |at| said.get(at).copied();
    let is_proxied = match byte(SIGNATURE.len()) {
        None => return Ok(None),
        Some(LOCAL) => false,
        Some(PROXY) => true,
        Some(_) => return Err(Wrong::Invalid),
    };
    let (Some(family), Some(high), Some(low)) = (byte(13), byte(14), byte(15)) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let least = match family {
        _ if !is_proxied => 0,
        UNSPEC => 0,
        TCP4 => 12,
        TCP6 => 36,
        _ => return Err(Wrong::Invalid),
    };
    let end = HEAD + length;
    if length < least {
        return Err(Wrong::Invalid);
    }
    if end > MOST {
        return Err(Wrong::TooLong);
    }
    let Some(rest) = said.get(HEAD..end) else {
        return Ok(None);
    };
    let proxied = match least {
        12 => addresses::<4>(rest),
        36 => addresses::<16>(rest),
        _ => return Ok(Some((Header::Own, end))),
    };
    let header = proxied.map(Header::Proxied).ok_or(Wrong::Invalid)?;
    Ok(Some((header, end)))
}

/// Source, destination, and the ports of both.
fn addresses<const N: usize>(rest: &[u8]) -> Option<Addresses>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = rest.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (from, rest) = rest.split_first_chunk()?;
    let (to, _) = rest.split_first_chunk()?;
    let at = |address: [u8; N], port| SocketAddr::new(address.into(), u16::from_be_bytes(port));
    Some(Addresses {
        source: at(*source, *from),
        destination: at(*destination, *to),
    })
}

/// The header that tells a member; nothing where it is not to be told. An end in IPv4 beside one in IPv6 is
/// mapped: a header has one family.
pub(crate) fn write(told: ClientIp, ends: &Addresses) -> Vec<u8> {
    let Addresses {
        source,
        destination,
    } = ends;
    let (from, to) = match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V6(to)) => (from.to_ipv6_mapped().into(), to.into()),
        (IpAddr::V6(from), IpAddr::V4(to)) => (from.into(), to.to_ipv6_mapped().into()),
        same => same,
    };
    let is_four = from.is_ipv4();
    match told {
        ClientIp::Hidden => Vec::new(),
        ClientIp::ProxyV1 => {
            let family = if is_four { "TCP4" } else { "TCP6" };
            let (source, destination) = (source.port(), destination.port());
            format!("PROXY {family} {from} {to} {source} {destination}\r\n").into_bytes()
        }
        ClientIp::ProxyV2 => {
            let (family, length) = if is_four { (TCP4, 12) } else { (TCP6, 36) };
            let mut header = SIGNATURE.to_vec();
            header.extend([PROXY, family, 0, length]);
            for address in [from, to] {
                match address {
                    IpAddr::V4(four) => header.extend(four.octets()),
                    IpAddr::V6(six) => header.extend(six.octets()),
                }
            }
            header.extend(source.port().to_be_bytes());
            header.extend(destination.port().to_be_bytes());
            header
        }
    }
}

/// How version 1 begins.
const WORD: &[u8] = b"PROXY ";
/// How version 2 begins.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, its end included (section 2.1).
const MOST_TEXT: usize = 107;
/// What stands before the addresses of version 2.
const HEAD: usize = 16;
/// The longest header that is read. Load balancers add names, certificates' subjects and identities of the
/// network, some hundred bytes; the protocol would have 64 KiB.
pub(crate) const MOST: usize = 4096;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPEC: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

#[cfg(test)]
mod tests;
