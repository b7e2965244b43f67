//! Streams that carry datagrams where UDP does not pass: for the worker each is a place like any other
//! (docs/adr/0036).
//!
//! ```text
//!   worker ── Network::send ──► Queue of the lane ──► carry(): records ──► stream
//!     ▲  bell                                                               │
//!     └── Inbound: all lanes' datagrams, with the place that stands for each ◄
//! ```
//! While a stream is full its queue never holds what is older than 50 ms, and the worker never waits for one.

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use kedge_core::Instant;
use kedge_net::{clock, wait::Doorbell};
use kedge_tunnel_proto::fallback::{
    Queue, lane,
    record::{BadLength, Records, emit_nothing},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split},
    sync::Notify,
    time::timeout,
};

use crate::seed::seed;

/// The streams of one device.
pub(crate) struct Lanes {
    open: Mutex<BTreeMap<SocketAddr, Arc<Way>>>,
    inbound: Mutex<Inbound>,
    next: AtomicU64,
    bell: Arc<Doorbell>,
}

/// The way out of one.
#[derive(Debug, Default)]
struct Way {
    queue: Mutex<Queue>,
    wake: Notify,
}

/// What came in, and from where.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    bytes: Vec<u8>,
    /// Where each comes from, and where it ends.
    datagrams: Vec<(SocketAddr, usize)>,
    dropped: u64,
}

/// A place that is a stream, as long as this is not dropped.
pub struct Lane {
    place: SocketAddr,
    way: Arc<Way>,
    lanes: Arc<Lanes>,
}

/// Why a stream carries nothing any more.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// Nothing came, although the other end says something now and then.
    #[error("nothing came from the other end for {} s", .0.as_secs())]
    Silent(Duration),
    /// The connection is gone.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// What came is no datagrams.
    #[error("what came is no datagrams")]
    Nonsense(#[source] BadLength),
}

impl Lanes {
    pub(crate) fn new(bell: Arc<Doorbell>) -> Self {
        Self {
            open: Mutex::default(),
            inbound: Mutex::default(),
            // No process of before had the same places, which somebody may still know.
            next: AtomicU64::new(seed() >> 1),
            bell,
        }
    }

    /// Makes a place for a stream.
    pub(crate) fn open(self: &Arc<Self>) -> Lane {
        let place = lane(self.next.fetch_add(1, Ordering::Relaxed));
        let way = Arc::<Way>::default();
        hold(&self.open).insert(place, Arc::clone(&way));
        Lane {
            place,
            way,
            lanes: Arc::clone(self),
        }
    }

    /// Gives datagrams to the stream at `to`; how many were dropped there, or `None` without such a
    /// stream.
    pub(crate) fn send<'a>(
        &self,
        now: Instant,
        to: SocketAddr,
        datagrams: impl Iterator<Item = &'a [u8]>,
    ) -> Option<u64> {
        let way = Arc::clone(hold(&self.open).get(&to)?);
        let mut queue = hold(&way.queue);
        let mut told = true;
        for datagram in datagrams {
            told &= queue.push(now, datagram);
        }
        let dropped = queue.dropped();
        drop(queue);
        if !told {
            way.wake.notify_one();
        }
        Some(dropped)
    }

    /// Everything that came in since the last time, in exchange for room.
    pub(crate) fn receive(&self, inbound: &mut Inbound) {
        inbound.clear();
        std::mem::swap(&mut *hold(&self.inbound), inbound);
    }

    fn take(&self, from: SocketAddr, records: &mut Records) -> Result<(), BadLength> {
        let mut inbound = hold(&self.inbound);
        let told = !inbound.datagrams.is_empty();
        let outcome = loop {
            match records.take() {
                Ok(Some(datagram)) => inbound.push(from, datagram),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let news = !inbound.datagrams.is_empty();
        drop(inbound);
        if news && !told {
            self.bell.ring();
        }
        outcome
    }
}

impl Inbound {
    /// The datagrams, each with where it comes from.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let mut begin = 0;
        self.datagrams.iter().filter_map(move |(from, end)| {
            let datagram = self.bytes.get(begin..*end)?;
            begin = *end;
            Some((*from, datagram))
        })
    }

    /// How many found no room.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn push(&mut self, from: SocketAddr, datagram: &[u8]) {
        if self.bytes.len() + datagram.len() > INBOUND {
            self.dropped += 1;
            return;
        }
        self.bytes.extend_from_slice(datagram);
        self.datagrams.push((from, self.bytes.len()));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
        self.dropped = 0;
    }
}

impl Lane {
    /// The place that stands for the stream.
    #[must_use]
    pub const fn place(&self) -> SocketAddr {
        self.place
    }

    /// Carries datagrams both ways until the stream ends.
    pub async fn carry(&self, stream: impl AsyncRead + AsyncWrite) -> Ended {
        self.carry_at(stream, BEAT, SILENCE).await
    }

    async fn carry_at(
        &self,
        stream: impl AsyncRead + AsyncWrite,
        beat: Duration,
        silence: Duration,
    ) -> Ended {
        let (from, to) = split(stream);
        tokio::select! {
            ended = self.carry_in(from, silence) => ended,
            ended = self.carry_out(to, beat, silence) => ended,
        }
    }

