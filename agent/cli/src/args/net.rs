//! The commands of the network.

use std::{ops::RangeInclusive, time::Duration};

use clap::{Args, Subcommand};
use kedge_core::Span;

/// The network.
#[derive(Clone, Debug, Subcommand)]
pub enum NetCommand {
    /// Try the way to each gateway and to the manager, and say what is in the way
    ///
    /// Looks up the name, looks for a route, asks through the tunnel (UDP), tells what the way
    /// carries, and connects by TCP, which tells a host that is down from a network that blocks UDP.
    /// Ends with 4 when somebody should look and with 5 when a way does not work.
    Check(NetCheckArgs),
}

/// What is tried.
#[derive(Clone, Debug, Args)]
pub struct NetCheckArgs {
    /// The gateways; all of them, and the manager, when left out
    pub names: Vec<String>,
    /// The TCP port that is tried at gateways
    #[arg(long, value_name = "PORT", default_value_t = 443, value_parser = clap::value_parser!(u16).range(1..))]
    pub tcp_port: u16,
    /// How long each step may take: 100ms to 1m
    #[arg(short = 'W', long, value_name = "DURATION", default_value = "2s", value_parser = patience)]
    pub wait: Span,
}

fn patience(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    if PATIENCE.contains(&span.duration()) {
        Ok(span)
    } else {
        Err("must be 100ms to 1m".to_owned())
    }
}

const PATIENCE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(1);
