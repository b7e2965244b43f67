//! mac1, mac2 and cookies: what a handshake message costs to be refused. Sections 5.4.4 and 5.4.7
//! of the WireGuard paper.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use kedge_core::Instant;
use zeroize::Zeroizing;

use super::{
    handshake::{take, write},
    primitives::{Secret, hash, mac, open_cookie, seal_cookie},
    random::Random,
};
use crate::{drops::DropReason, wire};

/// What a public key makes of messages to its owner.
pub(super) struct Labels {
    mac1: [u8; 32],
    cookie: [u8; 32],
}

/// What a sender of handshake messages knows: its last mac1, and the cookie it was given.
#[derive(Default)]
pub(super) struct Jar {
    last: Option<Last>,
    cookie: Option<(Zeroizing<[u8; 16]>, Instant)>,
    /// When a cookie was last worth an initiation at once.
    used_at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Last {
    index: u32,
    mac1: [u8; 16],
}

/// What a receiver of handshake messages gives out: cookies that prove an address.
pub(super) struct Cookies {
    secret: Secret,
    since: Instant,
}

impl Labels {
    pub(super) fn new(public: &[u8; 32]) -> Self {
        Self {
            mac1: hash([b"mac1----", public]),
            cookie: hash([b"cookie--", public]),
        }
    }

    /// Whether mac1 says that the sender knows the key; the comparison takes as long for any.
    pub(super) fn check(&self, message: &[u8]) -> Result<(), DropReason> {
        let (body, mac1, _) = split(message)?;
        let expected = mac(&self.mac1, [body]);
        verify_slices_are_equal(&expected, &mac1).map_err(|_| DropReason::BadMac)
    }
}

impl Jar {
    /// Fills in the macs of a message to the owner of `labels`.
    pub(super) fn sign(
        &mut self,
        now: Instant,
        labels: &Labels,
        index: u32,
        message: &mut [u8],
    ) -> Result<(), DropReason> {
        let (body, _, _) = split(message)?;
        let mac1 = mac(&labels.mac1, [body]);
        let cookie = self
            .cookie
            .as_ref()
            .filter(|(_, at)| now.since(*at) < LIFETIME);
        let mac2 = cookie.map_or([0; 16], |(cookie, _)| mac(cookie, [body, &mac1]));
        let macs = message.len().saturating_sub(32);
        let macs = message.get_mut(macs..).ok_or(DropReason::Oversized)?;
        write(macs, [&mac1, &mac2])?;
        self.last = Some(Last { index, mac1 });
        Ok(())
    }

    /// Takes a cookie. Each message is worth one; true when the message should be sent again at
    /// once, which no flood of cookies can ask for more than once in a while.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        labels: &Labels,
        reply: &[u8],
    ) -> Result<bool, DropReason> {
        let last = self.last.ok_or(DropReason::UnexpectedHandshake)?;
        let mut rest = reply.get(4..).ok_or(DropReason::Malformed)?;
        let receiver = u32::from_le_bytes(take(&mut rest)?);
        if receiver != last.index {
            return Err(DropReason::UnknownSession);
        }
        let nonce = take::<24>(&mut rest)?;
        let mut cookie = Zeroizing::new(take::<16>(&mut rest)?);
        let tag = take::<16>(&mut rest)?;
        open_cookie(&labels.cookie, &nonce, &last.mac1, &mut cookie, &tag)?;
        self.last = None;
        self.cookie = Some((cookie, now));
        let again = self.used_at.is_none_or(|at| now.since(at) >= PAUSE);
        if again {
            self.used_at = Some(now);
        }
        Ok(again)
    }
}

impl Cookies {
    pub(super) fn new(now: Instant, random: &mut Random) -> Self {
        Self {
            secret: random.bytes(),
            since: now,
        }
    }

    /// Whether mac2 proves that the sender receives what is sent to `from`.
    pub(super) fn prove(
        &mut self,
        now: Instant,
        random: &mut Random,
        from: SocketAddr,
        message: &[u8],
    ) -> bool {
        let Ok((body, mac1, mac2)) = split(message) else {
            return false;
        };
        let expected = mac(&self.of(now, random, from), [body, &mac1]);
        verify_slices_are_equal(&expected, &mac2).is_ok()
    }

    /// Writes the cookie of `from` to the start of `dst`, readable for the sender of `message`
    /// alone.
    pub(super) fn reply(
        &mut self,
        now: Instant,
        random: &mut Random,
        labels: &Labels,
        (from, message): (SocketAddr, &[u8]),
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let (_, mac1, _) = split(message)?;
        let sender = message.get(4..8).ok_or(DropReason::Malformed)?;
        let nonce = random.bytes::<24>();
        let mut cookie = self.of(now, random, from);
        let tag = seal_cookie(&labels.cookie, &nonce, &mac1, &mut cookie)?;
        write(dst, [&[3, 0, 0, 0], sender, &*nonce, &*cookie, &tag])?;
        Ok(wire::COOKIE_REPLY)
    }

    /// The cookie of an address and port, until the secret changes.
    fn of(&mut self, now: Instant, random: &mut Random, from: SocketAddr) -> Zeroizing<[u8; 16]> {
        if now.since(self.since) >= LIFETIME {
            *self = Self::new(now, random);
        }
        let port = from.port().to_le_bytes();
        Zeroizing::new(match from.ip().to_canonical() {
            IpAddr::V4(address) => mac(&self.secret, [&address.octets(), &port]),
            IpAddr::V6(address) => mac(&self.secret, [&address.octets(), &port]),
        })
    }
}

