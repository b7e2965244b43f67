//! What happens to an owner, and what that cost a client.

use std::{
    fs,
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant},
};

use kedge_host::{Role, Root};
use kedge_net::{link::Links, monitor::MacText};
use rustix::process::Signal;

use super::{
    super::said::said,
    lan::{DAEMON, ECHO, ECHO_PORT, Lan, System},
};
use crate::{
    error::LabError, probe::ProbeReport, prober::Prober, roles::boottime_seconds, stage::Stage,
    topology::VIP,
};

/// What happens to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bridge port goes down and everything on the host is killed.
    HostDeath,
    /// The daemon is told to stop.
    Stop,
    /// The daemon is killed, the host lives: of Kedge the agent, of keepalived both processes, as
    /// the child of a killed parent leaves in order.
    Kill,
    /// The daemon reads a changed configuration.
    Reload,
    /// The daemon is replaced, as a package does it: Kedge in place, keepalived stopped and started.
    Upgrade,
    /// The daemon stands still, and a client goes on to send to this host.
    Hang,
}

/// What one fault cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) outage: f64,
    pub(super) lost: u64,
    /// From the fault to the first probe that another host answered.
    pub(super) switch: f64,
    /// The part of it beyond the skew of the one that took over.
    pub(super) beyond: f64,
    /// Whether the host still held the address half a second after another one answered.
    pub(super) stale: bool,
    /// From the fault to the last answer of a host that hangs.
    pub(super) fenced: f64,
    /// How often another host answered than before.
    pub(super) moves: u32,
    pub(super) missed_ticks: u64,
}

impl Fault {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::HostDeath => "host death",
            Self::Stop => "graceful stop",
            Self::Kill => "daemon killed",
            Self::Reload => "reload",
            Self::Upgrade => "daemon replaced, as an upgrade does",
            Self::Hang => "daemon hangs",
        }
    }
}

impl Lan {
    /// Has a fault happen to the owner, measures it, and brings the host back as a Backup.
    pub(super) fn suffer(
        &mut self,
        fault: Fault,
        run: u32,
        stage: &Stage,
    ) -> Result<Sample, LabError> {
        let prober = Prober::start(self.lab(), "client", SocketAddr::from((VIP, ECHO_PORT)))?;
        let owner = prober.wait_for_answer(stage, Duration::from_secs(5))?;
        if fault == Fault::Hang {
            self.pin(&owner)?;
        }
        self.wait_for_phase(run);
        let at = boottime_seconds();
        self.inflict(fault, &owner)?;
        let mut sample = Sample::default();
        let report = match fault {
            Fault::HostDeath | Fault::Stop | Fault::Kill => {
                let next = prober.wait_for_other(&owner, stage, Duration::from_secs(20))?;
                let skew = self.skew(&next);
                let switched = Instant::now();
                let report = prober.finish()?;
                self.note_owner(&report);
                sample.switch = switch(&report, at);
                sample.beyond = (sample.switch - skew).max(0.0);
                if fault == Fault::Kill {
                    std::thread::sleep(STALE.saturating_sub(switched.elapsed()));
                    sample.stale = self.holds(&owner)?;
                }
                report
            }
            Fault::Reload => {
                std::thread::sleep(self.interval() * AFTER);
                prober.finish()?
            }
            Fault::Upgrade => {
                if let System::Keepalived { .. } = self.system() {
                    self.process_ends(&owner)?;
                    self.start_daemon(&owner)?;
                }
                self.settle(stage)?;
                let report = prober.finish()?;
                self.note_owner(&report);
                sample.moves = u32::try_from(report.switches.len()).unwrap_or(u32::MAX);
                report
            }
            Fault::Hang => {
                std::thread::sleep(HANGS);
                let report = prober.finish()?;
                // An answer that still came in the end has no end.
                let last = report.gaps.iter().rev().find(|gap| gap.open);
                let window = boottime_seconds() - at;
                let begun = report.begun_boottime_seconds;
                sample.fenced = last.map_or(window, |gap| (begun + gap.at_seconds - at).max(0.0));
                report
            }
        };
        self.recover(&owner, fault, stage)?;
        Ok(Sample {
            outage: report.outage_seconds,
            lost: report.lost_probes,
            missed_ticks: report.missed_ticks,
            ..sample
        })
    }

