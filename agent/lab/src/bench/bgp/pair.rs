//! Many sessions of BFD between two hosts: a subject, and BIRD in the real-time class at the other end.

use std::{
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use ipnet::{IpNet, Ipv4Net};
use kedge_host::{Role, Root};
use kedge_net::{
    link::{LinkError, Links},
    monitor::MacText,
};
use rustix::thread::CpuSet;

use super::{
    super::{cost::processor_seconds, place::keep, said::said},
    site::watched,
    speaker::{DAEMON, LIMIT, bird_interface, birdc, start_bird, write},
};
use crate::{
    error::LabError,
    lab::Lab,
    stage::Stage,
    topology::{ENDS, Topology, end_address},
};

/// Whose sessions they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// `kedge agent`, which has a real-time class by itself.
    Kedge,
    /// BIRD in the real-time class.
    Bird,
    /// BIRD as it comes.
    BirdAsItComes,
}

/// A subject and its peer.
#[derive(Debug)]
pub(super) struct Pair {
    lab: Lab,
    subject: Subject,
    sessions: u16,
}

/// What a process used, and how many packets it sent and took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    seconds: f64,
    packets: f64,
}

impl Subject {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kedge => "kedge",
            Self::Bird => "BIRD, real-time",
            Self::BirdAsItComes => "BIRD",
        }
    }
}

impl Pair {
    /// Starts both and waits until every session is up with these times.
    pub(super) fn start(
        subject: Subject,
        sessions: u16,
        interval: Duration,
        kedge: &Path,
        stage: &Stage,
    ) -> Result<Self, LabError> {
        let (lab, _) = Lab::build(Topology::pair(), kedge.to_owned())?;
        let mut pair = Self {
            lab,
            subject,
            sessions,
        };
        for (at, node) in ENDS.into_iter().enumerate() {
            let config = pair.lab.root(node).join("etc/speaker.conf");
            write(&config, &bird(at, sessions, interval))?;
            let worker = pair.lab.worker(node)?;
            worker.run(move || addresses(at, sessions))??;
        }
        for at in 0..ENDS.len() {
            neighbors(&pair.lab, at, sessions)?;
        }
        start_bird(&mut pair.lab, ENDS[1], true)?;
        match subject {
            Subject::Kedge => {
                let path = Root::new(pair.lab.root(ENDS[0])).config_file(Role::Agent);
                write(&path, &kedge_config(sessions, interval))?;
                pair.lab.start_kedge(ENDS[0], DAEMON, ["agent"])?;
            }
            Subject::Bird => start_bird(&mut pair.lab, ENDS[0], true)?,
            Subject::BirdAsItComes => start_bird(&mut pair.lab, ENDS[0], false)?,
        }
        stage.eventually("every session is up", LIMIT, || {
            if let Some(fallen) = pair.lab.fallen() {
                return Err(fallen);
            }
            let table = birdc(&pair.lab, ENDS[1], "show bfd sessions");
            let table = table.map_err(|error| error.to_string())?;
            let up = watched(&table, interval).count();
            let all = up == usize::from(sessions);
            all.then_some(())
                .ok_or_else(|| format!("{up} of {sessions} are up"))
        })?;
        Ok(pair)
    }

    pub(super) const fn subject(&self) -> Subject {
        self.subject
    }

    pub(super) fn take_down(self, keep: Option<&Path>) -> Result<Vec<String>, LabError> {
        if let Some(directory) = keep {
            let name = format!("bfd-{}-{:?}", self.sessions, self.subject);
            self.lab.keep_logs(&directory.join(name.to_lowercase()))?;
        }
        Ok(self.lab.take_down())
    }

    /// Keeps the subject and its peer on these processors.
    pub(super) fn keep(&mut self, [subject, peer]: [&CpuSet; 2]) -> Result<(), LabError> {
        keep(&self.lab.pids(ENDS[0])?, subject);
        keep(&self.lab.pids(ENDS[1])?, peer);
        Ok(())
    }

    /// What the subject's processes used until now.
    pub(super) fn used(&mut self) -> Result<Used, LabError> {
        let pids = self.lab.pids(ENDS[0])?;
        let seconds = pids.iter().map(|pid| processor_seconds(*pid)).sum();
        let read = || fs::read_to_string("/proc/thread-self/net/snmp");
        let text = self.lab.worker(ENDS[0])?.run(read)?;
        let text = text.map_err(LabError::file("/proc/thread-self/net/snmp"))?;
        let packets = datagrams(&text).ok_or_else(|| LabError::Unexpected {
            who: "/proc/thread-self/net/snmp".to_owned(),
            said: "does not count datagrams".to_owned(),
        })?;
        Ok(Used { seconds, packets })
    }

    /// How often a session went down until now, as the peer saw it: whoever was late.
    pub(super) fn flaps(&self) -> usize {
        let log = self.lab.root(ENDS[1]).join("log");
        let log = fs::read_to_string(log.join(format!("{DAEMON}.log"))).unwrap_or_default();
        log.matches(FLAP).count()
    }

