//! A whole gateway through its faults: it is killed and started, so is its manager, and packets of a host vanish.

use std::{
    net::{IpAddr, SocketAddr, TcpStream},
    num::NonZeroU16,
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use kedge_control::frontend::{Health, Offer};
use kedge_gateway_xds::{Here, Life, render};
use kedge_net::{netns::Signal, nft};

use super::{
    super::{Samples, sessions, tunnel::standing::root},
    Sizes,
    ads::Server,
    ends::{Standing, asked},
    envoy::{Envoy, Variant},
    gateway::GATEWAY,
    prober::{Prober, Seen},
    services::{End, add, member},
    site::{ANSWERS, CLIENT, EDGES, MANAGER, OTHER, Site, directly, served, until_both_answer},
};
use crate::{
    error::LabError,
    lab::Lab,
    stage::Stage,
    topology::{Topology, lan_address},
};

/// What was measured, in seconds where nothing else is said.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Established connections that did not survive a killed gateway, and a killed manager.
    pub(super) dropped: Samples,
    pub(super) manager_dropped: Samples,
    /// From when a gateway's server is back until Envoy serves what was added meanwhile.
    pub(super) reattach: Samples,
    /// The same of an Envoy with its default back-off.
    pub(super) default_backoff: Samples,
    /// From when a manager is back until Envoy serves what was added meanwhile.
    pub(super) manager_change: Samples,
    /// From the file at a manager of thousands of services until Envoy accepts connections for one more.
    pub(super) object: Samples,
    /// From when packets of a host vanish until the last connection is begun that fails.
    pub(super) hole: Samples,
    /// The same until the last one that is answered late, since its first back end did not.
    pub(super) hole_late: Samples,
    /// The same by checks alone: each 5 s, three failures of 5 s each; each second, two of 0.5 s.
    pub(super) slow_checks: Samples,
    pub(super) quick_checks: Samples,
}

/// Measures on a lab of its own; and what could not be removed.
pub(super) fn measure(
    kedge: &Path,
    envoy: &Path,
    sizes: &Sizes,
    stage: &Stage,
) -> Result<(Faults, Vec<String>), LabError> {
    super::on_a_lab(("faults", Topology::balancers()), kedge, sizes, |lab| {
        let measured = run(lab, envoy, sizes, stage);
        if let Err(error) = &measured {
            let fallen = lab.fallen().unwrap_or_default();
            stage.bad(&format!("{} {fallen}", kedge_core::with_causes(error)));
        }
        measured
    })
}

fn run(lab: &mut Lab, envoy: &Path, sizes: &Sizes, stage: &Stage) -> Result<Faults, LabError> {
    let mut measured = Faults::default();
    let site = Site::start(lab, envoy, stage)?;
    stage.good("a manager, a gateway and two hosts are up");
    Site::patient_envoy(lab, envoy, stage)?;
    let checking = checking(lab, envoy)?;
    for port in [SLOW, QUICK] {
        let (what, at) = ("an answer of the Envoy that checks", checked(port));
        stage.eventually(what, SOON, || asked(lab, CLIENT, at))?;
    }
    for run in 0..sizes.runs {
        let port = 1_000 + u16::try_from(run).unwrap_or(0);
        gateway(lab, &site, port, sizes, &mut measured, stage)?;
    }
    for run in 0..sizes.runs {
        let port = 2_000 + u16::try_from(run).unwrap_or(0);
        manager(lab, &site, port, &mut measured, stage)?;
    }
    for run in 0..sizes.runs {
        let slow = sizes.slow_checks && run < SLOW_RUNS;
        // A host that one of them still leaves out would not be missed.
        let all = [served(80), checked(QUICK), checked(SLOW)];
        for at in all.into_iter().take(if slow { 3 } else { 2 }) {
            until_both_answer(lab, at, stage)?;
        }
        // One that came back a moment ago is missed by the tunnel alone.
        for edge in EDGES {
            let host = root(lab, edge);
            stage.eventually("BFD with the gateway", SOON, || {
                sessions::are_up(&host, 1, QUICKLY)
            })?;
        }
        hole(lab, slow, &mut measured, stage)?;
    }
    drop(checking);
    many(lab, &site, sizes, &mut measured, stage)?;
    Ok(measured)
}

