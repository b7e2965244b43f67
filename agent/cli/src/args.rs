//! The command line as clap reads it. Help texts here become the man pages and the reference.

mod bgp;
mod console;
mod gateway;
mod k8s;
mod lb;
mod net;
mod start;
mod token;
mod tunnel;
mod upgrade;
mod vip;
mod wg;

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
#[cfg(feature = "lab")]
use kedge_agent_lab::{LabCommand, roles::LabRole};
use kedge_core::Span;
use kedge_host::layers::Override;

pub use self::bgp::{BgpCommand, BgpRoutesArgs, RouteDirection};
pub use self::console::ConsoleArgs;
pub use self::gateway::{BootstrapArgs, GatewayArgs, GatewayDrainArgs, GatewayOrder};
pub use self::k8s::{
    K8sClassArgs, K8sClusterArgs, K8sCommand, K8sPlaceArgs, K8sRunArgs, K8sStatusArgs,
    UninstallArgs,
};
pub use self::lb::{LbArgs, LbCommand};
pub use self::net::{NetCheckArgs, NetCommand};
pub use self::start::{Emit, Flavour, InitArgs, SiteArgs, UpArgs};
pub use self::token::{ApprovalRule, TokenArgs, TokenCommand};
pub use self::tunnel::{BenchArgs, CaptureArgs, PingArgs, RotateKeyArgs, TunnelCommand, Way};
pub use self::upgrade::UpgradeArgs;
pub use self::vip::{
    DrainArgs, FreezeArgs, HistoryArgs, MoveArgs, OnceArgs, ReleaseArgs, RestartArgs, ScanArgs,
    ThawArgs, TimelineArgs, UndrainArgs, VipCommand,
};
pub use self::wg::{NoiseCore, WgArgs};
use crate::{exit::Exit, migrate::MigrateCommand, style::ColorChoice};

/// One address for your control plane, and a way to it: VIPs, tunnels and endpoints for edge
/// Kubernetes.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "kedge",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = Exit::help(),
    max_term_width = 100
)]
pub struct Cli {
    /// Flags every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Folder that Kedge's own folders are below
    #[arg(long, global = true, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// How to write the result
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: Format,
    /// When to use colours: auto, always or never; auto heeds NO_COLOR
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: ColorChoice,
    /// Never use colours
    #[arg(long, global = true, hide = true)]
    pub no_color: bool,
    /// Keep to ASCII: no marks beyond it
    #[arg(long, global = true)]
    pub ascii: bool,
    /// Log less: warnings and errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Log more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// How long to wait for a running role
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s")]
    pub timeout: Span,
    /// Control socket to ask instead of the role's own
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

impl Global {
    /// How long to wait.
    #[must_use]
    pub const fn limit(&self) -> Duration {
        self.timeout.duration()
    }
}

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people
    #[default]
    Table,
    /// More columns
    Wide,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
    /// One JSON object per line, one line per item
    Jsonl,
    /// Names only, one per line
    Name,
}

