//! The flags of `kedge token`.

use std::{ops::RangeInclusive, time::Duration};

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use kedge_core::Span;

/// Enrolment tokens.
#[derive(Clone, Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and write it to stdout; it is shown once
    Create(Box<TokenArgs>),
    /// List the tokens the manager knows
    List,
}

/// A token to be made.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("whom").required(true))]
pub struct TokenArgs {
    /// The tenant whose hosts it admits
    #[arg(long, group = "whom")]
    pub tenant: Option<String>,
    /// The EdgeGateway whose instances it admits
    #[arg(long, value_name = "GATEWAY", group = "whom")]
    pub gateway: Option<String>,
    /// The one host it admits: KIND/NAME, KIND.GROUP/NAME, or NAME of an ElementalHost
    #[arg(long, value_name = "REF", conflicts_with = "gateway")]
    pub host: Option<String>,
    /// Only for the host with this /etc/machine-id
    #[arg(long, value_name = "ID", conflicts_with = "gateway")]
    pub machine_id: Option<String>,
    /// Only for the machine with this serial number
    #[arg(long, value_name = "SERIAL", conflicts_with = "gateway")]
    pub serial: Option<String>,
    /// Only for the machine with a network card of this MAC address
    #[arg(long, value_name = "MAC", conflicts_with = "gateway")]
    pub mac: Option<String>,
    /// Only for hosts whose whole name matches this regular expression
    #[arg(long, value_name = "REGEX", conflicts_with = "gateway")]
    pub hostname: Option<String>,
    /// Label of the records it makes, above the tenant's; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, conflicts_with = "gateway")]
    pub labels: Vec<(String, String)>,
    /// Whether a person approves each host; the tenant's rule when left out
    #[arg(long, value_name = "HOW", conflicts_with = "gateway")]
    pub approval: Option<ApprovalRule>,
    /// How long it may be used: 1s to 30d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = ttl)]
    pub ttl: Span,
    /// How often it may be used
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: u32,
}

/// Who lets a host in whose proof holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ApprovalRule {
    /// The proof alone
    Auto,
    /// A person, with `kedge fleet approve`
    Manual,
}

/// `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let pair = pair.filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("write KEY=VALUE, such as site=store-14")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// How long a token may live; whole seconds, because that is how the manager counts.
fn ttl(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    let length = span.duration();
    if TTL.contains(&length) && length.subsec_nanos() == 0 {
        Ok(span)
    } else {
        Err("a token lives 1s to 30d, in whole seconds".to_owned())
    }
}

const TTL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 86_400);
