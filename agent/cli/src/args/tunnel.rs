//! The commands of the tunnel.

use std::{ops::RangeInclusive, time::Duration};

use clap::{Args, Subcommand};
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
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    if INTERVAL.contains(&span.duration()) {
        Ok(span)
    } else {
        Err("must be 10ms to 1h".to_owned())
    }
}

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(1);
