//! `kedge bgp`.

use clap::{Args, Subcommand, ValueEnum};

/// BGP.
#[derive(Clone, Debug, Subcommand)]
pub enum BgpCommand {
    /// List the neighbours, a line each: state, since when, and how many routes they are told of
    Summary,
    /// Show the neighbours, or one of them, with all that is known
    Neighbors {
        /// The neighbour; all of them when left out
        name: Option<String>,
    },
    /// List the routes that neighbours are told of, or that they told of last
    ///
    /// Nothing that neighbours tell of is ever installed: the last 256 routes of each can be looked at.
    Routes(BgpRoutesArgs),
    /// Explain whether a destination is told, to whom, and why
    Explain {
        /// An address, or a prefix such as 192.0.2.10/32
        prefix: String,
    },
}

/// Which routes.
#[derive(Clone, Debug, Args)]
pub struct BgpRoutesArgs {
    /// Those that go out, or those that came in
    pub direction: RouteDirection,
    /// Of one neighbour alone
    #[arg(long, value_name = "NAME")]
    pub neighbor: Option<String>,
}

/// Where routes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RouteDirection {
    /// What neighbours are told of
    Advertised,
    /// What they told of last
    Received,
}
