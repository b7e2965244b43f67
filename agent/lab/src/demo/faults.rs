//! The demo's second half: faults, and what they cost a client that probes each millisecond.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use kedge_control::local::TunnelState;
use kedge_core::vip::RouterState;

use super::{
    Demo, Outage, SOON, Seen,
    rise::{endpoint_of, gateway_of, unexpected, wait},
    round,
};
use crate::{
    error::LabError,
    probe::ProbeReport,
    prober::Prober,
    site::{Site, told},
    stage::Stage,
    topology::HOSTS,
};

impl Demo<'_> {
    pub(super) fn faults(&mut self, site: &mut Site) -> Option<()> {
        self.stage
            .heading("The owner's whole host dies: link down, every process killed");
        let dead = self.step(HOST_DEATH, |stage, seen| host_death(site, stage, seen))?;
        self.step("the host returns", |stage, _| {
            host_returns(site, stage, dead)
        })?;
        self.stage
            .heading("The owner's agent is stopped and hands over");
        self.step(HAND_OVER, |stage, seen| hand_over(site, stage, seen))?;
        self.stage.heading("The owner's link is cut, and heals");
        self.step(LINK_CUT, |stage, seen| link_cut(site, stage, seen))?;
        self.stage
            .heading("The gateway is killed and started again");
        self.step(GATEWAY_RESTART, |stage, seen| {
            gateway_restart(site, stage, seen)
        })
    }
}

/// Everything that happens while a train runs.
struct Watch {
    prober: Prober,
    owner: &'static str,
}

impl Watch {
    /// Starts a train to the VIP and finds its owner.
    fn begin(site: &mut Site, stage: &Stage) -> Result<Self, LabError> {
        let vip = endpoint_of(site, "edge")?;
        let owner = wait(site, stage, "one owner", Site::owner)?;
        let prober = Prober::start(site.lab(), "client", vip)?;
        let answers = prober.wait_for_answer(stage, SOON)?;
        if answers != owner {
            return Err(unexpected(
                &answers,
                &format!("answers, but {owner} owns the VIP"),
            ));
        }
        stage.tell(&format!("{owner} answers a probe each millisecond"));
        // A lead of answered probes, so that ARP is no part of what is measured.
        std::thread::sleep(LEAD);
        Ok(Self { prober, owner })
    }

    fn successor(&self, stage: &Stage) -> Result<&'static str, LabError> {
        let name = self.prober.wait_for_other(self.owner, stage, SOON)?;
        HOSTS
            .into_iter()
            .find(|host| *host == name)
            .ok_or_else(|| unexpected(&name, "answers, and is no host of the site"))
    }
}

fn host_death(
    site: &mut Site,
    stage: &Stage,
    seen: &mut Seen,
) -> Result<(&'static str, String), LabError> {
    let watch = Watch::begin(site, stage)?;
    let owner = watch.owner;
    site.lab_mut().kill_host(owner)?;
    stage.tell(&format!("{owner} is dead"));
    let successor = watch.successor(stage)?;
    let report = watch.prober.finish()?;
    let outage = record(site, HOST_DEATH, successor, &report, seen)?;
    stage.tell(&format!(
        "the client was without its API for {:.0} ms: {} probes lost",
        outage.outage_seconds * 1e3,
        outage.lost_probes
    ));
    seen.notes.push(OTHERS.to_owned());
    seen.notes.push(format!("because {}", outage.because));
    within_limit(&report)?;
    Ok((
        owner,
        format!(
            "{successor} took over after {:.0} ms",
            outage.outage_seconds * 1e3
        ),
    ))
}

fn host_returns(
    site: &mut Site,
    stage: &Stage,
    host: &'static str,
) -> Result<((), String), LabError> {
    site.lab().heal(host)?;
    site.start_host(host)?;
    stands_by(site, stage, host)?;
    let owner = wait(site, stage, "one owner", Site::owner)?;
    Ok(((), format!("{host} stands by, {owner} keeps the VIP")))
}

fn hand_over(site: &mut Site, stage: &Stage, seen: &mut Seen) -> Result<((), String), LabError> {
    let watch = Watch::begin(site, stage)?;
    let owner = watch.owner;
    site.lab_mut().terminate(owner, "agent")?;
    let successor = watch.successor(stage)?;
    site.lab_mut().process(owner, "agent")?.wait(SOON)?;
    let report = watch.prober.finish()?;
    let outage = record(site, HAND_OVER, successor, &report, seen)?;
    seen.notes.push(format!("because {}", outage.because));
    site.start_agent(owner)?;
    stands_by(site, stage, owner)?;
    if outage.lost_probes > 0 {
        let said = format!("lost {} probes", outage.lost_probes);
        return Err(unexpected("the hand-over", &said));
    }
    Ok((
        (),
        format!(
            "from {owner} to {successor}, {} probes, none lost",
            report.sent
        ),
    ))
}

