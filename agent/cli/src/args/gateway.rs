//! The gateway's commands.

use clap::{Args, Subcommand};

use super::{RoleArgs, RotateKeyArgs};

/// Running a gateway, and orders to one that runs.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct GatewayArgs {
    /// How it runs.
    #[command(flatten)]
    pub role: RoleArgs,
    /// An order to the one that runs here.
    #[command(subcommand)]
    pub order: Option<GatewayOrder>,
}

/// An order to a running gateway.
#[derive(Clone, Debug, Subcommand)]
pub enum GatewayOrder {
    /// Send every host to another gateway, and go on forwarding
    ///
    /// Hosts that have several gateways take another one before they leave this one: no packet is
    /// lost. The order survives restarts, until `kedge gateway undrain`.
    Drain(GatewayDrainArgs),
    /// Let hosts come again
    Undrain,
    /// Give the gateway another key, without a packet lost
    ///
    /// As `kedge tunnel rotate-key`. The old key is kept for every host that does not use the new one,
    /// for 30 days at most.
    RotateKey(RotateKeyArgs),
    /// Show what an Envoy beside the gateway starts with, as JSON
    ///
    /// The gateway writes the same when it starts (/run/kedge/envoy/envoy.json). This is for an Envoy that may start
    /// before it, such as one in the same Pod.
    Bootstrap(BootstrapArgs),
}

/// What becomes of it.
#[derive(Clone, Debug, Args)]
pub struct BootstrapArgs {
    /// By which configuration.
    #[command(flatten)]
    pub role: RoleArgs,
    /// Write it where the gateway does, and say where that is
    #[arg(long)]
    pub write: bool,
}

/// How a gateway is drained.
#[derive(Clone, Debug, Args)]
pub struct GatewayDrainArgs {
    /// Wait until every host has heard it, for --timeout at most
    #[arg(long)]
    pub wait: bool,
    /// Only say how many hosts there are
    #[arg(long)]
    pub dry_run: bool,
}
