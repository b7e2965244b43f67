//! One frame for measurements, beside the goals: Kedge and a peer interleaved in the same run, or
//! Kedge against the real thing it works on.

mod bgp;
mod cost;
mod lb;
mod load;
mod manager;
mod place;
mod row;
mod said;
mod sessions;
mod stats;
mod stillness;
mod tunnel;
mod vip;

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use kedge_control::document::{Document, Kind};
use kedge_core::{Code, Coded, Fix, Problem};
use serde::{Deserialize, Serialize};

use crate::{columns::columns, kube::Programs, output::Output, preflight, stage::Stage};

pub use self::{row::Row, stats::Samples};

/// Flags of `lab bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    pub name: BenchName,
    /// How often each fault is repeated (vip: 30, a killed agent ten times as often; bgp: 20), a blank
    /// endpoint filled (manager: 50), or everything measured (tunnel, lb: 5)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// How many hosts the manager's fleet has
    #[arg(long, default_value_t = HOSTS, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub hosts: u32,
    /// How many clusters the manager's fleet has
    #[arg(long, default_value_t = CLUSTERS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clusters: u32,
    /// How many seconds the manager is watched for writes, or a daemon for what it costs (vip, bgp),
    /// while nothing changes
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub idle: u32,
    /// For how many seconds take-overs without a cause are counted under load, with adverts each 10 ms
    /// (vip), or lost sessions of BFD (bgp)
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub soak: u32,
    /// The same with adverts each 100 ms; as long when left out
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub soak_default: Option<u32>,
    /// What of it is measured; everything when left out (vip: cost, faults, soak; bgp: speaker-death, cut,
    /// fast-cut, announce, bfd-cost, bfd-load; lb: propagation, envoy-memory, gateway-faults, proxies; tunnel:
    /// the others)
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    pub part: Vec<Part>,
    /// Measure so little that every row is seen and none means anything (lb)
    #[arg(long)]
    pub quick: bool,
    /// The executable of Envoy; the one of PATH when left out (lb)
    #[arg(long, value_name = "PATH")]
    pub envoy: Option<std::path::PathBuf>,
    /// The executable whose roles are measured; this one when left out
    #[arg(long, value_name = "PATH")]
    pub kedge: Option<std::path::PathBuf>,
    /// Keep the logs of every process in this directory
    #[arg(long, value_name = "DIR")]
    pub keep: Option<std::path::PathBuf>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchName {
    /// A floating address under every fault, and what its daemon costs, beside keepalived
    Vip,
    /// What the tunnel carries and costs, beside the WireGuard engines that are installed
    Tunnel,
    /// How fast a router knows that a speaker of BGP or its host is gone, and what BFD costs, beside BIRD
    /// and GoBGP
    Bgp,
    /// The manager with a fleet, against a real API server: start, memory, rates, enrolment
    Manager,
    /// How fast load balancing follows changes and faults, beside an Envoy that is told everything each time, and
    /// what proxies cost, beside HAProxy where it is installed
    Lb,
}

/// A part of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// What a VIP's daemon takes of memory and processor while nothing happens
    Cost,
    /// Daemons that are killed, stopped, replaced, hung, and hosts that die
    Faults,
    /// Take-overs without a cause, under load
    Soak,
    /// What the tunnel carries, alone and beside others: streams, small packets, round trips, memory
    Load,
    /// A stream where the kernel cuts runs of datagrams, as with a card that does not
    Segmenting,
    /// Peers that change under traffic
    Changes,
    /// Packets and newcomers during a flood of initiations
    Flood,
    /// Two thousand hosts that call a gateway at once, and what it remembers of them
    Storm,
    /// Ten thousand of them
    LargeStorm,
    /// A host with two gateways, which are killed and drained
    Gateways,
    /// A gateway of two thousand hosts behind one address, which is stopped and started, and killed and started
    Restart,
    /// Minutes without a path
    Outage,
    /// A peer with another address, and one that is removed
    Moves,
    /// A preshared key that is put in force, which takes two minutes
    Rotation,
    /// Ten thousand peers that say nothing for a minute, before they call
    Idle,
    /// Speakers of BGP that are killed
    SpeakerDeath,
    /// Hosts of speakers that are cut off, seen by BFD of three times 50 ms
    Cut,
    /// The same of three times 10 ms
    FastCut,
    /// A thousand routes for two routers
    Announce,
    /// What a packet of BFD costs
    BfdCost,
    /// Hundreds of sessions of BFD where every processor is busy
    BfdLoad,
    /// How fast Envoy follows what changes among thousands of services
    Propagation,
    /// What Envoy takes of memory for each service
    EnvoyMemory,
    /// Gateways and managers that restart, and hosts whose packets vanish
    GatewayFaults,
    /// What proxies take of the processor, and how many connections
    Proxies,
}

