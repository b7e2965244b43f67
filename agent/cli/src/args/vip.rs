//! The command line of VIPs.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use kedge_core::Span;

/// VIPs.
#[derive(Clone, Debug, Subcommand)]
pub enum VipCommand {
    /// List the VIPs of this host
    List,
    /// Show one VIP
    Show {
        /// Its name
        name: String,
    },
    /// Wait until this host has its VIPs or stands by for them, before something needs them
    ///
    /// Ends with 0 as soon as every VIP (or the one that is named) is Active or Backup here, and
    /// with 7 when --timeout passes. An agent that does not run yet is waited for as well.
    Wait {
        /// One VIP alone
        name: Option<String>,
    },
    /// Say why a VIP is where it is, and what would move it
    Explain {
        /// Its name
        name: String,
    },
    /// Give a VIP that this host holds to another host, and stay its Backup
    ///
    /// Nothing is lost on the way: this host answers until the other does. If no other host takes
    /// it, it is held here again, and the command ends with 1.
    Release(ReleaseArgs),
    /// Bring a VIP to this host, or send one that is here to another
    ///
    /// A Backup takes it from an Active of a lower priority, once, whatever `preempt` says. From a
    /// better one it cannot: run `kedge vip release` there. A VIP that is here goes to the HOST that
    /// is named, whatever its priority, if the hosts are linked (`peer_link` in the configuration).
    Move(MoveArgs),
    /// Let nothing but a fault move a VIP to or from this host, for a while
    ///
    /// Health, weights, preemption and orders do not act; a lost link, a conflict and a dead Active
    /// do. It survives a restart of the agent and ends with the boot.
    Freeze(FreezeArgs),
    /// End a freeze before its time
    Thaw(ThawArgs),
    /// Show what happened to the VIPs of this host, newest last, over restarts of the agent
    History(HistoryArgs),
    /// Show the last failover stamp by stamp, of this host or merged with others'
    ///
    /// For several hosts write each one's with `-o json` into a file and name the files with
    /// --merge: clocks are compared by the advertisements that both sides recorded.
    Timeline(TimelineArgs),
    /// Listen for every virtual router on the LAN; works with the agent dead
    ///
    /// Needs root. Ends with 8 when somebody who is no member uses a VRID of ours, and names him.
    Scan(ScanArgs),
}

/// An order that acts at once.
#[derive(Clone, Debug, Args)]
pub struct OnceArgs {
    /// The VIP's name
    pub name: String,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// A release.
#[derive(Clone, Debug, Args)]
pub struct ReleaseArgs {
    /// The VIP's name
    #[arg(required_unless_present = "all")]
    pub name: Option<String>,
    /// Every VIP that this host holds
    #[arg(long, conflicts_with = "name")]
    pub all: bool,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// A move.
#[derive(Clone, Debug, Args)]
pub struct MoveArgs {
    /// What is ordered
    #[command(flatten)]
    pub once: OnceArgs,
    /// The host it is to, by name or address: this one, or where hosts are linked (`peer_link`) one
    /// that stands by for a VIP held here
    pub host: Option<String>,
}

/// A freeze.
#[derive(Clone, Debug, Args)]
pub struct FreezeArgs {
    /// The VIP's name
    pub name: String,
    /// For how long: 1s to 24h
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = freeze)]
    pub span: Span,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// The end of a freeze.
#[derive(Clone, Debug, Args)]
pub struct ThawArgs {
    /// The VIP's name
    pub name: String,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// What of the history.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// One VIP alone
    pub name: Option<String>,
    /// Only what happened since so long ago
    #[arg(long, value_name = "DURATION")]
    pub since: Option<Span>,
    /// Only the last so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub last: Option<u16>,
}

/// Which failover.
#[derive(Clone, Debug, Args)]
pub struct TimelineArgs {
    /// One VIP alone; the one that moved last when left out
    pub name: Option<String>,
    /// The last failover, which is what is shown anyway
    #[arg(long)]
    pub last: bool,
    /// A timeline of another host as `-o json` wrote it; may be repeated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub merge: Vec<PathBuf>,
}

/// Where to listen.
#[derive(Clone, Debug, Args)]
pub struct ScanArgs {
    /// The interface; every one that is up when left out
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// For how long: 100ms to 5m. An advertisement may come every 40 seconds only
    #[arg(long = "for", value_name = "DURATION", default_value = "3s", value_parser = listening)]
    pub span: Span,
}

/// Draining, and the end of it.
#[derive(Clone, Debug, Args)]
pub struct DrainArgs {
    /// Wait until every VIP has left, or nobody took it
    #[arg(long)]
    pub wait: bool,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// A restart in place.
#[derive(Clone, Debug, Args)]
pub struct RestartArgs {
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask, where no guardian keeps the VIPs
    #[arg(long)]
    pub yes: bool,
}

/// The end of a drain.
#[derive(Clone, Debug, Args)]
pub struct UndrainArgs {
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

fn freeze(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    let length = span.duration();
    if FREEZE.contains(&length) && length.subsec_nanos() == 0 {
        Ok(span)
    } else {
        Err("a freeze lasts 1s to 24h, in whole seconds".to_owned())
    }
}

fn listening(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    if LISTENING.contains(&span.duration()) {
        Ok(span)
    } else {
        Err("one listens 100ms to 5m".to_owned())
    }
}

const FREEZE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const LISTENING: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(300);
