//! Datagrams that wait for a stream to take them. TCP never drops what it was given, and what is carried
//! inside relies on loss: so here the oldest go, before they are so old that nobody waits for them.
//!
//! That is for a way that is full. Where the stream takes all at once, and whoever carries it waited for a
//! processor, nothing is too old: everything goes, and TCP inside has no reason to slow down.

use std::{collections::VecDeque, time::Duration};

use kedge_core::Instant;

use super::record::{HEAD, length};

/// Datagrams that wait, each for [`PATIENCE`] at most while the stream is full.
#[derive(Debug, Default)]
pub struct Queue {
    /// When each came, and how long it is.
    waiting: VecDeque<(Instant, u16)>,
    bytes: VecDeque<u8>,
    dropped: u64,
    /// Whether the stream could not take the last of them at once.
    full: bool,
}

impl Queue {
    /// The stream took what was taken for it, and had to be waited for or not.
    pub const fn taken(&mut self, waited: bool) {
        self.full = waited;
    }

    /// Takes a datagram. Whether nobody has to be told: others wait already.
    pub fn push(&mut self, now: Instant, datagram: &[u8]) -> bool {
        let Some(length) = length(datagram) else {
            self.dropped += 1;
            return true;
        };
        self.expire(now);
        while self.bytes.len() + datagram.len() > MOST {
            self.drop_first();
        }
        let told = !self.waiting.is_empty();
        self.waiting.push_back((now, length));
        self.bytes.extend(datagram);
        told
    }

    /// Puts records at the end of `out` until that has `enough` bytes, or nothing waits any more.
    pub fn take(&mut self, now: Instant, out: &mut Vec<u8>, enough: usize) {
        self.expire(now);
        while out.len() < enough
            && let Some((_, length)) = self.waiting.pop_front()
        {
            out.reserve(HEAD + usize::from(length));
            out.extend_from_slice(&length.to_be_bytes());
            out.extend(self.bytes.drain(..usize::from(length)));
        }
    }

    /// How many were dropped since the last time somebody asked.
    pub fn dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn expire(&mut self, now: Instant) {
        if !self.full {
            return;
        }
        while let Some((since, _)) = self.waiting.front()
            && now.since(*since) > PATIENCE
        {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, length)) = self.waiting.pop_front() {
            self.bytes.drain(..usize::from(length));
            self.dropped += 1;
        }
    }
}

/// How long a datagram may wait for a stream. What is older is sent again by whoever needs it.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// How many bytes may wait: 50 ms of 1.3 Gbit/s.
pub const MOST: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::record::Records, *};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    proptest! {
        #[test]
        fn what_comes_out_is_the_newest_in_order_and_never_older_than_it_may_be(
            steps in prop::collection::vec((0_u64..40, 0_usize..4, 0_usize..3), 1..80),
        ) {
            let (mut queue, mut now, mut number) = (Queue::default(), 0, 0_u32);
            queue.taken(true);
            let (mut sent, mut seen) = (Vec::new(), Vec::new());
            let mut dropped = 0;
            for (pause, pushes, takes) in steps {
                now += pause;
                for _ in 0..pushes {
                    let datagram = [&number.to_be_bytes()[..], &[9; 40]].concat();
                    queue.push(at(now), &datagram);
                    sent.push(now);
                    number += 1;
                }
                for _ in 0..takes {
                    let mut out = Vec::new();
                    queue.take(at(now), &mut out, 90);
                    let mut records = Records::default();
                    records.room().extend_from_slice(&out);
                    while let Some(datagram) = records.take().unwrap() {
                        let number = u32::from_be_bytes(*datagram.first_chunk().unwrap());
                        let since = sent[usize::try_from(number).unwrap()];
                        prop_assert!(now - since <= 50, "{number} is {} ms old", now - since);
                        seen.push(number);
                    }
                }
                dropped += queue.dropped();
            }
            prop_assert!(seen.is_sorted());
            let waits = u64::try_from(queue.waiting.len()).unwrap();
            let came_out = u64::try_from(seen.len()).unwrap();
            prop_assert_eq!(came_out + dropped + waits, u64::from(number));
        }
    }

    #[test]
    fn the_bytes_that_wait_are_bounded_and_the_oldest_go() {
        let mut queue = Queue::default();
        let datagram = vec![1; 9_000];
        for _ in 0..2_000 {
            queue.push(at(0), &datagram);
        }
        assert!(queue.bytes.len() <= MOST);
        let kept = u64::try_from(queue.waiting.len()).unwrap();
        assert_eq!(queue.dropped() + kept, 2_000);
        queue.push(at(0), &[]);
        queue.push(at(0), &vec![1; 60_000]);
        assert_eq!(queue.dropped(), 2, "no datagram is like these");
    }

    #[test]
    fn nothing_is_too_old_for_a_stream_that_takes_all_at_once() {
        let mut queue = Queue::default();
        for number in 0..3 {
            queue.push(at(u64::from(number) * 400), &[number]);
        }
        let mut out = Vec::new();
        queue.take(at(2_000), &mut out, 100);
        assert_eq!(out, [0, 1, 0, 0, 1, 1, 0, 1, 2]);
        queue.push(at(2_000), &[3]);
        queue.taken(true);
        queue.push(at(2_060), &[4]);
        out.clear();
        queue.take(at(2_061), &mut out, 100);
        assert_eq!((&out[..], queue.dropped()), (&[0, 1, 4][..], 1));
    }

    #[test]
    fn only_the_first_that_waits_has_to_be_told_of() {
        let mut queue = Queue::default();
        assert!(!queue.push(at(0), &[1]));
        assert!(queue.push(at(0), &[2]));
        let mut out = Vec::new();
        queue.take(at(1), &mut out, 100);
        assert_eq!(out, [0, 1, 1, 0, 1, 2]);
        queue.taken(true);
        assert!(!queue.push(at(2), &[3]));
        assert!(!queue.push(at(53), &[4]), "the one before has gone");
    }
}