impl Part {
    /// Whose part it is.
    const fn bench(self) -> BenchName {
        match self {
            Self::Cost | Self::Faults | Self::Soak => BenchName::Vip,
            Self::Load
            | Self::Segmenting
            | Self::Changes
            | Self::Flood
            | Self::Storm
            | Self::LargeStorm
            | Self::Gateways
            | Self::Restart
            | Self::Outage
            | Self::Moves
            | Self::Rotation
            | Self::Idle => BenchName::Tunnel,
            Self::SpeakerDeath
            | Self::Cut
            | Self::FastCut
            | Self::Announce
            | Self::BfdCost
            | Self::BfdLoad => BenchName::Bgp,
            Self::Propagation | Self::EnvoyMemory | Self::GatewayFaults | Self::Proxies => {
                BenchName::Lb
            }
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// What a bench measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchResult {
    /// The bench's name.
    pub name: String,
    /// When, RFC 3339.
    pub date: String,
    /// The kernel's release.
    pub kernel: String,
    /// The CPU and how many of it.
    pub cpu: String,
    /// The peer and its version.
    pub peer: String,
    /// The command that reproduces it.
    pub command: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether every row with a goal reached it.
    pub ok: bool,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What one must know to read the rows.
    pub notes: Vec<String>,
}

impl Kind for BenchResult {
    const KIND: &'static str = "BenchResult";
}

impl BenchArgs {
    /// How often an agent is killed: nothing may be lost in 300 of it.
    fn kills(&self) -> u32 {
        self.runs() * 10
    }

    fn wants(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }

    /// Whether every part is one of this bench.
    fn check(&self) -> Result<(), Problem> {
        let Some(other) = self.part.iter().find(|part| part.bench() != self.name) else {
            return Ok(());
        };
        let problem = Problem::new(Code::SysUsage, format!("this bench has no part {other}"));
        Err(problem.fix(Fix::text("see which parts there are").command("kedge lab bench --help")))
    }

    fn runs(&self) -> u32 {
        self.runs.unwrap_or(match self.name {
            BenchName::Vip => 30,
            BenchName::Manager => 50,
            BenchName::Tunnel | BenchName::Lb => 5,
            BenchName::Bgp => 20,
        })
    }
}

/// Runs a bench and returns its result as text in the wanted form.
pub(crate) fn run(args: &BenchArgs, output: Output) -> Result<BenchResult, Problem> {
    args.check()?;
    let stage = || Stage::new(output).map_err(|err| err.problem());
    match args.name {
        BenchName::Vip => {
            preflight::check(&preflight::BENCH_VIP)?;
            vip::run(args, &stage()?).map_err(|err| err.problem())
        }
        BenchName::Tunnel => {
            preflight::check(&preflight::BENCH_TUNNEL)?;
            tunnel::run(args, &stage()?).map_err(|err| err.problem())
        }
        BenchName::Bgp => {
            preflight::check(&preflight::BENCH_BGP)?;
            bgp::run(args, &stage()?).map_err(|err| err.problem())
        }
        BenchName::Lb => {
            preflight::check(&preflight::BENCH_LB)?;
            lb::run(args, &stage()?)
        }
        BenchName::Manager => {
            preflight::check(&preflight::BENCH_MANAGER)?;
            manager::run(args, Programs::find()?, &stage()?)
        }
    }
}

impl BenchResult {
    /// What was measured on this machine until now.
    fn new(name: &str, peer: String, command: String, seconds: f64, rows: Vec<Row>) -> Self {
        Self {
            name: name.to_owned(),
            date: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            kernel: kernel(),
            cpu: cpu(),
            peer,
            command,
            seconds,
            ok: rows.iter().all(|row| row.met || row.must.is_empty()),
            rows,
            notes: Vec::new(),
        }
    }

    /// The result with its `apiVersion` and `kind`.
    #[must_use]
    pub fn document(self) -> Document<Self> {
        Document::new(self)
    }

    /// The result for people.
    #[must_use]
    pub fn table(&self) -> String {
        let titles = [
            "metric",
            "unit",
            "n",
            "p50",
            "p99",
            "max",
            "peer",
            "peer p50",
            "ratio",
            "must",
            "excellent",
            "met",
        ];
        let mut table = columns(&titles, &[2, 3, 4, 5, 7, 8]);
        for row in &self.rows {
            let met = match (row.met, row.met_excellent) {
                _ if row.must.is_empty() => "-",
                (_, true) => "excellent",
                (true, false) => "must",
                (false, false) => "no",
            };
            table.add_row([
                row.metric.clone(),
                row.unit.clone(),
                row.n.to_string(),
                number(row.p50),
                number(row.p99),
                number(row.max),
                row.peer.clone(),
                number(row.peer_p50),
                // Without a peer there is nothing to be ahead of.
                if row.ratio > 0.0 {
                    format!("{:.2}", row.ratio)
                } else {
                    "-".to_owned()
                },
                row.must.clone(),
                row.excellent.clone(),
                met.to_owned(),
            ]);
        }
        let mut text = format!("{table}\n");
        for note in &self.notes {
            _ = writeln!(text, "  {note}");
        }
        _ = writeln!(
            text,
            "\n{} · kernel {} · {} · {} · {:.0} s\n{}",
            self.date, self.kernel, self.cpu, self.peer, self.seconds, self.command
        );
        text
    }
}

/// The kernel's release.
fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The CPU's name and how many there are.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |line: &str| {
        line.split_once(": ")
            .map(|(_, value)| value.trim().to_owned())
    };
    let model = text
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(value);
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{} × {count}",
        model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
    )
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

/// The fleet that the goals of the manager speak of.
const HOSTS: u32 = 10_000;
const CLUSTERS: u32 = 1_000;

#[cfg(test)]
mod tests;
