//! A session: packets are sealed and opened in the caller's buffer, through a shared reference, so
//! that both can happen on different cores.
//!
//! The AEAD is aws-lc-rs's: of the two fast ones in the tree (ring is the other, equally fast) it
//! wipes its keys when they are dropped, and it is the one provider the rest of Kedge uses.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use kedge_core::Instant;

use super::{
    handshake::{Keys, write},
    primitives::Secret,
    window::{self, Window},
};
use crate::drops::DropReason;

/// The keys of one handshake, for as long as they may be used.
pub struct Session {
    local: u32,
    remote: u32,
    seal: LessSafeKey,
    open: LessSafeKey,
    /// The counter of the next packet.
    next: AtomicU64,
    window: Mutex<Window>,
    since: Instant,
    initiator: bool,
}

impl Session {
    pub(super) fn new(local: u32, keys: &Keys, now: Instant, initiator: bool) -> Self {
        Self {
            local,
            remote: keys.remote,
            seal: cipher(&keys.seal),
            open: cipher(&keys.open),
            next: AtomicU64::new(0),
            window: Mutex::new(Window::new()),
            since: now,
            initiator,
        }
    }

    /// Seals a packet in place: `buffer` has [`HEAD`] bytes of room, the padded packet, and
    /// [`TAIL`] bytes of room, and then is the datagram.
    ///
    /// # Errors
    ///
    /// The session is too old or has sent too much, or the buffer has less than 32 bytes.
    pub fn seal_in_place(&self, now: Instant, buffer: &mut [u8]) -> Result<(), DropReason> {
        let counter = self.reserve(now)?;
        self.seal_at(counter, buffer)
    }

    /// The counter of a packet that will be sealed by [`seal_at`](Self::seal_at), by whichever
    /// thread.
    ///
    /// # Errors
    ///
    /// The session is too old or has sent too much.
    pub fn reserve(&self, now: Instant) -> Result<u64, DropReason> {
        if self.is_over(now) {
            return Err(DropReason::UnknownSession);
        }
        let next = |counter: u64| (counter < window::LIMIT).then_some(counter + 1);
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_err(|_| DropReason::UnknownSession)
    }

    /// Seals in place what has been given its counter. A counter seals one packet, never two.
    ///
    /// # Errors
    ///
    /// The buffer has less than 32 bytes.
    pub fn seal_at(&self, counter: u64, buffer: &mut [u8]) -> Result<(), DropReason> {
        let oversized = DropReason::Oversized;
        let (head, rest) = buffer.split_first_chunk_mut::<HEAD>().ok_or(oversized)?;
        let (inner, tail) = rest.split_last_chunk_mut::<TAIL>().ok_or(oversized)?;
        self.head(counter, head)?;
        self.seal
            .seal_in_place_scatter(nonce(counter), Aad::empty(), inner, &[], tail)
            .map_err(|_| oversized)
    }

    /// Seals `inner` into `dst`, which is then a datagram of `inner`'s length and 32 bytes.
    pub(super) fn seal_into(
        &self,
        now: Instant,
        inner: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let oversized = DropReason::Oversized;
        let length = inner.len() + HEAD + TAIL;
        let (head, rest) = dst
            .get_mut(..length)
            .and_then(|dst| dst.split_first_chunk_mut::<HEAD>())
            .ok_or(oversized)?;
        let (sealed, tail) = rest.split_last_chunk_mut::<TAIL>().ok_or(oversized)?;
        let counter = self.reserve(now)?;
        self.head(counter, head)?;
        self.seal
            .seal_out_of_place_scatter(nonce(counter), Aad::empty(), inner, sealed, &[], tail)
            .map_err(|_| oversized)?;
        Ok(length)
    }