/// What `kedge` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the edge agent in the foreground
    ///
    /// Holds VIPs on the LAN, keeps the tunnel to the gateways and reports to the manager, as
    /// /etc/kedge/agent.yaml says. This is what the unit kedge-agent starts.
    Agent(RoleArgs),
    /// Run a gateway in the foreground
    ///
    /// Ends the tunnels of the hosts and serves the listeners the manager hands out, as
    /// /etc/kedge/gateway.yaml says.
    Gateway(GatewayArgs),
    /// Run the manager in the foreground
    ///
    /// Enrols hosts and gateways, fills blank control-plane endpoints and serves the agent API,
    /// over a directory of Cluster API style YAML.
    Manager(ManagerArgs),
    /// Have a VIP on this host, with one command
    ///
    /// Runs an agent until Ctrl-C, which gives the VIP away; with --persist it is written down, and the
    /// system runs the agent. On each further host the same command makes it stand by.
    Up(UpArgs),
    /// Write a first configuration, for this host or for those that are to come
    ///
    /// Asks nothing. With --emit it comes as user data of cloud-init, Ignition, Elemental, Kairos or Talos.
    Init(InitArgs),
    /// Show what a running role does and what is wrong with it
    ///
    /// Ends with 4 when there are warnings and with 5 when there are errors.
    Status(StatusArgs),
    /// Show what this host does on a console that nobody logs in at, anew each second
    ///
    /// One word says whether somebody is to be called: OK, CHECK or CALL. The unit kedge-console@tty1 runs it.
    Console(ConsoleArgs),
    /// Look at this host: who configures its links, whether its clock is right, who waits for its VIPs
    ///
    /// Asks the host's own services over D-Bus, and works with the agent dead.
    Doctor,
    /// Look at VIPs, move them and hold them still
    #[command(subcommand)]
    Vip(VipCommand),
    /// Give every VIP of this host away, and hold one only while no other host does
    ///
    /// The order survives restarts of the agent and of the host, until `kedge undrain`.
    Drain(DrainArgs),
    /// Let a drained host take part again
    Undrain(UndrainArgs),
    /// Go on as the agent's executable is now, with every VIP staying where it is
    ///
    /// For after an upgrade, or a change that a reload does not take up. The executable checks the
    /// configuration first; if it refuses, the agent goes on as it is. Its guardian keeps the VIPs for
    /// the moment in between.
    Restart(RestartArgs),
    /// Put another release in the place of the one that is installed, with every VIP staying where it is
    ///
    /// Verifies the release's signature and checksums, installs what fits this host (files of the archive,
    /// deb, rpm or system extension, as Kedge is installed here) and restarts the agent, whose guardian
    /// keeps the VIPs meanwhile. If the new agent does not become ready, the version before is put back.
    Upgrade(UpgradeArgs),
    /// Look at the paths to peers
    #[command(subcommand)]
    Bfd(BfdCommand),
    /// Look at BGP neighbours, and at what they are told
    #[command(subcommand)]
    Bgp(BgpCommand),
    /// Look at tunnels
    #[command(subcommand)]
    Tunnel(TunnelCommand),
    /// Try what the network lets through
    #[command(subcommand)]
    Net(NetCommand),
    /// Make a plain WireGuard device, which wg and wg-quick configure
    ///
    /// For hosts whose kernel has no WireGuard, and in place of wireguard-go: called `kedge-wg` it
    /// does for wg-quick what that does (WG_QUICK_USERSPACE_IMPLEMENTATION=kedge-wg). Returns when the
    /// device is there; deleting the interface or its socket ends it. It heeds LOG_LEVEL (verbose,
    /// error or silent), WG_TUN_FD, WG_UAPI_FD and WG_PROCESS_FOREGROUND.
    Wg(WgArgs),
    /// Look at the whole fleet, at a manager
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Look at what gateways offer of tenants' clusters, at a manager
    #[command(subcommand)]
    Lb(LbCommand),
    /// Look after a manager's traces on a Kubernetes cluster
    #[command(subcommand)]
    K8s(K8sCommand),
    /// Check and show configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Turn another tool's configuration into the agent's
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Make and list enrolment tokens, at a manager
    #[command(subcommand)]
    Token(TokenCommand),
    /// Explain an error code, such as KEDGE-VIP-0007; lists them all without one
    Explain(ExplainArgs),
    /// See Kedge at work on this machine alone, in network namespaces
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(LabCommand),
    /// Show the version
    Version,
    /// Write completions for a shell to stdout
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder; it is made if it is not there
        dir: PathBuf,
    },
    /// A process of the lab
    #[cfg(feature = "lab")]
    #[command(subcommand, hide = true)]
    LabRole(LabRole),
}

/// Flags of a role that runs from files.
#[derive(Clone, Debug, Args)]
pub struct RoleArgs {
    /// Set one key of the configuration, above files and environment
    #[arg(long, value_name = "KEY=VALUE", value_parser = Override::set)]
    pub set: Vec<Override>,
}