/// A service more at a manager that has thousands: the whole way from its file to Envoy.
fn many(
    lab: &mut Lab,
    site: &Site,
    sizes: &Sizes,
    measured: &mut Faults,
    stage: &Stage,
) -> Result<(), LabError> {
    let begun = Instant::now();
    let last = served(site.fill(sizes.services)?);
    until(lab, "Envoy serves all of them", FILLED, stage, |lab| {
        listens(lab, CLIENT, last)
    })?;
    stage.good(&format!(
        "{} services from their file to Envoy: {:.1} s",
        sizes.services,
        begun.elapsed().as_secs_f64()
    ));
    for run in 0..sizes.runs {
        let port = 3_000 + u16::try_from(run).unwrap_or(0);
        pass(CALM, stage)?;
        let begun = Instant::now();
        site.add(port)?;
        let there = until(lab, "Envoy serves one more", LATEST, stage, |lab| {
            listens(lab, CLIENT, served(port))
        })?;
        measured
            .object
            .push(there.duration_since(begun).as_secs_f64());
    }
    stage.tell(&format!(
        "one more from its file to Envoy: {:.2} s",
        measured.object.p50()
    ));
    Ok(())
}

/// Kills a role beside which connections stand, and wants one service more; those connections.
fn kill(lab: &mut Lab, role: &str, site: &Site, port: u16) -> Result<Standing, LabError> {
    let standing = Standing::open(lab, CLIENT, served(81), CONNECTIONS)?;
    lab.signal(role, role, Signal::KILL)?;
    lab.process(role, role)?.wait(SOON)?;
    site.add(port)?;
    Ok(standing)
}

/// A gateway that is killed, away for a while, and started.
fn gateway(
    lab: &mut Lab,
    site: &Site,
    port: u16,
    sizes: &Sizes,
    measured: &mut Faults,
    stage: &Stage,
) -> Result<(), LabError> {
    let standing = kill(lab, GATEWAY, site, port)?;
    pass(Duration::from_secs(sizes.gone), stage)?;
    site.start_gateway(lab)?;
    let socket = root(lab, GATEWAY).run_dir().join("envoy/ads.sock");
    let back = until(lab, "the gateway's server", LATEST, stage, |_| {
        UnixStream::connect(&socket).is_ok()
    })?;
    let (mut ours, mut patient) = (None, None);
    until(
        lab,
        "both Envoys serve what was added",
        LATEST,
        stage,
        |lab| {
            let listens = |node| listens(lab, node, served(port));
            if ours.is_none() && listens(CLIENT) {
                ours = Some(back.elapsed());
            }
            if patient.is_none() && listens(OTHER) {
                patient = Some(back.elapsed());
            }
            ours.is_some() && patient.is_some()
        },
    )?;
    let [ours, patient] = [ours, patient].map(|it| it.unwrap_or_default().as_secs_f64());
    until_both_answer(lab, served(80), stage)?;
    let dropped = standing.dropped();
    stage.tell(&format!(
        "a gateway was killed: {dropped} of {CONNECTIONS} connections dropped; what was added is served {ours:.2} s \
         after it was back, {patient:.2} s with Envoy's default back-off"
    ));
    measured.dropped.push(dropped);
    measured.reattach.push(ours);
    measured.default_backoff.push(patient);
    Ok(())
}

/// A manager that is killed and started.
fn manager(
    lab: &mut Lab,
    site: &Site,
    port: u16,
    measured: &mut Faults,
    stage: &Stage,
) -> Result<(), LabError> {
    let standing = kill(lab, MANAGER, site, port)?;
    site.start_manager(lab)?;
    let at = SocketAddr::from((lan_address(9), 9_443));
    let back = until(lab, "the manager", LATEST, stage, |lab| {
        listens(lab, CLIENT, at)
    })?;
    until(lab, "Envoy serves what was added", LATEST, stage, |lab| {
        listens(lab, CLIENT, served(port))
    })?;
    let change = back.elapsed().as_secs_f64();
    let dropped = standing.dropped();
    stage.tell(&format!(
        "a manager was killed: {dropped} of {CONNECTIONS} connections dropped; what was added is served {change:.2} \
         s after it was back"
    ));
    measured.manager_dropped.push(dropped);
    measured.manager_change.push(change);
    Ok(())
}

/// Packets of a host vanish, both ways.
fn hole(lab: &Lab, slow: bool, measured: &mut Faults, stage: &Stage) -> Result<(), LabError> {
    let start = |to| Prober::start(lab, CLIENT, to);
    let probers = [
        start(served(80))?,
        start(checked(QUICK))?,
        start(checked(SLOW))?,
    ];
    thread::sleep(BEFORE);
    let [_, edge] = EDGES;
    let since = Instant::now();
    lab.worker(edge)?.run(|| nft::apply_text(HOLE))??;
    let passed = pass(if slow { SLOW_SEEN } else { SEEN }, stage);
    lab.worker(edge)?.run(|| nft::apply_text(NO_HOLE))??;
    let mut ends = Vec::new();
    for prober in probers {
        ends.push(prober.end(since)?);
    }
    passed?;
    let samples = [
        Some(&mut measured.hole),
        Some(&mut measured.quick_checks),
        slow.then_some(&mut measured.slow_checks),
    ];
    let mut told = Vec::new();
    let names = ["by the tunnel", "by checks of 1 s", "by checks of 5 s"];
    if let Some(by_tunnel) = ends.first() {
        measured.hole_late.push(by_tunnel.late);
    }
    for ((samples, seen), name) in samples.into_iter().zip(ends).zip(names) {
        let Seen {
            failing,
            late,
            failed,
        } = seen;
        if let Some(samples) = samples {
            samples.push(failing);
            told.push(format!(
                "{name} {failing:.2} s, {failed} failed, the last late one {late:.2} s"
            ));
        }
    }
    stage.tell(&format!(
        "packets of a host vanished, the last failing connection was begun after: {}",
        told.join("; ")
    ));
    Ok(())
}