    fn inflict(&mut self, fault: Fault, owner: &str) -> Result<(), LabError> {
        match (fault, self.system()) {
            (Fault::HostDeath, _) => self.lab_mut().kill_host(owner),
            (Fault::Stop, _) | (Fault::Upgrade, System::Keepalived { .. }) => {
                self.lab_mut().terminate(owner, DAEMON)
            }
            (Fault::Upgrade, System::Kedge { .. }) => self.restart(owner),
            (Fault::Kill, System::Kedge { .. }) => {
                self.lab_mut().process(owner, DAEMON)?.kill();
                Ok(())
            }
            (Fault::Kill, System::Keepalived { .. }) => self.lab_mut().kill_all_but(owner, ECHO),
            (Fault::Reload, _) => {
                self.change_configuration(owner)?;
                self.lab_mut().signal(owner, DAEMON, Signal::HUP)
            }
            (Fault::Hang, System::Kedge { .. }) => {
                self.lab_mut().signal(owner, DAEMON, Signal::STOP)
            }
            (Fault::Hang, System::Keepalived { .. }) => {
                self.lab_mut().signal_all_but(owner, ECHO, Signal::STOP)
            }
        }
    }

    /// Has the agent of a host replaced by its executable, and waits until that answers.
    fn restart(&self, host: &str) -> Result<(), LabError> {
        let mut command = Command::new(self.lab().kedge());
        command
            .arg("--root")
            .arg(self.lab().root(host))
            .arg("restart");
        let host = self.lab().worker(host)?;
        host.run(move || said(command, "").map(drop))?
    }

    fn recover(&mut self, host: &str, fault: Fault, stage: &Stage) -> Result<(), LabError> {
        match fault {
            Fault::HostDeath => {
                self.lab().heal(host)?;
                self.start_echo(host)?;
            }
            Fault::Stop => self.process_ends(host)?,
            // What it left in the kernel is for the next start to clean up, as on a real host.
            Fault::Kill => {}
            Fault::Reload | Fault::Upgrade => return self.settle(stage),
            Fault::Hang => {
                self.unpin()?;
                self.lab_mut().kill_all_but(host, ECHO)?;
            }
        }
        self.start_daemon(host)?;
        self.settle(stage)?;
        if self.interval() < SHORT && matches!(self.system(), System::Kedge { .. }) {
            // Until it has measured its timers it would run at the default interval.
            std::thread::sleep(MEASURES);
        }
        Ok(())
    }

    fn process_ends(&mut self, host: &str) -> Result<(), LabError> {
        let process = self.lab_mut().process(host, DAEMON)?;
        process.wait(Duration::from_secs(10)).map(drop)
    }

    /// Has the client send to this host whoever claims the VIP.
    fn pin(&self, owner: &str) -> Result<(), LabError> {
        let link = self
            .lab()
            .worker(owner)?
            .run(|| Links::open().and_then(|mut links| links.show("eth0")))??;
        let mac = MacText(link.mac.unwrap_or_default()).to_string();
        self.neighbor(&[
            "replace",
            &VIP.to_string(),
            "lladdr",
            &mac,
            "nud",
            "permanent",
        ])
    }

    fn unpin(&self) -> Result<(), LabError> {
        self.neighbor(&["del", &VIP.to_string()])
    }

    fn neighbor(&self, words: &[&str]) -> Result<(), LabError> {
        let mut command = Command::new("ip");
        command.arg("neighbor").args(words).args(["dev", "lan0"]);
        let client = self.lab().worker("client")?;
        client.run(move || said(command, "").map(drop))?
    }

    /// Writes a configuration in which something else is another: how much of a host is told.
    fn change_configuration(&self, host: &str) -> Result<(), LabError> {
        let path = match self.system() {
            System::Kedge { .. } => Root::new(self.lab().root(host)).config_file(Role::Agent),
            System::Keepalived { .. } => self.keepalived_config(host),
        };
        let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
        let (old, new) = match self.system() {
            System::Kedge { .. } => ("preempt: false", "preempt: true"),
            System::Keepalived { .. } => ("garp_master_delay 5", "garp_master_delay 6"),
        };
        let text = if text.contains(old) {
            text.replace(old, new)
        } else {
            text.replace(new, old)
        };
        fs::write(&path, text).map_err(LabError::file(path))
    }
}

fn switch(report: &ProbeReport, at: f64) -> f64 {
    let fault = at - report.begun_boottime_seconds;
    let last = report.switches.last();
    last.map_or(0.0, |switch| (switch.at_seconds - fault).max(0.0))
}

/// When a VIP that is still there is there to stay.
const STALE: Duration = Duration::from_millis(500);
/// How many intervals a reload is watched: twice as long as a Backup waits.
const AFTER: u32 = 8;
/// Intervals that a host keeps only after it has shown that it can, and how long that takes.
const SHORT: Duration = Duration::from_millis(50);
const MEASURES: Duration = Duration::from_millis(2_500);
/// How long a host that hangs is watched.
const HANGS: Duration = Duration::from_millis(1_500);