fn link_cut(site: &mut Site, stage: &Stage, seen: &mut Seen) -> Result<((), String), LabError> {
    let watch = Watch::begin(site, stage)?;
    let owner = watch.owner;
    site.lab().cut(owner)?;
    stage.tell(&format!("{owner} is cut off"));
    let successor = watch.successor(stage)?;
    stage.tell(&format!("{successor} answers; the link heals"));
    site.lab().heal(owner)?;
    stands_by(site, stage, owner)?;
    let report = watch.prober.finish()?;
    let outage = record(site, LINK_CUT, successor, &report, seen)?;
    seen.notes.push(format!("because {}", outage.because));
    within_limit(&report)?;
    if let [_, back, ..] = report.switches.as_slice() {
        return Err(unexpected(
            &back.to,
            "took the VIP back when the link healed",
        ));
    }
    let ms = outage.outage_seconds * 1e3;
    Ok((
        (),
        format!("{successor} took over after {ms:.0} ms and kept it when {owner} healed"),
    ))
}

fn gateway_restart(
    site: &mut Site,
    stage: &Stage,
    seen: &mut Seen,
) -> Result<((), String), LabError> {
    let at = gateway_of(site, "edge")?;
    site.version(at)
        .map_err(|said| unexpected("the gateway", &said))?;
    site.lab_mut().process("gateway", "gateway")?.kill();
    let killed = Instant::now();
    stage.tell("the gateway is dead");
    site.start_gateway()?;
    let lost = requests_lost(site, stage, at)?;
    let seconds = killed.elapsed().as_secs_f64();
    stage.tell(&format!(
        "the client reaches https://{at} again after {seconds:.1} s"
    ));
    wait(site, stage, "every tunnel", |site| {
        let up = |host: &&&str| {
            site.agent(host).is_ok_and(|status| {
                status
                    .tunnels
                    .iter()
                    .any(|tunnel| tunnel.state == TunnelState::Up)
            })
        };
        let count = HOSTS.iter().filter(up).count();
        if count == HOSTS.len() {
            Ok(())
        } else {
            Err(format!("{count} tunnels are up"))
        }
    })?;
    let all = killed.elapsed().as_secs_f64();
    seen.outages.push(Outage {
        fault: GATEWAY_RESTART.to_owned(),
        lost_probes: lost,
        outage_seconds: round(seconds),
        because: "three echoes in a row went unanswered, and each agent forced a handshake"
            .to_owned(),
    });
    if all > GATEWAY_LIMIT {
        let said = format!("were back after {all:.1} s, the limit is {GATEWAY_LIMIT} s");
        return Err(unexpected("the tunnels", &said));
    }
    Ok((
        (),
        format!("reached again after {seconds:.1} s, every tunnel back after {all:.1} s"),
    ))
}

/// Asks until the API answers, and counts what went wrong before.
fn requests_lost(site: &mut Site, stage: &Stage, at: SocketAddr) -> Result<u64, LabError> {
    let mut lost = 0;
    wait(
        site,
        stage,
        "the API behind the restarted gateway",
        |site| site.version(at).inspect_err(|_| lost += 1),
    )?;
    Ok(lost)
}

fn stands_by(site: &mut Site, stage: &Stage, host: &'static str) -> Result<(), LabError> {
    wait(site, stage, &format!("{host} standing by"), |site| {
        let vip = site.vip(host)?;
        match vip.state {
            RouterState::Backup => Ok(()),
            state => Err(format!("{state:?}: {}", vip.because)),
        }
    })
}

/// Judges an outage by what was seen of it: a machine that stood still is no one's fault.
fn within_limit(report: &ProbeReport) -> Result<(), LabError> {
    let seen = report.outage_seen_seconds();
    if seen <= OUTAGE_LIMIT {
        return Ok(());
    }
    let said = format!(
        "took {:.3} s, {seen:.3} s of it seen, the limit is {OUTAGE_LIMIT} s",
        report.outage_seconds
    );
    Err(unexpected("the take-over", &said))
}

/// Records a fault with the reason the new owner itself recorded.
fn record(
    site: &mut Site,
    fault: &str,
    successor: &str,
    report: &ProbeReport,
    seen: &mut Seen,
) -> Result<Outage, LabError> {
    let vip = site
        .vip(successor)
        .map_err(|said| unexpected(successor, &said))?;
    let explained = site.explain(successor, &vip.name).map_err(|err| {
        unexpected(
            successor,
            &format!("does not explain itself: {}", told(&err)),
        )
    })?;
    let active = |to: &RouterState| *to == RouterState::Active;
    let taken = explained
        .transitions
        .iter()
        .rev()
        .find(|transition| active(&transition.to));
    let outage = Outage {
        fault: fault.to_owned(),
        lost_probes: report.lost_probes,
        outage_seconds: round(report.outage_seconds),
        because: taken.map_or(vip.because, |transition| transition.because.clone()),
    };
    seen.outages.push(outage.clone());
    Ok(outage)
}

pub(super) const HOST_DEATH: &str = "host-death";
pub(super) const HAND_OVER: &str = "hand-over";
pub(super) const LINK_CUT: &str = "link-cut";
pub(super) const GATEWAY_RESTART: &str = "gateway-restart";

/// What the same fault costs by the design of others.
const OTHERS: &str =
    "VRRP with adverts each second: 3000 to 3600 ms. A lease of 15 s: up to 15000 ms.";

/// How long a train runs before the fault.
const LEAD: Duration = Duration::from_millis(200);

/// Three adverts at 100 ms and the skew are 0.3 s; the rest is for a machine that is busy.
const OUTAGE_LIMIT: f64 = 0.5;

/// Three echoes, a handshake, and a machine that is busy.
const GATEWAY_LIMIT: f64 = 6.0;
