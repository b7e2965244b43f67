//! The commands of the tunnel.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use kedge_core::Span;

/// Tunnels.
#[derive(Clone, Debug, Subcommand)]
pub enum TunnelCommand {
    /// List the tunnel's peers
    List,
    /// Show one peer
    Show {
        /// Its name
        name: String,
    },
    /// Show which way packets take, and why
    ///
    /// To gateways, and to the other hosts of the mesh: direct, or through a gateway.
    Path {
        /// The peer; left out, all of them
        name: Option<String>,
    },
    /// Ask a peer through the tunnel, and show how long its answers take
    ///
    /// The question is Kedge's own, which gateways and agents of Kedge answer. It needs no ICMP, and
    /// an answer proves that the tunnel carries packets both ways. It exits with 1 if nothing was
    /// answered.
    Ping(PingArgs),
    /// Give this end of the tunnel another key, without a packet lost
    ///
    /// The new key is made here and is accepted beside the old one. The manager tells the other ends, and
    /// their sessions go over to it one by one; the old key goes once nobody needs it, after three minutes
    /// at least. Of the agent, or of the gateway where that is the role that runs here.
    RotateKey(RotateKeyArgs),
    /// Write the packets inside the tunnel as pcapng, for Wireshark and tshark
    ///
    /// It shows what this host gives to the tunnel and gets out of it, in the clear, with the peer's
    /// name beside each packet. It runs as root, in the network namespace of the role, sends nothing
    /// and changes nothing. Packets that the host hands over in one piece (segmentation offload) are
    /// captured in one piece, their checksums unfinished. `kedge tunnel capture | tshark -r -` shows
    /// them as they come.
    Capture(CaptureArgs),
    /// Measure what the way to a peer carries: rate, round trips, loss
    ///
    /// One TCP stream to the peer, one from it, and questions (as of `kedge tunnel ping`) before and
    /// beside them. The peer answers if its configuration allows it (`tunnel.bench_mbps`, 0 by
    /// default), up to that rate, 30 s at a time, one bench at a time, and for half of the time at
    /// most. It loads the line: what else goes through the tunnel has less of it meanwhile.
    Bench(BenchArgs),
}

/// How a key is rotated.
#[derive(Clone, Copy, Debug, Args)]
pub struct RotateKeyArgs {
    /// Wait until every peer uses the new key, for --timeout at most
    #[arg(long)]
    pub wait: bool,
    /// Only say how far it is
    #[arg(long)]
    pub dry_run: bool,
}

/// What is measured.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// The peer's name
    pub name: String,
    /// How long each direction takes: 1s to 30s
    #[arg(short, long, value_name = "DURATION", default_value = "5s", value_parser = bench_time)]
    pub time: Span,
    /// Which way
    #[arg(short, long, value_enum, default_value_t)]
    pub direction: Way,
    /// How fast at most, in Mbit/s; 0 is as fast as the peer allows
    #[arg(short = 'b', long, value_name = "MBPS", default_value_t = 0)]
    pub rate: u32,
}

/// Which way, seen from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// To the peer.
    Up,
    /// From the peer.
    Down,
    /// One after the other.
    #[default]
    Both,
}

/// What is captured, and until when.
#[derive(Clone, Debug, Args)]
pub struct CaptureArgs {
    /// Packets to and from this peer alone
    pub peer: Option<String>,
    /// The file, which is replaced; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub write: PathBuf,
    /// End after so many packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// End after so long: 10ms to 24h; otherwise it goes on until Ctrl-C
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Span>,
    /// How much of each packet is kept: 40 to 262144 bytes
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(40..=262_144))]
    pub snaplen: u32,
}

/// How a peer is asked.
#[derive(Clone, Debug, Args)]
pub struct PingArgs {
    /// The peer's name
    pub name: String,
    /// How many times: 1 to 100000
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub count: u32,
    /// The time between two questions: 10ms to 1h
    #[arg(short, long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub interval: Span,
    /// How long each packet is inside the tunnel, headers included: 80 to 65000 bytes
    #[arg(short, long, value_name = "BYTES", default_value_t = 80, value_parser = clap::value_parser!(u16).range(80..=65_000))]
    pub size: u16,
    /// How long the last answers are waited for: 10ms to 1h
    #[arg(short = 'W', long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    pub wait: Span,
}

fn interval(text: &str) -> Result<Span, String> {
    within(text, &INTERVAL)
}

fn duration(text: &str) -> Result<Span, String> {
    within(text, &DURATION)
}

fn bench_time(text: &str) -> Result<Span, String> {
    within(text, &BENCH)
}

fn within(text: &str, range: &RangeInclusive<Duration>) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    if range.contains(&span.duration()) {
        return Ok(span);
    }
    let [least, most] = [range.start(), range.end()].map(|it| Span::from(*it));
    Err(format!("must be {least} to {most}"))
}

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(1);
const BENCH: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);
const DURATION: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(24);
