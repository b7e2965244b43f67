//! `kedge lb`.

use clap::{Args, Subcommand};

/// What gateways offer of tenants' clusters.
#[derive(Clone, Debug, Subcommand)]
pub enum LbCommand {
    /// List the load balancers: where clients come, and how many hosts serve
    List,
    /// Show one with its ports and the hosts behind it
    Show(LbArgs),
    /// Explain why one is served, or why it is not, and what to do
    Explain(LbArgs),
}

/// Which load balancer.
#[derive(Clone, Debug, Args)]
pub struct LbArgs {
    /// Its name, or NAMESPACE/NAME where several have that name
    pub name: String,
}
