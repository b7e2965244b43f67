//! What changes for a peer: its preshared key, its address, and whether it may come in at all.

use std::{
    net::{SocketAddr, UdpSocket},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    super::said::said,
    engine::Engine,
    load::{counting, sockets},
    rows::Measured,
    site::{Site, inner},
};
use crate::{error::LabError, prober::Prober, stage::Stage, topology::ENDS};

/// For how long nothing is answered when the first host has another address from one moment to the next,
/// in seconds.
pub(super) fn roam(site: &mut Site, stage: &Stage) -> Result<f64, LabError> {
    let [one, two] = ENDS;
    site.lab_mut()
        .start_role(two, "echo", ["echo", "--name", "server"])?;
    let train = Prober::start(site.lab(), one, SocketAddr::from((inner(1), ECHO)))?;
    train.wait_for_answer(stage, LIMIT)?;
    thread::sleep(MOMENT);
    site.lab().worker(one)?.run(|| {
        for order in [
            "address del 192.0.2.1/24 dev eth0",
            "address add 192.0.2.77/24 dev eth0",
        ] {
            let mut command = Command::new("ip");
            command.args(order.split(' '));
            said(command, "")?;
        }
        Ok::<(), LabError>(())
    })??;
    thread::sleep(AFTERWARDS);
    Ok(train.finish()?.outage_seconds)
}

/// How long packets of a peer come through after its removal was ordered, in seconds.
pub(super) fn revoke(site: &Site) -> Result<f64, LabError> {
    let [_, two] = ENDS;
    let [_, text] = site.texts();
    let alone = text.split("[Peer]").next().unwrap_or_default();
    let [from, to] = sockets(site.lab(), [inner(0), inner(1)])?;
    let over = Arc::new(AtomicBool::new(false));
    let sender = sending(from, EACH, &over);
    let receiver = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut last = None;
            while !over.load(Ordering::Relaxed) {
                if to.recv(&mut [0; 64]).is_ok() {
                    last = Some(Instant::now());
                }
            }
            last
        })
    };
    thread::sleep(MOMENT);
    let ordered = Instant::now();
    let done = site.wg(two, "syncconf", alone);
    thread::sleep(AFTERWARDS);
    over.store(true, Ordering::Relaxed);
    _ = sender.join();
    let last = receiver.join().ok().flatten();
    done?;
    let after = last.map(|last| last.saturating_duration_since(ordered));
    Ok(after.unwrap_or_default().as_secs_f64())
}

/// All engines at once are given a preshared key, and stand a packet each five milliseconds until they
/// have a session of it: two minutes. How many of them are lost.
pub(super) fn rotate(
    engines: &[Engine],
    measured: &mut [Measured],
    stage: &Stage,
) -> Result<Vec<String>, LabError> {
    let changes = |(engine, _): &(&Engine, &mut Measured)| engine.changes_peers();
    let both = engines.iter().zip(measured).filter(changes);
    let (engines, measured): (Vec<_>, Vec<_>) = both.unzip();
    let sites = engines.iter().map(|engine| Site::start(engine, stage));
    let sites = sites.collect::<Result<Vec<_>, _>>()?;
    let key = said(
        {
            let mut command = Command::new("wg");
            command.arg("genpsk");
            command
        },
        "",
    )?;
    let over = Arc::new(AtomicBool::new(false));
    let mut trains = Vec::new();
    for site in &sites {
        let [from, to] = sockets(site.lab(), [inner(0), inner(1)])?;
        trains.push((sending(from, 5 * EACH, &over), counting(to)?));
    }
    let mut before = Vec::new();
    for site in &sites {
        before.push(site.show(ENDS[0], HANDSHAKES)?);
        for (end, text) in ENDS.into_iter().zip(site.texts()) {
            site.wg(end, "syncconf", &format!("{text}PresharedKey = {key}\n"))?;
        }
    }
    let begun = Instant::now();
    for (site, before) in sites.iter().zip(&before) {
        while site.show(ENDS[0], HANDSHAKES)? == *before && begun.elapsed() < SESSION {
            if stage.is_stopped() {
                return Err(LabError::Interrupted);
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
    thread::sleep(AFTERWARDS);
    over.store(true, Ordering::Relaxed);
    for ((sender, counted), measured) in trains.into_iter().zip(measured) {
        let sent = sender.join().unwrap_or(0);
        thread::sleep(MOMENT);
        measured.rotation.push(f64::from(sent) - counted.end());
    }
    Ok(sites.into_iter().flat_map(Site::take_down).collect())
}

/// Sends a packet at each `pause` until it is over, and says how many.
fn sending(from: UdpSocket, pause: Duration, over: &Arc<AtomicBool>) -> thread::JoinHandle<u32> {
    let over = Arc::clone(over);
    thread::spawn(move || {
        let (begun, mut sent) = (Instant::now(), 0_u32);
        while !over.load(Ordering::Relaxed) {
            sent += u32::from(from.send(&[0; 64]).is_ok());
            thread::sleep((pause * sent).saturating_sub(begun.elapsed()));
        }
        sent
    })
}

const ECHO: u16 = 6443;
const HANDSHAKES: &str = "latest-handshakes";
const EACH: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(300);
/// Long enough for what comes late.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// A session is followed by another one after two minutes.
const SESSION: Duration = Duration::from_secs(140);
