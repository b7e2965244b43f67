//! The flags of `kedge upgrade`.

use std::path::PathBuf;

use clap::Args;
use semver::Version;

/// What to install.
#[derive(Clone, Debug, Args)]
pub struct UpgradeArgs {
    /// Where the release is: a folder, one of its packages, or the URL of either
    ///
    /// Beside the packages are SHA256SUMS and its signature, SHA256SUMS.minisig.
    #[arg(value_name = "RELEASE", required_unless_present = "rollback")]
    pub release: Option<String>,
    /// The version to install; the newest there when left out
    #[arg(long, value_name = "VERSION")]
    pub to: Option<Version>,
    /// Trust this public key of minisign's and no other, in place of the keys in /etc/kedge/keys and
    /// /usr/lib/kedge/keys
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Install a version that is older than the one that is installed
    #[arg(long)]
    pub allow_downgrade: bool,
    /// Go back to the version that the last upgrade replaced
    #[arg(long, conflicts_with_all = ["release", "to", "key", "allow_downgrade"])]
    pub rollback: bool,
    /// Only say what would be done; the release is verified all the same
    #[arg(long)]
    pub dry_run: bool,
    /// Go on where no guardian keeps the VIPs: they are handed over to other hosts
    #[arg(long)]
    pub yes: bool,
}
