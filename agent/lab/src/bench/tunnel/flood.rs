//! A flood of initiations, and those who mean it.
//!
//! Each initiation of the flood is right for the gateway's key and comes from a key that it does not know:
//! who answers has to work before it can tell. They come from one port, and from ten thousand.

use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    super::Samples,
    load::{counting, exchange, sockets},
    site::{Site, inner},
    storm::Crowd,
};
use crate::error::LabError;

/// What was kept.
pub(super) struct Kept {
    /// The share of a train of packets that arrived.
    pub(super) goodput: f64,
    /// What newcomers waited for their session, in seconds.
    pub(super) handshakes: Samples,
    /// How many initiations the flood had.
    pub(super) flooded: u32,
}

/// How many times longer a round trip takes, at the 99th percentile, while the second host is asked for
/// 20 000 sessions a second by nobody it knows.
pub(super) fn slowed(site: &Site) -> Result<f64, LabError> {
    let attackers = Crowd::gather(site.lab(), &site.second_key(), STRANGERS)?.initiations();
    let quiet = exchange(site.lab(), [inner(0), inner(1)], ROUND_TRIPS)?.p99();
    let over = Arc::new(AtomicBool::new(false));
    let attack = {
        let over = Arc::clone(&over);
        thread::spawn(move || storm(&attackers, (INVALID, GENTLE), &over))
    };
    thread::sleep(BEFORE);
    let flooded = exchange(site.lab(), [inner(0), inner(1)], ROUND_TRIPS);
    over.store(true, Ordering::Relaxed);
    _ = attack.join();
    Ok(flooded?.p99() / quiet.max(1e-9))
}

/// The second host of a site is flooded by `sources`, while the first sends to it and others call it.
pub(super) fn flood(site: &Site, sources: u32) -> Result<Kept, LabError> {
    let gateway = site.second_key();
    let attackers = Crowd::gather(site.lab(), &gateway, sources)?.initiations();
    let newcomers = Crowd::gather(site.lab(), &gateway, NEWCOMERS)?;
    let keys = newcomers.keys();
    site.admit(keys.iter().map(String::as_str))?;
    let [from, to] = sockets(site.lab(), [inner(0), inner(1)])?;
    let counted = counting(to)?;
    let over = Arc::new(AtomicBool::new(false));
    let attack = {
        let over = Arc::clone(&over);
        thread::spawn(move || storm(&attackers, (RATE, BURST), &over))
    };
    thread::sleep(BEFORE);
    let train = thread::spawn(move || {
        let (begun, mut sent) = (Instant::now(), 0_u32);
        while begun.elapsed() < TRAIN {
            sent += u32::from(from.send(&[0; 64]).is_ok());
            thread::sleep((EACH * sent).saturating_sub(begun.elapsed()));
        }
        sent
    });
    let arrival = newcomers.arrive();
    let sent = train.join().unwrap_or(0);
    over.store(true, Ordering::Relaxed);
    let flooded = attack.join().unwrap_or(0);
    thread::sleep(LAST);
    let came = counted.end();
    Ok(Kept {
        goodput: came / f64::from(sent.max(1)),
        handshakes: arrival?.sessions,
        flooded,
    })
}

/// Sends them round and round, so many a second and so many at once, and says how many that were.
fn storm(
    attackers: &[(UdpSocket, Vec<u8>)],
    (rate, burst): (u32, usize),
    over: &AtomicBool,
) -> u32 {
    let (begun, mut sent) = (Instant::now(), 0);
    let mut round = attackers.iter().cycle();
    while !over.load(Ordering::Relaxed) {
        for (socket, initiation) in round.by_ref().take(burst) {
            // A full buffer is no reason to be gentler.
            sent += u32::from(socket.send(initiation).is_ok());
        }
        let due = Duration::from_secs(1) / rate * sent;
        thread::sleep(due.saturating_sub(begun.elapsed()));
        if attackers.is_empty() {
            break;
        }
    }
    sent
}

/// Initiations a second.
const RATE: u32 = 50_000;
const BURST: usize = 50;
/// The same of strangers that are no load, but packets on the way.
const INVALID: u32 = 20_000;
const GENTLE: usize = 4;
const STRANGERS: u32 = 1_000;
const ROUND_TRIPS: usize = 10_000;
/// Until the gateway has noticed.
const BEFORE: Duration = Duration::from_secs(1);
const NEWCOMERS: u32 = 100;
const TRAIN: Duration = Duration::from_secs(3);
const EACH: Duration = Duration::from_millis(1);
/// Until the last packet has arrived.
const LAST: Duration = Duration::from_millis(200);