/// An address and its port in 16 bytes, for those that can tell apart addresses alone.
pub(in crate::noise) fn name(from: SocketAddr) -> IpAddr {
    let port = from.port().to_le_bytes();
    let name = match from.ip().to_canonical() {
        IpAddr::V4(address) => mac(&[0; 32], [&address.octets(), &port]),
        IpAddr::V6(address) => mac(&[0; 32], [&address.octets(), &port]),
    };
    IpAddr::from(name)
}

type Mac = [u8; 16];

/// A handshake message as its body, mac1 and mac2.
fn split(message: &[u8]) -> Result<(&[u8], Mac, Mac), DropReason> {
    let (rest, mac2) = message.split_last_chunk().ok_or(DropReason::Malformed)?;
    let (body, mac1) = rest.split_last_chunk().ok_or(DropReason::Malformed)?;
    Ok((body, *mac1, *mac2))
}

/// How long a cookie is good for, and the secret behind it.
const LIFETIME: Duration = Duration::from_secs(120);

/// A cookie is worth an initiation at once, and then none in `REKEY_TIMEOUT`.
const PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    struct Ends {
        random: Random,
        labels: Labels,
        cookies: Cookies,
        jar: Jar,
    }

    fn ends() -> Ends {
        let mut random = Random::new(Zeroizing::new([1; 32]));
        Ends {
            cookies: Cookies::new(at(0), &mut random),
            random,
            labels: Labels::new(&[2; 32]),
            jar: Jar::default(),
        }
    }

    impl Ends {
        fn message(&mut self, now: Instant) -> [u8; wire::INITIATION] {
            let mut message = [5; wire::INITIATION];
            message[4..8].copy_from_slice(&7_u32.to_le_bytes());
            self.jar.sign(now, &self.labels, 7, &mut message).unwrap();
            message
        }

        fn proves(&mut self, now: Instant, from: &str, message: &[u8]) -> bool {
            self.cookies
                .prove(now, &mut self.random, from.parse().unwrap(), message)
        }

        fn cookie(&mut self, now: Instant, from: &str, message: &[u8]) -> [u8; 64] {
            let mut reply = [0; 64];
            let from = (from.parse().unwrap(), message);
            let length = self
                .cookies
                .reply(now, &mut self.random, &self.labels, from, &mut reply);
            assert_eq!(length, Ok(64));
            reply
        }
    }

    #[test]
    fn a_cookie_proves_an_address_and_a_port_for_two_minutes() {
        let mut ends = ends();
        let first = ends.message(at(0));
        assert_eq!(ends.labels.check(&first), Ok(()));
        assert!(!ends.proves(at(0), "192.0.2.1:1", &first));
        let reply = ends.cookie(at(0), "192.0.2.1:1", &first);
        assert_eq!(ends.jar.accept(at(0), &ends.labels, &reply), Ok(true));
        let second = ends.message(at(1));
        assert_eq!(ends.labels.check(&second), Ok(()));
        assert!(ends.proves(at(1), "192.0.2.1:1", &second));
        assert!(ends.proves(at(1), "[::ffff:192.0.2.1]:1", &second));
        assert!(!ends.proves(at(1), "192.0.2.1:2", &second));
        assert!(!ends.proves(at(1), "192.0.2.2:1", &second));
        assert!(
            !ends.proves(at(120), "192.0.2.1:1", &second),
            "a new secret"
        );
        let third = ends.message(at(120));
        assert_eq!(third[132..], [0; 16], "the cookie is too old to be used");
    }

    #[test]
    fn a_cookie_is_for_one_message_and_asks_for_one_more_in_five_seconds() {
        let mut ends = ends();
        let unasked = [3; 64];
        assert_eq!(
            ends.jar.accept(at(0), &ends.labels, &unasked),
            Err(DropReason::UnexpectedHandshake)
        );
        let message = ends.message(at(0));
        let reply = ends.cookie(at(0), "192.0.2.1:1", &message);
        for bit in 64..64 * 8 {
            let mut forged = reply;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                ends.jar.accept(at(0), &ends.labels, &forged),
                Err(DropReason::Forged),
                "bit {bit}"
            );
        }
        assert_eq!(ends.jar.accept(at(0), &ends.labels, &reply), Ok(true));
        assert_eq!(
            ends.jar.accept(at(0), &ends.labels, &reply),
            Err(DropReason::UnexpectedHandshake)
        );
        for (now, again) in [(1, false), (4, false), (5, true), (6, false)] {
            let message = ends.message(at(now));
            let reply = ends.cookie(at(now), "192.0.2.1:1", &message);
            assert_eq!(ends.jar.accept(at(now), &ends.labels, &reply), Ok(again));
        }
    }

    #[test]
    fn messages_of_any_length_are_refused_and_panic_nowhere() {
        let mut ends = ends();
        ends.message(at(0));
        for length in 0..200 {
            let bytes = vec![0; length];
            assert!(ends.labels.check(&bytes).is_err());
            assert!(!ends.proves(at(0), "192.0.2.1:1", &bytes));
            assert!(ends.jar.accept(at(0), &ends.labels, &bytes).is_err());
        }
    }
}
