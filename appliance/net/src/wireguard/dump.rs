//! A device as the kernel tells it (`WG_CMD_GET_DEVICE`), over as many messages as it takes: a peer with
//! many prefixes goes on in the next message, where nothing but its key and more prefixes stand.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    time::{Duration, SystemTime},
};

use ipnet::IpNet;

use super::{
    Observed, ObservedPeer, SecretKey, allowed_ip, attribute::attributes, device, family, peer,
};

/// An answer, message by message.
#[derive(Debug, Default)]
pub struct Dump(Observed);

/// Bytes that are no description of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// An attribute ends after the message.
    #[error("truncated")]
    Truncated,
    /// An attribute has a length that none of its kind has.
    #[error("attribute length")]
    Length,
    /// A peer has no public key.
    #[error("peer without a key")]
    NoKey,
    /// An address has a family or a prefix length that there is not.
    #[error("address")]
    Address,
}

impl Dump {
    /// Takes the next message: a generic netlink header and its attributes. One that cannot be read
    /// spoils the whole answer.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn take(&mut self, message: &[u8]) -> Result<(), ParseError> {
        let body = message.get(HEADER..).ok_or(ParseError::Truncated)?;
        let told = &mut self.0;
        for attribute in attributes(body) {
            let (kind, value) = attribute?;
            match kind {
                device::IFINDEX => told.ifindex = u32::from_ne_bytes(exactly(value)?),
                device::IFNAME => {
                    let name = value.strip_suffix(&[0]).unwrap_or(value);
                    told.ifname = String::from_utf8_lossy(name).into_owned();
                }
                device::PRIVATE_KEY => told.private_key = secret(value)?,
                device::PUBLIC_KEY => told.public_key = Some(exactly(value)?),
                device::LISTEN_PORT => told.listen_port = u16::from_ne_bytes(exactly(value)?),
                device::FWMARK => told.fwmark = u32::from_ne_bytes(exactly(value)?),
                device::PEERS => {
                    for one in attributes(value) {
                        put(&mut told.peers, parse_peer(one?.1)?);
                    }
                }
                // Kernels learn to say more.
                _ => {}
            }
        }
        Ok(())
    }

    /// The device.
    #[must_use]
    pub fn finish(self) -> Observed {
        self.0
    }
}

/// Adds a peer, or more prefixes to the last one.
fn put(peers: &mut Vec<ObservedPeer>, peer: ObservedPeer) {
    match peers.last_mut() {
        Some(last) if last.public_key == peer.public_key => {
            last.allowed_ips.extend(peer.allowed_ips);
        }
        _ => peers.push(peer),
    }
}

fn parse_peer(bytes: &[u8]) -> Result<ObservedPeer, ParseError> {
    let mut told = ObservedPeer::default();
    let mut public_key = None;
    for attribute in attributes(bytes) {
        let (kind, value) = attribute?;
        match kind {
            peer::PUBLIC_KEY => public_key = Some(exactly(value)?),
            peer::PRESHARED_KEY => told.preshared_key = secret(value)?,
            peer::ENDPOINT => told.endpoint = Some(endpoint(value)?),
            peer::KEEPALIVE => told.keepalive = u16::from_ne_bytes(exactly(value)?),
            peer::LAST_HANDSHAKE => told.last_handshake = time(value)?,
            peer::RX_BYTES => told.rx_bytes = u64::from_ne_bytes(exactly(value)?),
            peer::TX_BYTES => told.tx_bytes = u64::from_ne_bytes(exactly(value)?),
            peer::ALLOWED_IPS => {
                for one in attributes(value) {
                    told.allowed_ips.push(prefix(one?.1)?);
                }
            }
            _ => {}
        }
    }
    told.public_key = public_key.ok_or(ParseError::NoKey)?;
    Ok(told)
}

fn prefix(bytes: &[u8]) -> Result<IpNet, ParseError> {
    let (mut of, mut address, mut length) = (None, None, None);
    for attribute in attributes(bytes) {
        let (kind, value) = attribute?;
        match kind {
            allowed_ip::FAMILY => of = Some(u16::from_ne_bytes(exactly(value)?)),
            allowed_ip::ADDRESS => address = Some(value),
            allowed_ip::PREFIX_LENGTH => {
                let [bits] = exactly(value)?;
                length = Some(bits);
            }
            _ => {}
        }
    }
    let (Some(of), Some(address), Some(length)) = (of, address, length) else {
        return Err(ParseError::Truncated);
    };
    let address: IpAddr = match of {
        family::V4 => Ipv4Addr::from(exactly::<4>(address)?).into(),
        family::V6 => Ipv6Addr::from(exactly::<16>(address)?).into(),
        _ => return Err(ParseError::Address),
    };
    let net = IpNet::new(address, length).map_err(|_| ParseError::Address)?;
    Ok(net.trunc())
}

/// A `struct sockaddr_in` or `sockaddr_in6`.
fn endpoint(bytes: &[u8]) -> Result<SocketAddr, ParseError> {
    let (of, rest) = bytes.split_first_chunk().ok_or(ParseError::Length)?;
    let (port, rest) = rest.split_first_chunk().ok_or(ParseError::Length)?;
    let port = u16::from_be_bytes(*port);
    match u16::from_ne_bytes(*of) {
        family::V4 => {
            let (address, _) = rest.split_first_chunk::<4>().ok_or(ParseError::Length)?;
            Ok(SocketAddrV4::new((*address).into(), port).into())
        }
        family::V6 => {
            let (flow, rest) = rest.split_first_chunk().ok_or(ParseError::Length)?;
            let (address, rest) = rest.split_first_chunk::<16>().ok_or(ParseError::Length)?;
            let (flow, scope) = (u32::from_be_bytes(*flow), exactly(rest)?);
            let scope = u32::from_ne_bytes(scope);
            Ok(SocketAddrV6::new((*address).into(), port, flow, scope).into())
        }
        _ => Err(ParseError::Address),
    }
}

/// A `struct __kernel_timespec` of the wall clock; zeros are "never".
fn time(bytes: &[u8]) -> Result<Option<SystemTime>, ParseError> {
    let (seconds, rest) = bytes.split_first_chunk().ok_or(ParseError::Length)?;
    let seconds = u64::try_from(i64::from_ne_bytes(*seconds)).unwrap_or_default();
    let nanos = i64::from_ne_bytes(exactly(rest)?);
    let nanos = u32::try_from(nanos).unwrap_or_default().min(999_999_999);
    if (seconds, nanos) == (0, 0) {
        return Ok(None);
    }
    Ok(SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos)))
}

fn secret(bytes: &[u8]) -> Result<Option<SecretKey>, ParseError> {
    let bytes: &[u8; 32] = bytes.try_into().map_err(|_| ParseError::Length)?;
    Ok(SecretKey::from_bytes(bytes))
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ParseError> {
    bytes.try_into().map_err(|_| ParseError::Length)
}

/// The length of a `struct genlmsghdr`.
const HEADER: usize = 4;