/// An Envoy that knows of no tunnel and checks hosts, in two ways.
fn checking(lab: &mut Lab, envoy: &Path) -> Result<Server, LabError> {
    let server = Server::start(Variant::Delta, &lab.root(OTHER).join("ads.sock"))?;
    let mut offer = Offer::default();
    let mut here = Here::default();
    let health = |interval_seconds, timeout_seconds, fall| Health {
        interval_seconds,
        timeout_seconds,
        fall,
        rise: 1,
    };
    for (port, health) in [(SLOW, health(5.0, 5.0, 3)), (QUICK, health(1.0, 0.5, 2))] {
        let (Some(number), Some(to)) = (NonZeroU16::new(port), NonZeroU16::new(ANSWERS)) else {
            continue;
        };
        let host = |end: End| member(char::from(end.byte()).to_string(), directly(end), to);
        let place = (IpAddr::from(lan_address(22)), number);
        let members = End::BOTH.map(host).into();
        let name = format!("checked-{port}");
        add(&mut offer, name, place, members, Some(health));
    }
    for end in End::BOTH {
        let host = char::from(end.byte()).to_string();
        here.lives.insert(host, Life::Alive);
    }
    server.declare(render(&offer, &here).resources);
    Envoy::start(lab, OTHER, envoy, (Variant::Delta, server.socket()), 1)?;
    Ok(server)
}

fn checked(port: u16) -> SocketAddr {
    (lan_address(22), port).into()
}

/// Whether somebody accepts connections there.
fn listens(lab: &Lab, node: &str, at: SocketAddr) -> bool {
    let Ok(worker) = lab.worker(node) else {
        return false;
    };
    let connected = worker.run(move || TcpStream::connect_timeout(&at, BRIEFLY).is_ok());
    connected.unwrap_or(false)
}

/// Looks each millisecond until it is so, and says when that was.
fn until(
    lab: &mut Lab,
    what: &str,
    limit: Duration,
    stage: &Stage,
    mut is_so: impl FnMut(&Lab) -> bool,
) -> Result<Instant, LabError> {
    let begun = Instant::now();
    loop {
        if is_so(lab) {
            return Ok(Instant::now());
        }
        if stage.is_stopped() {
            return Err(LabError::Interrupted);
        }
        if begun.elapsed() > limit {
            return Err(LabError::Late {
                what: what.to_owned(),
                limit,
                seen: lab
                    .fallen()
                    .unwrap_or_else(|| "every process runs".to_owned()),
            });
        }
        thread::sleep(LOOK);
    }
}

/// Lets time pass, unless the run is to end.
fn pass(span: Duration, stage: &Stage) -> Result<(), LabError> {
    let begun = Instant::now();
    while begun.elapsed() < span {
        if stage.is_stopped() {
            return Err(LabError::Interrupted);
        }
        thread::sleep(MOST.min(span.saturating_sub(begun.elapsed())));
    }
    Ok(())
}

const HOLE: &str = "table inet hole { chain in { type filter hook input priority 0; drop; }; \
                    chain out { type filter hook output priority 0; drop; }; }";
const NO_HOLE: &str = "delete table inet hole";
/// How many connections stand while a role is killed.
const CONNECTIONS: u32 = 20;
/// Where the Envoy listens that checks in one way, and in the other.
const SLOW: u16 = 8_081;
const QUICK: u16 = 8_082;
/// Within how many seconds hosts that connections go to are missed.
const QUICKLY: f64 = 1.0;
/// How often it is waited for slow checks.
const SLOW_RUNS: u32 = 2;
const BEFORE: Duration = Duration::from_millis(300);
/// How long is looked: the tunnel and checks of 1 s need some seconds; those of 5 s need three times 10 s at worst.
const SEEN: Duration = Duration::from_secs(5);
const SLOW_SEEN: Duration = Duration::from_secs(32);
const SOON: Duration = Duration::from_secs(20);
/// Envoy waits for half a minute at most before it calls again.
const LATEST: Duration = Duration::from_secs(60);
/// How long thousands of services may take from their file to Envoy.
const FILLED: Duration = Duration::from_secs(240);
/// Until the last change has been told and written.
const CALM: Duration = Duration::from_secs(1);
const BRIEFLY: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_millis(100);
