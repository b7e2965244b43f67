//! The flags of `kedge migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Whose configuration is turned into the agent's.
#[derive(Clone, Debug, Subcommand)]
pub enum MigrateCommand {
    /// Turn a keepalived.conf into a configuration of the agent
    ///
    /// Follows `include`, parameters and the lines of one host (`@name`). Every instance of VRRP
    /// becomes a VIP; what has no equivalent is told line by line, with what follows from it.
    Keepalived(KeepalivedArgs),
    /// Turn a manifest of kube-vip (static Pod or DaemonSet) into a configuration of the agent
    ///
    /// Reads variables and flags of every container of kube-vip in the file, which may hold
    /// several documents.
    KubeVip(MigrateArgs),
    /// Turn a file of wg-quick into the tunnel of a configuration of the agent
    ///
    /// Addresses, port, peers, endpoints, prefixes and keepalives are taken over. Keys never are: the
    /// agent has one of its own. Commands, DNS and policy routing are told line by line.
    WgQuick(MigrateArgs),
}

/// What to read and where to write.
#[derive(Clone, Debug, Args)]
pub struct MigrateArgs {
    /// The file to read; `-` for stdin
    pub file: PathBuf,
    /// Write the configuration into this file instead of to stdout
    #[arg(long, value_name = "PATH")]
    pub write: Option<PathBuf>,
    /// Overwrite the file of --write
    #[arg(long, requires = "write")]
    pub force: bool,
    /// End with 4 unless everything was taken over as it is
    #[arg(long)]
    pub strict: bool,
}

/// The same for keepalived.
#[derive(Clone, Debug, Args)]
pub struct KeepalivedArgs {
    /// What to read and where to write.
    #[command(flatten)]
    pub migrate: MigrateArgs,
    /// Whose `@` lines count, as keepalived's own flag; this host's name when left out
    #[arg(long, value_name = "ID")]
    pub config_id: Option<String>,
}
