//! A manager that does not lead passes connections on to the one that does.
//!
//! ```text
//! agent ──TLS──────────────────────────────► leader          the Service chose the leader
//! agent ──TLS──► follower ──letter + TLS──► leader           it chose another
//! ```
//!
//! Bytes are passed on as they come: TLS ends at the leader, so a proof holds on the connection it
//! was made for, a certificate is verified by the one who acts on it, liveness and clones are seen
//! in one place, and a follower can neither read nor change what it carries. Before them goes a
//! [`Letter`] that says where the connection came from. Only managers can write one: its key is
//! made from that of the certificate authority.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::{Duration, SystemTime},
};

use aws_lc_rs::{hkdf, hmac};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional_with_sizes},
    net::TcpStream,
    sync::watch,
    time::timeout,
};

use crate::store::Leadership;

/// Signs and checks letters.
#[derive(Clone)]
pub struct Seal {
    key: hmac::Key,
    /// That of managers that have not heard of the last rotation of the authority.
    last: Option<hmac::Key>,
}

/// What a seal is made with.
#[derive(Clone)]
pub struct SealKey([u8; 32]);

/// Where a connection came from that another manager passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The client.
    pub client: SocketAddr,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// With TLS: the client itself.
    Client,
    /// With a letter of another manager.
    PassedOn(Letter),
}

impl SealKey {
    /// The key of everybody who holds the authority's key.
    #[must_use]
    pub fn derive(authority_key: &[u8]) -> Option<Self> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]);
        let mut key = [0; 32];
        let output = salt.extract(authority_key);
        let output = output.expand(&[KEY_INFO], hkdf::HKDF_SHA256).ok()?;
        output.fill(&mut key).ok()?;
        Some(Self(key))
    }

    /// Reads what [`SealKey::text`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = [0; 32];
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut key).ok()?;
        (length == key.len()).then_some(Self(key))
    }

    /// The key as it is kept beside the next authority's; no other place is for it.
    #[must_use]
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

impl Seal {
    /// A seal that signs with one key and knows the last one, too.
    #[must_use]
    pub fn new(key: &SealKey, last: Option<&SealKey>) -> Self {
        let of = |key: &SealKey| hmac::Key::new(hmac::HMAC_SHA256, &key.0);
        Self {
            key: of(key),
            last: last.map(of),
        }
    }

    fn write(&self, client: SocketAddr, now: SystemTime) -> Vec<u8> {
        let address = match client.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mut letter = Vec::with_capacity(LETTER);
        letter.extend_from_slice(MAGIC);
        letter.extend_from_slice(&address.octets());
        letter.extend_from_slice(&client.port().to_be_bytes());
        letter.extend_from_slice(&seconds(now).to_be_bytes());
        let tag = hmac::sign(&self.key, &letter);
        letter.extend_from_slice(tag.as_ref());
        letter
    }

    fn read(&self, letter: &[u8; LETTER], now: SystemTime) -> Option<Letter> {
        let (signed, tag) = letter.split_last_chunk::<TAG>()?;
        let mut keys = [Some(&self.key), self.last.as_ref()].into_iter().flatten();
        keys.find(|key| hmac::verify(key, signed, tag).is_ok())?;
        let rest = signed.strip_prefix(MAGIC)?;
        let (address, rest) = rest.split_first_chunk::<16>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (written, _) = rest.split_first_chunk::<8>()?;
        let age = seconds(now).abs_diff(u64::from_be_bytes(*written));
        let address = Ipv6Addr::from(*address).to_canonical();
        (age <= FRESH.as_secs()).then_some(Letter {
            client: SocketAddr::new(address, u16::from_be_bytes(*port)),
        })
    }

    /// Looks how a connection begins. A letter is taken off it.
    ///
    /// # Errors
    ///
    /// The connection ends, or the letter is not one of a manager of ours.
    pub async fn open(&self, stream: &mut TcpStream, now: SystemTime) -> io::Result<Opening> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A TLS record of a handshake begins with 22.
        if MAGIC.first() != first.first() {
            return Ok(Opening::Client);
        }
        let mut letter = [0; LETTER];
        stream.read_exact(&mut letter).await?;
        let letter = self.read(&letter, now);
        letter.map(Opening::PassedOn).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "a letter that is not of ours")
        })
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(***)")
    }
}

/// Connects to the leader and tells it for whom.
///
/// # Errors
///
/// It is not there.
pub async fn dial(
    leader: SocketAddr,
    client: SocketAddr,
    seal: &Seal,
    now: SystemTime,
) -> io::Result<TcpStream> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let connect = timeout(DIAL, TcpStream::connect(leader));
    let mut stream = connect.await.map_err(late)??;
    stream.set_nodelay(true)?;
    stream.write_all(&seal.write(client, now)).await?;
    Ok(stream)
}

/// Passes bytes on both ways until either side ends, or until another manager leads: who hangs on
/// to a leader that is no more would not learn of it.
///
/// # Errors
///
/// A side breaks.
pub async fn carry(
    client: &mut TcpStream,
    leader: &mut TcpStream,
    at: SocketAddr,
    mut leadership: watch::Receiver<Leadership>,
) -> io::Result<()> {
    let elsewhere = async move {
        // What is told may be a moment behind what was asked.
        let nobody = Leadership::Other(None);
        let told = leadership.wait_for(|who| *who != nobody).await.is_ok();
        let other = |who: &Leadership| *who != Leadership::Other(Some(at));
        if !told || leadership.wait_for(other).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        carried = copy_bidirectional_with_sizes(client, leader, CHUNK, CHUNK) => carried.map(drop),
        () = elsewhere => Ok(()),
    }
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

const KEY_INFO: &[u8] = b"kedge-relay-v1";
const MAGIC: &[u8] = b"KEDGE1";
const TAG: usize = 32;
const LETTER: usize = 6 + 16 + 2 + 8 + TAG;
/// Clocks of two managers differ at most by this.
const FRESH: Duration = Duration::from_secs(300);
const DIAL: Duration = Duration::from_secs(2);
/// Small: there are as many as hosts.
const CHUNK: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fresh_letter_of_a_manager_is_read() {
        let now = SystemTime::now();
        let key = |text: &[u8]| SealKey::derive(text).unwrap();
        let seal = Seal::new(&key(b"the authority's key"), None);
        for client in ["192.0.2.7:4711", "[2001:db8::7]:4711"] {
            let client: SocketAddr = client.parse().unwrap();
            let letter: [u8; LETTER] = seal.write(client, now).try_into().unwrap();
            assert_eq!(seal.read(&letter, now), Some(Letter { client }));
            let later = now + FRESH + Duration::from_secs(2);
            assert_eq!(seal.read(&letter, later), None, "an old one");
            let stranger = Seal::new(&key(b"another key"), None);
            assert_eq!(stranger.read(&letter, now), None);
            // The authority was rotated, and whoever wrote the letter has not heard of it.
            let kept = SealKey::parse(&key(b"the authority's key").text()).unwrap();
            let next = Seal::new(&key(b"the next one's"), Some(&kept));
            assert_eq!(next.read(&letter, now), Some(Letter { client }));
            for at in 0..LETTER {
                let mut changed = letter;
                changed[at] ^= 1;
                assert_eq!(seal.read(&changed, now), None, "byte {at}");
            }
        }
    }
}
