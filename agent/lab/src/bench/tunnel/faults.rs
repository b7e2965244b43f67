//! What an engine goes through: its peers are changed under traffic, its path is gone for minutes.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::{
    super::said::said,
    engine::Engine,
    load::{counting, sockets},
    rows::Measured,
    site::{Keys, Site, inner},
};
use crate::{error::LabError, stage::Stage, topology::ENDS};

/// Packets that are lost while `wg syncconf` adds, changes and removes peers at their receiver.
pub(super) fn change_peers(site: &Site) -> Result<f64, LabError> {
    let [_, two] = ENDS;
    let stranger = format!(
        "[Peer]\nPublicKey = {}\nAllowedIPs = 10.99.1.1/32\n",
        Keys::new()?.public
    );
    let [_, text] = site.texts();
    let with = format!("{text}PersistentKeepalive = 25\n{stranger}");
    let [from, to] = sockets(site.lab(), [inner(0), inner(1)])?;
    let counted = counting(to)?;
    let begun = Instant::now();
    let sender = thread::spawn(move || {
        let mut sent = 0_u32;
        while begun.elapsed() < TRAIN {
            sent += u32::from(from.send(&[0; 64]).is_ok());
            thread::sleep((EACH * sent).saturating_sub(begun.elapsed()));
        }
        sent
    });
    let changed = (0..CHANGES).try_for_each(|change| {
        let wanted = if change % 2 == 0 { &with } else { text };
        site.wg(two, "syncconf", wanted)?;
        thread::sleep((TRAIN / CHANGES * (change + 1)).saturating_sub(begun.elapsed()));
        Ok(())
    });
    let sent = sender.join().unwrap_or(0);
    thread::sleep(LAST);
    let came = counted.end();
    changed.map(|()| f64::from(sent) - came)
}

/// All engines at once lose their path; how long each takes until something comes through again
/// after it is back, with nothing in the tunnel but keepalives.
pub(super) fn outage(
    engines: &[Engine],
    measured: &mut [Measured],
    stage: &Stage,
) -> Result<Vec<String>, LabError> {
    let [one, two] = ENDS;
    let sites = engines.iter().map(|engine| Site::start(engine, stage));
    let sites = sites.collect::<Result<Vec<_>, _>>()?;
    for site in &sites {
        let [text, _] = site.texts();
        site.wg(
            one,
            "syncconf",
            &format!("{text}PersistentKeepalive = 25\n"),
        )?;
        nft(site, one, CUT)?;
    }
    let (begun, mut told) = (Instant::now(), 0);
    while begun.elapsed() < OUTAGE && !stage.is_stopped() {
        thread::sleep(Duration::from_millis(100));
        let minutes = begun.elapsed().as_secs() / 60;
        if minutes > told {
            told = minutes;
            stage.tell(&format!("no path for {minutes} minutes"));
        }
    }
    // One after the other: what one of them does as its path is back is not to wake the next.
    for (site, measured) in sites.iter().zip(&mut *measured) {
        let before = received(site, two)?;
        nft(site, one, "delete table ip cut")?;
        let healed = Instant::now();
        while received(site, two)? == before && healed.elapsed() < PATIENCE {
            if stage.is_stopped() {
                return Err(LabError::Interrupted);
            }
            thread::sleep(Duration::from_millis(20));
        }
        measured.outage.push(healed.elapsed().as_secs_f64());
    }
    Ok(sites.into_iter().flat_map(Site::take_down).collect())
}

fn nft(site: &Site, end: &str, rules: &'static str) -> Result<(), LabError> {
    site.lab().worker(end)?.run(move || {
        let mut command = Command::new("nft");
        command.arg(rules);
        said(command, "").map(drop)
    })?
}

/// What `wg` counts of what came to a host.
fn received(site: &Site, end: &'static str) -> Result<String, LabError> {
    let shown = site.show(end, "transfer")?;
    let mut words = shown.split_whitespace();
    Ok(words.nth(1).unwrap_or_default().to_owned())
}

const TRAIN: Duration = Duration::from_secs(3);
const EACH: Duration = Duration::from_millis(1);
const CHANGES: u32 = 20;
/// Until the last packet has arrived.
const LAST: Duration = Duration::from_millis(200);

const OUTAGE: Duration = Duration::from_secs(200);
/// Whoever is not back by then is said to have taken that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nothing of the tunnel leaves or comes.
const CUT: &str = "table ip cut { chain in { type filter hook input priority 0; udp dport 51820 drop; }; \
                   chain out { type filter hook output priority 0; udp sport 51820 drop; }; }";
