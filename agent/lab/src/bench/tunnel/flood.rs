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
    load::{counting, sockets},
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

/// The second host of a site is flooded by `sources`, while the first sends to it and others call it.
pub(super) fn flood(site: &Site, sources: u32) -> Result<Kept, LabError> {
    let gateway = site.second_key();
    let attackers = Crowd::gather(site, &gateway, sources)?.initiations();
    let newcomers = Crowd::gather(site, &gateway, NEWCOMERS)?;
    let keys = newcomers.keys();
    site.admit(keys.iter().map(String::as_str))?;
    let [from, to] = sockets(site.lab(), [inner(0), inner(1)])?;
    let counted = counting(to)?;
    let over = Arc::new(AtomicBool::new(false));
    let attack = {
        let over = Arc::clone(&over);
        thread::spawn(move || storm(&attackers, &over))
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

/// Sends them round and round at [`RATE`], and says how many that were.
fn storm(attackers: &[(UdpSocket, Vec<u8>)], over: &AtomicBool) -> u32 {
    let (begun, mut sent) = (Instant::now(), 0);
    let mut round = attackers.iter().cycle();
    while !over.load(Ordering::Relaxed) {
        for (socket, initiation) in round.by_ref().take(BURST) {
            // A full buffer is no reason to be gentler.
            sent += u32::from(socket.send(initiation).is_ok());
        }
        let due = Duration::from_secs(1) / RATE * sent;
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
/// Until the gateway has noticed.
const BEFORE: Duration = Duration::from_secs(1);
const NEWCOMERS: u32 = 100;
const TRAIN: Duration = Duration::from_secs(3);
const EACH: Duration = Duration::from_millis(1);
/// Until the last packet has arrived.
const LAST: Duration = Duration::from_millis(200);
