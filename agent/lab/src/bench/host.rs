//! A LAN whose three hosts run one implementation of VRRP.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use kedge_control::local::Vip;
use kedge_core::vip::RouterState;
use kedge_host::{Role, Root};

use crate::{
    client,
    error::LabError,
    lab::Lab,
    probe::ProbeReport,
    prober::Prober,
    roles::boottime_seconds,
    stage::Stage,
    topology::{HOSTS, Topology, VIP},
};

/// Who speaks VRRP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// `kedge agent` with a VIP alone, as it comes: priorities 254, 223, 192.
    Kedge,
    /// keepalived with VRRPv3 at this interval, and the priorities of its documentation.
    Keepalived {
        /// Its advertisement interval.
        interval: Duration,
    },
}

/// What happens to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bridge port goes down and everything on the host is killed.
    HostDeath,
    /// The daemon is told to stop.
    Stop,
    /// The daemon is killed, the host lives.
    DaemonKill,
}

/// What one fault cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) outage: f64,
    pub(super) lost: u64,
    /// From the fault to the first probe that another host answered.
    pub(super) switch: f64,
    pub(super) missed_ticks: u64,
}

/// A LAN of one system.
#[derive(Debug)]
pub(super) struct Lan {
    lab: Lab,
    system: System,
    // When the owner sent its first advertisement, on CLOCK_BOOTTIME; the others follow it at
    // whole intervals.
    first_advert: f64,
}

impl Lan {
    /// Builds the LAN and waits until one host owns the VIP and the others stand by.
    pub(super) fn start(system: System, kedge: PathBuf, stage: &Stage) -> Result<Self, LabError> {
        let (lab, _) = Lab::build(Topology::lan(), kedge)?;
        let mut lan = Self {
            lab,
            system,
            first_advert: 0.0,
        };
        for host in HOSTS {
            lan.configure(host)?;
            lan.start_echo(host)?;
            lan.start_daemon(host)?;
        }
        lan.settle(stage)?;
        Ok(lan)
    }

    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    pub(super) fn take_down(self) -> Vec<String> {
        self.lab.take_down()
    }

    /// Has a fault happen to the owner, measures it, and brings the host back as a Backup.
    pub(super) fn suffer(
        &mut self,
        fault: Fault,
        run: u32,
        stage: &Stage,
    ) -> Result<Sample, LabError> {
        let prober = Prober::start(&self.lab, "client", SocketAddr::from((VIP, ECHO_PORT)))?;
        let owner = prober.wait_for_answer(stage, Duration::from_secs(5))?;
        sleep_until(self.moment(run));
        let at = boottime_seconds();
        match fault {
            Fault::HostDeath => self.lab.kill_host(&owner)?,
            Fault::Stop => self.lab.terminate(&owner, DAEMON)?,
            Fault::DaemonKill => self.lab.kill_all_but(&owner, ECHO)?,
        }
        prober.wait_for_other(&owner, stage, Duration::from_secs(20))?;
        let report = prober.finish()?;
        if let Some(switch) = report.switches.last() {
            self.first_advert = report.begun_boottime_seconds + switch.at_seconds;
        }
        self.recover(&owner, fault, stage)?;
        Ok(sample(&report, at))
    }

    /// When the fault of a run is to happen: after a lead of answered probes, so that ARP is no
    /// part of what is measured, and spread evenly over the time between two advertisements.
    fn moment(&self, run: u32) -> f64 {
        let interval = self.system.interval().as_secs_f64();
        let earliest = boottime_seconds() + LEAD.as_secs_f64();
        let since = (earliest - self.first_advert).rem_euclid(interval);
        let wait = (phase(run) * interval - since).rem_euclid(interval);
        earliest + wait
    }

    fn recover(&mut self, host: &str, fault: Fault, stage: &Stage) -> Result<(), LabError> {
        match fault {
            Fault::HostDeath => {
                self.lab.heal(host)?;
                self.start_echo(host)?;
            }
            Fault::Stop => {
                self.lab
                    .process(host, DAEMON)?
                    .wait(Duration::from_secs(10))?;
            }
            // What it left in the kernel is for the next start to clean up, as on a real host.
            Fault::DaemonKill => {}
        }
        self.start_daemon(host)?;
        self.settle(stage)
    }

    fn configure(&self, host: &str) -> Result<(), LabError> {
        let index = HOSTS.iter().position(|name| *name == host).unwrap_or(0);
        let (path, text) = match self.system {
            System::Kedge => {
                let path = Root::new(self.lab.root(host)).config_file(Role::Agent);
                (
                    path,
                    kedge_config(host, PRIORITIES_KEDGE.get(index).copied().unwrap_or(192)),
                )
            }
            System::Keepalived { interval } => {
                let priority = PRIORITIES_KEEPALIVED.get(index).copied().unwrap_or(100);
                (
                    self.keepalived_config(host),
                    keepalived_config(host, priority, interval),
                )
            }
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(LabError::file(directory))?;
        }
        fs::write(&path, text).map_err(LabError::file(path))
    }

    fn keepalived_config(&self, host: &str) -> PathBuf {
        self.lab.root(host).join("etc/keepalived.conf")
    }

