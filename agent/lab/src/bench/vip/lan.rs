//! A LAN whose three hosts run one implementation of VRRP.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use kedge_control::local::Vip;
use kedge_core::vip::RouterState;
use kedge_host::{Role, Root};
use kedge_net::link::Links;

use crate::{
    client,
    error::LabError,
    lab::{Lab, executable},
    probe::ProbeReport,
    roles::boottime_seconds,
    stage::Stage,
    topology::{HOSTS, Topology, VIP},
};

/// Who speaks VRRP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// `kedge agent` with a VIP alone: priorities 254, 223, 192.
    Kedge {
        /// Its advertisement interval.
        interval: Duration,
    },
    /// keepalived with VRRPv3, and the priorities of its documentation.
    Keepalived {
        /// Its advertisement interval.
        interval: Duration,
        /// Whether it asks for a real-time class, as Kedge does by itself.
        real_time: bool,
    },
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
        let lab = lab.with_roles_of(executable(None)?);
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

    pub(super) fn lab_mut(&mut self) -> &mut Lab {
        &mut self.lab
    }

    pub(super) const fn system(&self) -> System {
        self.system
    }

    pub(super) const fn interval(&self) -> Duration {
        self.system.interval()
    }

    /// The skew of a host, in seconds.
    pub(super) fn skew(&self, host: &str) -> f64 {
        let skew = (256.0 - f64::from(self.priority(host))) / 256.0;
        skew * self.interval().as_secs_f64()
    }

    /// Waits for the moment of a run's fault.
    pub(super) fn wait_for_phase(&self, run: u32) {
        sleep_until(self.moment(run));
    }

    /// Learns from a report when the present owner began to advertise.
    pub(super) fn note_owner(&mut self, report: &ProbeReport) {
        if let Some(switch) = report.switches.last() {
            self.first_advert = report.begun_boottime_seconds + switch.at_seconds;
        }
    }

    /// Whether the VIP stands on a host's interface.
    pub(super) fn holds(&self, host: &str) -> Result<bool, LabError> {
        let addresses = self
            .lab
            .worker(host)?
            .run(|| Links::open().and_then(|mut links| links.addresses("eth0")))??;
        Ok(addresses.iter().any(|net| net.addr() == IpAddr::V4(VIP)))
    }

    /// How often a host became Active since its daemon was started first, by its log.
    pub(super) fn take_overs(&self, host: &str) -> usize {
        let told = match self.system {
            System::Kedge { .. } => " to=Active",
            System::Keepalived { .. } => "Entering MASTER STATE",
        };
        let changes = self.changes(host);
        changes.iter().filter(|line| line.contains(told)).count()
    }

    /// What a host said about its changes of state, its name in front.
    pub(super) fn changes(&self, host: &str) -> Vec<String> {
        let log = self
            .lab
            .root(host)
            .join("log")
            .join(format!("{DAEMON}.log"));
        let text = fs::read_to_string(log).unwrap_or_default();
        let told = match self.system {
            System::Kedge { .. } => " to=",
            System::Keepalived { .. } => " STATE",
        };
        let lines = text.lines().filter(|line| line.contains(told));
        lines.map(|line| format!("{host}: {line}")).collect()
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

    fn configure(&self, host: &str) -> Result<(), LabError> {
        let priority = self.priority(host);
        let (path, text) = match self.system {
            System::Kedge { interval } => (
                Root::new(self.lab.root(host)).config_file(Role::Agent),
                kedge_config(host, priority, interval),
            ),
            System::Keepalived {
                interval,
                real_time,
            } => (
                self.keepalived_config(host),
                keepalived_config(host, priority, interval, real_time),
            ),
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(LabError::file(directory))?;
        }
        fs::write(&path, text).map_err(LabError::file(path))
    }

    fn priority(&self, host: &str) -> u8 {
        let index = HOSTS.iter().position(|name| *name == host).unwrap_or(0);
        let all = match self.system {
            System::Kedge { .. } => PRIORITIES_KEDGE,
            System::Keepalived { real_time, .. } if real_time => PRIORITIES_FAST,
            System::Keepalived { .. } => PRIORITIES_KEEPALIVED,
        };
        all.get(index).copied().unwrap_or(192)
    }

    pub(super) fn keepalived_config(&self, host: &str) -> PathBuf {
        self.lab.root(host).join("etc/keepalived.conf")
    }

    pub(super) fn start_echo(&mut self, host: &str) -> Result<(), LabError> {
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, ECHO_PORT)).to_string();
        self.lab
            .start_role(host, ECHO, ["echo", "--name", host, "--listen", &listen])
    }

    pub(super) fn start_daemon(&mut self, host: &str) -> Result<(), LabError> {
        match self.system {
            System::Kedge { .. } => self.lab.start_kedge(host, DAEMON, ["agent"]),
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
    pub(super) fn settle(&mut self, stage: &Stage) -> Result<(), LabError> {
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
            System::Kedge { .. } => {
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
    const fn interval(self) -> Duration {
        match self {
            Self::Kedge { interval } | Self::Keepalived { interval, .. } => interval,
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

fn kedge_config(host: &str, priority: u8, interval: Duration) -> String {
    let interval = interval.as_millis();
    format!(
        "version: 1\nnode: {{name: {host}}}\nvips:\n  api:\n    addresses: [{VIP}]\n    \
         priority: {priority}\n    advert_interval: {interval}ms\n    preempt: false\n    \
         health: none\n"
    )
}

fn keepalived_config(host: &str, priority: u8, interval: Duration, real_time: bool) -> String {
    let interval = interval.as_secs_f64();
    let real_time = if real_time {
        "  vrrp_rt_priority 40\n"
    } else {
        ""
    };
    format!(
        "global_defs {{\n  router_id {host}\n  vrrp_version 3\n{real_time}}}\n\
         vrrp_instance api {{\n  state BACKUP\n  nopreempt\n  interface eth0\n  \
         virtual_router_id 51\n  priority {priority}\n  advert_int {interval}\n  \
         garp_master_delay 5\n  virtual_ipaddress {{\n    {VIP}/32\n  }}\n}}\n"
    )
}

/// Kedge's default.
pub(super) const ADVERT: Duration = Duration::from_millis(100);
/// Kedge's fastest.
pub(super) const FAST: Duration = Duration::from_millis(10);

/// 254 less 31 for each slot, as Kedge spaces three hosts.
const PRIORITIES_KEDGE: [u8; 3] = [254, 223, 192];

/// The priorities of keepalived's own examples.
const PRIORITIES_KEEPALIVED: [u8; 3] = [150, 140, 130];
/// At 10 ms those would take over together.
const PRIORITIES_FAST: [u8; 3] = [254, 200, 150];

pub(super) const DAEMON: &str = "vrrp";
pub(super) const ECHO: &str = "echo";
pub(super) const ECHO_PORT: u16 = 6443;

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