    /// Opens a datagram in place and returns the padded packet in it, which is empty for a
    /// keepalive. What is forged is left as it was or wiped.
    ///
    /// # Errors
    ///
    /// The session is too old, or the datagram is none of its packets or one it has seen.
    pub fn open_in_place<'a>(
        &self,
        now: Instant,
        datagram: &'a mut [u8],
    ) -> Result<&'a mut [u8], DropReason> {
        let malformed = DropReason::Malformed;
        let (head, sealed) = datagram.split_first_chunk_mut::<HEAD>().ok_or(malformed)?;
        let counter = self.expect(now, head)?;
        let opened = self
            .open
            .open_in_place(nonce(counter), Aad::empty(), sealed)
            .map_err(|_| DropReason::Forged)?;
        self.note(counter)?;
        Ok(opened)
    }

    /// Opens a datagram into `dst` and returns how long the padded packet in it is.
    pub(super) fn open_into(
        &self,
        now: Instant,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let malformed = DropReason::Malformed;
        let (head, rest) = datagram.split_first_chunk::<HEAD>().ok_or(malformed)?;
        let (sealed, tag) = rest.split_last_chunk::<TAIL>().ok_or(malformed)?;
        let counter = self.expect(now, head)?;
        let opened = dst.get_mut(..sealed.len()).ok_or(DropReason::Oversized)?;
        self.open
            .open_separate_gather(nonce(counter), Aad::empty(), sealed, tag, opened)
            .map_err(|_| DropReason::Forged)?;
        self.note(counter)?;
        Ok(sealed.len())
    }

    pub(crate) const fn local(&self) -> u32 {
        self.local
    }

    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Whether its keys must not be used any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.since(self.since) >= REJECT_AFTER_TIME
    }

    /// Whether what was just sent asks for a new session.
    pub(super) fn is_worn_by_sending(&self, now: Instant) -> bool {
        let many = self.next.load(Ordering::Relaxed) >= REKEY_AFTER_MESSAGES;
        many || self.initiator && now.since(self.since) >= REKEY_AFTER_TIME
    }

    /// Whether what was just received asks for a new session.
    pub(super) fn is_worn_by_receiving(&self, now: Instant) -> bool {
        self.initiator && now.since(self.since) >= REKEY_ON_RECEIVE
    }

    fn head(&self, counter: u64, head: &mut [u8; HEAD]) -> Result<(), DropReason> {
        write(
            head,
            [
                &[4, 0, 0, 0],
                &self.remote.to_le_bytes(),
                &counter.to_le_bytes(),
            ],
        )
    }

    /// The counter that a packet of this session has. Whether it was seen before is asked once it is authentic, as
    /// the kernel does: who can replay can forge as well, and a packet takes the lock once.
    fn expect(&self, now: Instant, head: &[u8; HEAD]) -> Result<u64, DropReason> {
        let [4, 0, 0, 0, a, b, c, d, counter @ ..] = *head else {
            return Err(DropReason::Malformed);
        };
        if u32::from_le_bytes([a, b, c, d]) != self.local || self.is_over(now) {
            return Err(DropReason::UnknownSession);
        }
        Ok(u64::from_le_bytes(counter))
    }

    /// Takes note of an authentic packet, unless it was seen.
    fn note(&self, counter: u64) -> Result<(), DropReason> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.mark(counter) {
            Ok(())
        } else {
            Err(DropReason::Replayed)
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("local", &self.local)
            .field("remote", &self.remote)
            .field("since", &self.since)
            .field("initiator", &self.initiator)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::expect_used, reason = "any 32 bytes are a key of ChaCha20")]
fn cipher(key: &Secret) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, &**key).expect("32 bytes are a key");
    LessSafeKey::new(key)
}

fn nonce(counter: u64) -> Nonce {
    let [a, b, c, d, e, f, g, h] = counter.to_le_bytes();
    Nonce::assume_unique_for_key([0, 0, 0, 0, a, b, c, d, e, f, g, h])
}

/// Room before a packet: type, receiver and counter.
pub const HEAD: usize = 16;
/// Room behind a packet: the tag.
pub const TAIL: usize = 16;