    fn start_echo(&mut self, host: &str) -> Result<(), LabError> {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, ECHO_PORT)).to_string();
        self.lab
            .start_role(host, ECHO, ["echo", "--name", host, "--listen", &listen])
    }

    fn start_daemon(&mut self, host: &str) -> Result<(), LabError> {
        match self.system {
            System::Kedge => self.lab.start_kedge(host, DAEMON, ["agent"]),
            System::Keepalived { .. } => {
                let root = self.lab.root(host);
                let file = |name: &str| root.join(name).display().to_string();
                for pid in ["keepalived.pid", "vrrp.pid"] {
                    _ = fs::remove_file(root.join(pid));
                }
                let mut command = Command::new("keepalived");
                command
                    .args([
                        "--dont-fork",
                        "--log-console",
                        "--no-syslog",
                        "--log-detail",
                        "--vrrp",
                    ])
                    .args(["--use-file", &file("etc/keepalived.conf")])
                    .args(["--pid", &file("keepalived.pid")])
                    .args(["--vrrp_pid", &file("vrrp.pid")]);
                // A log of this start alone: readiness is read from it.
                _ = fs::remove_file(root.join("log").join(format!("{DAEMON}.log")));
                self.lab.start(host, DAEMON, command)
            }
        }
    }

    /// Waits until every host has found its place.
    fn settle(&mut self, stage: &Stage) -> Result<(), LabError> {
        stage.eventually(
            "one Active and two Backups",
            Duration::from_secs(20),
            || {
                if let Some(fallen) = self.lab.fallen() {
                    return Err(fallen);
                }
                let states: Vec<_> = HOSTS.iter().map(|host| self.state(host)).collect();
                let count = |wanted| {
                    states
                        .iter()
                        .filter(|state| **state == Some(wanted))
                        .count()
                };
                let settled = count(RouterState::Active) == 1 && count(RouterState::Backup) == 2;
                settled.then_some(()).ok_or_else(|| format!("{states:?}"))
            },
        )
    }

    fn state(&self, host: &str) -> Option<RouterState> {
        let root = self.lab.root(host);
        match self.system {
            System::Kedge => {
                let socket = Root::new(root).socket(Role::Agent);
                client::read::<Vip>(&socket, "/v1/vips/api")
                    .ok()
                    .map(|vip| vip.state)
            }
            System::Keepalived { .. } => {
                let log =
                    fs::read_to_string(root.join("log").join(format!("{DAEMON}.log"))).ok()?;
                let last = log.lines().rev().find_map(|line| {
                    let (_, state) = line.split_once("Entering ")?;
                    state
                        .split_once(" STATE")
                        .map(|(state, _)| state.to_owned())
                })?;
                match last.as_str() {
                    "MASTER" => Some(RouterState::Active),
                    "BACKUP" => Some(RouterState::Backup),
                    _ => None,
                }
            }
        }
    }
}

impl System {
    fn interval(self) -> Duration {
        match self {
            Self::Kedge => ADVERT,
            Self::Keepalived { interval } => interval,
        }
    }
}

fn sleep_until(moment: f64) {
    let rest = moment - boottime_seconds();
    std::thread::sleep(Duration::try_from_secs_f64(rest).unwrap_or_default());
}

/// Where within an advertisement interval the fault of a run is: the golden ratio spreads any
/// number of runs evenly. Left to chance, the median of 20 runs is off by a tenth of an interval.
fn phase(run: u32) -> f64 {
    (f64::from(run) * 0.618_033_988_749_895).fract()
}

fn sample(report: &ProbeReport, fault_at: f64) -> Sample {
    let fault = fault_at - report.begun_boottime_seconds;
    let switch = report
        .switches
        .last()
        .map_or(0.0, |switch| (switch.at_seconds - fault).max(0.0));
    Sample {
        outage: report.outage_seconds,
        lost: report.lost_probes,
        switch,
        missed_ticks: report.missed_ticks,
    }
}

fn kedge_config(host: &str, priority: u8) -> String {
    format!(
        "version: 1\nnode: {{name: {host}}}\nvips:\n  api:\n    addresses: [{VIP}]\n    \
         priority: {priority}\n    advert_interval: 100ms\n    health: none\n"
    )
}

fn keepalived_config(host: &str, priority: u8, interval: Duration) -> String {
    let interval = interval.as_secs_f64();
    format!(
        "global_defs {{\n  router_id {host}\n  vrrp_version 3\n}}\n\
         vrrp_instance api {{\n  state BACKUP\n  nopreempt\n  interface eth0\n  \
         virtual_router_id 51\n  priority {priority}\n  advert_int {interval}\n  \
         virtual_ipaddress {{\n    {VIP}/32\n  }}\n}}\n"
    )
}

/// Kedge's default.
pub(super) const ADVERT: Duration = Duration::from_millis(100);

/// 254 less 31 for each slot, as Kedge spaces three hosts.
const PRIORITIES_KEDGE: [u8; 3] = [254, 223, 192];

/// The priorities of keepalived's own examples.
const PRIORITIES_KEEPALIVED: [u8; 3] = [150, 140, 130];

const DAEMON: &str = "vrrp";
const ECHO: &str = "echo";
const ECHO_PORT: u16 = 6443;

/// How long a train runs before the fault: past the client's first ARP exchange.
const LEAD: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_spread_evenly_over_the_interval() {
        for runs in [5_u32, 20, 100] {
            let mut phases: Vec<_> = (0..runs).map(phase).collect();
            phases.sort_by(f64::total_cmp);
            assert!(phases.iter().all(|phase| (0.0..1.0).contains(phase)));
            let widest = phases
                .windows(2)
                .map(|pair| pair[1] - pair[0])
                .fold(0.0, f64::max);
            assert!(widest < 2.7 / f64::from(runs), "{runs}: {widest}");
        }
    }
}