/// Flags of the manager.
#[derive(Clone, Debug, Args)]
pub struct ManagerArgs {
    /// Folder with the objects; Kedge writes only DIR/owned and DIR/status
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep the objects on the cluster of this kubeconfig file, or `in-cluster`
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    pub kubeconfig: Option<PathBuf>,
    /// Set one key of the configuration, above files and environment
    #[arg(long, value_name = "KEY=VALUE", value_parser = Override::set)]
    pub set: Vec<Override>,
}

/// Which role to ask.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// The role; the first that runs here when left out
    pub role: Option<RoleName>,
}

/// A role by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// The edge agent
    Agent,
    /// A gateway
    Gateway,
    /// The manager
    Manager,
}

impl From<RoleName> for kedge_host::Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Agent => Self::Agent,
            RoleName::Gateway => Self::Gateway,
            RoleName::Manager => Self::Manager,
        }
    }
}

/// BFD.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum BfdCommand {
    /// List the BFD sessions of this host, or of this gateway with its hosts, and why each is in its state
    Sessions,
}

/// The fleet.
#[derive(Clone, Debug, Subcommand)]
pub enum FleetCommand {
    /// List the control-plane endpoints, who filled them and why
    Endpoints,
    /// List the enrolled hosts
    Hosts,
    /// Let a host in that waits for approval
    ///
    /// What is approved is a key, not a name: compare the hash with the one that `kedge status`
    /// shows on the host. Without --key it is shown and asked for.
    Approve(ApproveArgs),
    /// Put another certificate authority in force, with the last one trusted beside it for a while
    ///
    /// Hosts go on, learn of the new one at once and renew onto it; tokens that were made before
    /// stay good. Whoever was away for the whole overlap has to enrol again.
    RotateCa(RotateArgs),
}

/// How the authority is rotated.
#[derive(Clone, Debug, Args)]
pub struct RotateArgs {
    /// How long both are trusted: 60s to 365d. Shorter than 31d, some may be locked out
    #[arg(long, value_name = "DURATION", default_value = "31d", value_parser = overlap)]
    pub overlap: Span,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// How long two authorities may overlap; whole seconds, because that is how the manager counts.
fn overlap(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    let length = span.duration();
    if OVERLAP.contains(&length) && length.subsec_nanos() == 0 {
        Ok(span)
    } else {
        Err("authorities overlap 60s to 365d, in whole seconds".to_owned())
    }
}

const OVERLAP: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(365 * 86_400);

/// Whom to let in.
#[derive(Clone, Debug, Args)]
pub struct ApproveArgs {
    /// The host: NAME, or NAMESPACE/NAME where hosts of that name wait in several
    pub name: String,
    /// The hash of its key, as the host shows it
    #[arg(long, value_name = "HASH")]
    pub key: Option<String>,
    /// Only say which key would be approved
    #[arg(long)]
    pub dry_run: bool,
}

/// Configuration.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration; works without a running role
    Check {
        /// One file alone; the layers of the role when left out
        file: Option<PathBuf>,
        /// The role; told from the file's name when left out
        #[arg(long)]
        role: Option<RoleName>,
    },
    /// Show the merged configuration with its defaults
    View {
        /// Say who set each value
        #[arg(long)]
        origins: bool,
        /// Ask the running role for what is in force instead of reading the files
        #[arg(long)]
        running: bool,
        /// The role
        #[arg(long, default_value = "agent")]
        role: RoleName,
    },
    /// Write the JSON Schema of a role's file, for editors
    Schema {
        /// The role
        #[arg(long, default_value = "agent")]
        role: RoleName,
    },
    /// Write a file with every default, as a start
    Default {
        /// The role
        #[arg(long, default_value = "agent")]
        role: RoleName,
    },
}

/// What to explain.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// The code; case and the prefix KEDGE- do not matter
    pub code: Option<String>,
}