    async fn carry_in(&self, mut from: impl AsyncRead + Unpin, silence: Duration) -> Ended {
        let mut records = Records::default();
        loop {
            let room = records.room();
            room.reserve(PIECE);
            match timeout(silence, from.read_buf(room)).await {
                Ok(Ok(0)) => return Ended::Closed,
                Ok(Ok(_)) => {}
                // A process that ended says no goodbye.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ended::Closed;
                }
                Ok(Err(error)) => return Ended::Broken(error),
                Err(_) => return Ended::Silent(silence),
            }
            if let Err(error) = self.lanes.take(self.place, &mut records) {
                return Ended::Nonsense(error);
            }
        }
    }

    async fn carry_out(
        &self,
        mut to: impl AsyncWrite + Unpin,
        beat: Duration,
        silence: Duration,
    ) -> Ended {
        let mut out = Vec::with_capacity(2 * PIECE);
        // Whoever called waits for it: only then it knows that this end is content with what it showed.
        emit_nothing(&mut out);
        loop {
            if out.is_empty() {
                hold(&self.way.queue).take(clock::now(), &mut out, PIECE);
            }
            if out.is_empty() {
                if timeout(beat, self.way.wake.notified()).await.is_ok() {
                    continue;
                }
                emit_nothing(&mut out);
            }
            if let Err(ended) = self.put(&mut to, &out, silence).await {
                return ended;
            }
            out.clear();
        }
    }

    /// Writes all of it, and has the queue know whether the stream was full.
    async fn put(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        out: &[u8],
        silence: Duration,
    ) -> Result<(), Ended> {
        let mut sending = pin!(async {
            to.write_all(out).await?;
            to.flush().await
        });
        let at_once = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
        let waits = at_once.is_pending();
        hold(&self.way.queue).taken(waits);
        let sent = match at_once {
            Poll::Ready(sent) => Ok(sent),
            Poll::Pending => timeout(silence, sending).await,
        };
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Ended::Broken(error)),
            Err(_) => Err(Ended::Silent(silence)),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        hold(&self.lanes.open).remove(&self.place);
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lane").field(&self.place).finish()
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = hold(&self.open).len();
        f.debug_struct("Lanes").field("open", &open).finish()
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As much as is read or written at once: a record of TLS.
const PIECE: usize = 16 * 1024;

/// As much as may wait for the worker: a few milliseconds of its work.
const INBOUND: usize = 2 << 20;

/// An end that has nothing to say says so this often.
const BEAT: Duration = Duration::from_secs(10);

/// A stream on which nothing came for this long is of no use: three beats.
const SILENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn lanes() -> Arc<Lanes> {
        Arc::new(Lanes::new(Arc::new(Doorbell::new().unwrap())))
    }

    async fn until_some(lanes: &Lanes) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut inbound = Inbound::default();
        for _ in 0..1_000 {
            lanes.receive(&mut inbound);
            let all = inbound.datagrams();
            let all: Vec<_> = all.map(|(from, bytes)| (from, bytes.to_vec())).collect();
            if !all.is_empty() {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("nothing came");
    }

    #[tokio::test]
    async fn datagrams_go_both_ways_and_come_from_the_place_of_the_stream() {
        let (a, b) = (lanes(), lanes());
        let (lane_a, lane_b) = (a.open(), b.open());
        let (place_a, place_b) = (lane_a.place(), lane_b.place());
        let (one, other) = duplex(4_096);
        let there = tokio::spawn(async move { lane_a.carry(one).await });
        let here = tokio::spawn(async move { lane_b.carry(other).await });
        let sent = [&[1_u8; 148][..], &[2; 92], &[4; 1_452]];
        assert_eq!(a.send(clock::now(), place_a, sent.into_iter()), Some(0));
        let mut came = Vec::new();
        while came.len() < 3 {
            came.extend(until_some(&b).await);
        }
        let expected: Vec<_> = sent.iter().map(|it| (place_b, it.to_vec())).collect();
        assert_eq!(came, expected);
        assert_eq!(b.send(clock::now(), place_b, sent.into_iter()), Some(0));
        assert_eq!(until_some(&a).await.first().unwrap().0, place_a);
        there.abort();
        assert!(matches!(here.await.unwrap(), Ended::Closed));
        assert_eq!(
            b.send(clock::now(), place_b, sent.into_iter()),
            None,
            "it is gone"
        );
    }

    #[tokio::test]
    async fn a_stream_of_something_else_is_ended() {
        let lanes = lanes();
        let lane = lanes.open();
        let (one, mut other) = duplex(4_096);
        other.write_all(b"\xff\xffGET / HTTP/1.1").await.unwrap();
        assert!(matches!(lane.carry(one).await, Ended::Nonsense(_)));
    }

    #[tokio::test]
    async fn what_a_stream_does_not_take_is_dropped_and_the_worker_does_not_wait() {
        let lanes = lanes();
        let lane = lanes.open();
        let place = lane.place();
        // Nobody carries it.
        let datagram = [4_u8; 1_400];
        let mut dropped = 0;
        let begun = std::time::Instant::now();
        for _ in 0..20_000 {
            dropped += lanes
                .send(clock::now(), place, std::iter::once(&datagram[..]))
                .unwrap();
        }
        assert!(dropped > 10_000, "{dropped}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[tokio::test]
    async fn ends_that_have_nothing_to_say_say_so_and_a_dead_one_is_left() {
        let (a, b) = (lanes(), lanes());
        let (lane_a, lane_b) = (a.open(), b.open());
        let (one, other) = duplex(4_096);
        let (beat, silence) = (Duration::from_millis(20), Duration::from_millis(400));
        let there = tokio::spawn(async move { lane_a.carry_at(one, beat, silence).await });
        let here = tokio::spawn(async move { lane_b.carry_at(other, beat, silence).await });
        tokio::time::sleep(3 * silence).await;
        assert!(!there.is_finished() && !here.is_finished());
        let lane = a.open();
        let (one, _other) = duplex(4_096);
        let ended = lane.carry_at(one, beat, silence).await;
        assert!(matches!(ended, Ended::Silent(_)), "{ended}");
    }
}