    /// What a packet costs in microseconds of processor time, over a while.
    pub(super) fn cost(&mut self, time: Duration) -> Result<f64, LabError> {
        let (before, begun) = (self.used()?, Instant::now());
        std::thread::sleep(time.saturating_sub(begun.elapsed()));
        Ok(self.used()?.since(before))
    }
}

impl Used {
    /// Microseconds a packet.
    pub(super) fn since(self, before: Self) -> f64 {
        let packets = (self.packets - before.packets).max(1.0);
        (self.seconds - before.seconds).max(0.0) / packets * 1e6
    }
}

/// One address for each session.
fn addresses(at: usize, sessions: u16) -> Result<(), LinkError> {
    let mut links = Links::open()?;
    for session in 0..sessions {
        let net = IpNet::V4(Ipv4Net::new_assert(address(at, session), LENGTH));
        links.add_address("eth0", net)?;
    }
    Ok(())
}

/// Has an end know the hardware address of the other one for each session: so many entries of neighbours
/// that are not permanent are more than a kernel keeps for long, and all namespaces share that limit.
fn neighbors(lab: &Lab, at: usize, sessions: u16) -> Result<(), LabError> {
    let (here, there) = (end(at), end(1 - at));
    let show = || Links::open().and_then(|mut links| links.show("eth0"));
    let mac = MacText(lab.worker(there)?.run(show)??.mac.unwrap_or_default()).to_string();
    let line = |session| {
        let to = address(1 - at, session);
        format!("neighbor replace {to} lladdr {mac} nud permanent dev eth0\n")
    };
    let path = lab.root(here).join("etc/neighbors");
    write(&path, &(0..sessions).map(line).collect::<String>())?;
    let mut command = Command::new("ip");
    command.arg("-batch").arg(&path);
    lab.worker(here)?.run(move || said(command, "").map(drop))?
}

fn end(at: usize) -> &'static str {
    ENDS.get(at).copied().unwrap_or_default()
}

/// The address of an end for a session.
fn address(at: usize, session: u16) -> Ipv4Addr {
    let [high, low] = session.to_be_bytes();
    Ipv4Addr::new(10, second(at), high.saturating_add(1), low)
}

/// Both are of 10.16.0.0/12.
const fn second(at: usize) -> u8 {
    if at == 0 { 21 } else { 22 }
}

/// BIRD at an end.
fn bird(at: usize, sessions: u16, interval: Duration) -> String {
    let mut text = format!(
        "log stderr all;\nrouter id {};\nprotocol device {{ }}\nprotocol bfd {{\n",
        end_address(at)
    );
    // Changes of state are counted at the far end.
    if at == 1 {
        text.push_str("  debug { events };\n");
    }
    _ = writeln!(text, "  {}", bird_interface(interval));
    for session in 0..sessions {
        _ = writeln!(
            text,
            "  neighbor {} dev \"eth0\" local {};",
            address(1 - at, session),
            address(at, session)
        );
    }
    text.push_str("}\n");
    text
}

fn kedge_config(sessions: u16, interval: Duration) -> String {
    let millis = interval.as_millis();
    let mut text = format!(
        "version: 1\nnode: {{name: {}}}\nbfd:\n  sessions:\n",
        ENDS[0]
    );
    for session in 0..sessions {
        _ = writeln!(
            text,
            "    s{session}: {{peer: {}, source: {}, interface: eth0, transmit_interval: {millis}ms, \
             receive_interval: {millis}ms}}",
            address(1, session),
            address(0, session)
        );
    }
    text
}

/// Datagrams that were taken and sent, of `/proc/net/snmp`.
fn datagrams(snmp: &str) -> Option<f64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let both = names.split_whitespace().zip(values.split_whitespace());
    let counted = both.filter(|(name, _)| ["InDatagrams", "OutDatagrams"].contains(name));
    let counts: Option<Vec<f64>> = counted.map(|(_, value)| value.parse().ok()).collect();
    counts
        .filter(|counts| counts.len() == 2)
        .map(|counts| counts.iter().sum())
}

/// What BIRD writes when a session goes down.
const FLAP: &str = "changed state from Up to ";
/// 10.16.0.0/12.
const LENGTH: u8 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_both_ways_are_counted() {
        let text = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
                    Udp: 12 3 4 30 5\nUdpLite: InDatagrams OutDatagrams\nUdpLite: 1 1\n";
        assert_eq!(datagrams(text), Some(42.0));
        assert_eq!(datagrams("Udp: InDatagrams\nUdp: 12\n"), None);
    }

    #[test]
    fn each_session_has_two_addresses_of_its_own_on_one_network() {
        let all: std::collections::BTreeSet<_> = (0..512)
            .flat_map(|session| [address(0, session), address(1, session)])
            .collect();
        assert_eq!(all.len(), 1_024);
        let net: Ipv4Net = "10.16.0.0/12".parse().unwrap();
        assert!(
            all.iter()
                .all(|it| net.contains(it) && *it != net.network())
        );
    }
}