pub(super) const REKEY_AFTER_TIME: Duration = Duration::from_secs(120);
pub(super) const REJECT_AFTER_TIME: Duration = Duration::from_secs(180);
/// `REJECT_AFTER_TIME - KEEPALIVE_TIMEOUT - REKEY_TIMEOUT`.
const REKEY_ON_RECEIVE: Duration = Duration::from_secs(165);
const REKEY_AFTER_MESSAGES: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    /// Both ends of a session.
    fn pair() -> (Session, Session) {
        let keys = |remote, seal, open| Keys {
            remote,
            seal: Zeroizing::new([seal; 32]),
            open: Zeroizing::new([open; 32]),
        };
        (
            Session::new(1, &keys(2, 7, 8), Instant::ZERO, true),
            Session::new(2, &keys(1, 8, 7), Instant::ZERO, false),
        )
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn sealed(session: &Session, now: Instant, inner: &[u8]) -> Result<Vec<u8>, DropReason> {
        let mut buffer = vec![0; HEAD + inner.len() + TAIL];
        buffer[HEAD..HEAD + inner.len()].copy_from_slice(inner);
        session.seal_in_place(now, &mut buffer)?;
        Ok(buffer)
    }

    #[test]
    fn in_place_and_from_buffer_to_buffer_are_the_same() {
        let (a, b) = pair();
        let inner = [9; 100];
        let in_place = sealed(&a, at(0), &inner).unwrap();
        let mut dst = [0; 200];
        assert_eq!(a.seal_into(at(0), &inner, &mut dst), Ok(132));
        assert_eq!(dst[..4], [4, 0, 0, 0]);
        assert_eq!((in_place[8], dst[8]), (0, 1), "counters");
        let mut opened = [0; 200];
        assert_eq!(b.open_into(at(0), &in_place, &mut opened), Ok(100));
        assert_eq!(opened[..100], inner);
        assert_eq!(b.open_in_place(at(0), &mut dst[..132]).unwrap(), &inner[..]);
        // The same counter, the same bytes.
        let mut again = vec![0; 132];
        again[HEAD..HEAD + 100].copy_from_slice(&inner);
        a.seal_at(0, &mut again).unwrap();
        assert_eq!(again, in_place);
    }

    #[test]
    fn a_session_ends_after_three_minutes_for_both_ends() {
        let (a, b) = pair();
        let late = sealed(&a, at(179), &[1; 16]).unwrap();
        let unknown = Err(DropReason::UnknownSession);
        assert_eq!(sealed(&a, at(180), &[1; 16]).map(|_| ()), unknown);
        assert_eq!(
            b.open_in_place(at(180), &mut late.clone()).map(|_| ()),
            unknown
        );
        assert!(b.open_in_place(at(179), &mut late.clone()).is_ok());
    }

    #[test]
    fn no_counter_is_given_out_beyond_the_limit_of_messages() {
        let (a, b) = pair();
        assert!(!b.is_worn_by_sending(at(1)));
        a.next.store(REKEY_AFTER_MESSAGES - 1, Ordering::Relaxed);
        assert!(!a.is_worn_by_sending(at(1)));
        sealed(&a, at(1), &[]).unwrap();
        assert!(a.is_worn_by_sending(at(1)));
        a.next.store(window::LIMIT - 1, Ordering::Relaxed);
        let last = sealed(&a, at(1), &[1; 16]).unwrap();
        for _ in 0..10_000 {
            assert!(sealed(&a, at(1), &[1; 16]).is_err());
        }
        assert!(b.open_in_place(at(1), &mut last.clone()).is_ok());
        let mut beyond = vec![0; 48];
        a.seal_at(window::LIMIT, &mut beyond).unwrap();
        assert_eq!(
            b.open_in_place(at(1), &mut beyond).map(|_| ()),
            Err(DropReason::Replayed)
        );
    }

    #[test]
    fn only_the_initiator_asks_for_a_new_session_by_age() {
        let (a, b) = pair();
        for (seconds, sending, receiving) in
            [(119, false, false), (120, true, false), (165, true, true)]
        {
            assert_eq!(a.is_worn_by_sending(at(seconds)), sending);
            assert_eq!(a.is_worn_by_receiving(at(seconds)), receiving);
            assert!(!b.is_worn_by_sending(at(seconds)));
            assert!(!b.is_worn_by_receiving(at(seconds)));
        }
    }

    #[test]
    fn a_forged_packet_takes_no_place_in_the_window() {
        let (a, b) = pair();
        let genuine = sealed(&a, at(0), &[1; 32]).unwrap();
        for bit in 0..genuine.len() * 8 {
            let mut forged = genuine.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(b.open_in_place(at(0), &mut forged).is_err(), "bit {bit}");
            assert!(
                b.open_into(at(0), &genuine[..bit / 8], &mut [0; 64])
                    .is_err()
            );
        }
        assert!(b.open_in_place(at(0), &mut genuine.clone()).is_ok());
        assert_eq!(
            b.open_in_place(at(0), &mut genuine.clone()).map(|_| ()),
            Err(DropReason::Replayed)
        );
    }

    #[test]
    fn two_threads_seal_with_one_session_and_no_counter_comes_twice() {
        let (a, b) = pair();
        let sealed: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let a = &a;
                    scope.spawn(move || -> Vec<Vec<u8>> {
                        (0..500)
                            .map(|_| sealed(a, at(0), &[1; 64]).unwrap())
                            .collect()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        for mut datagram in sealed {
            assert!(b.open_in_place(at(0), &mut datagram).is_ok());
        }
    }

    #[test]
    fn a_session_prints_no_keys() {
        let text = format!("{:?}", pair().0);
        assert!(!text.contains('7') && !text.contains('8'), "{text}");
    }
}
