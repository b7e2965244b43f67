//! The flags of `kedge init` and `kedge up`.

use std::{net::IpAddr, path::PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use ipnet::IpNet;
use kedge_core::Name;

/// What a first configuration says.
#[derive(Clone, Debug, Args)]
pub struct SiteArgs {
    /// Address of the VIP; again for one of the other family that goes along
    #[arg(long = "vip", value_name = "ADDRESS", value_parser = address)]
    pub vips: Vec<IpAddr>,
    /// Name of the VIP
    #[arg(long, value_name = "NAME", default_value = "api")]
    pub name: Name,
    /// Its interface; left out it is the one whose prefix holds the address
    #[arg(long, value_name = "IFNAME")]
    pub interface: Option<String>,
    /// What decides whether this host is fit to hold it
    #[arg(long, value_name = "HOW")]
    pub health: Option<Health>,
}

/// What decides whether a host is fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Health {
    /// The API server on this host
    Auto,
    /// Nothing
    None,
}

impl Health {
    /// As it stands in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
        }
    }
}

/// `kedge init`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("given").required(true).multiple(true).args(["vips", "manager", "file"]))]
pub struct InitArgs {
    /// What it says.
    #[command(flatten)]
    pub site: SiteArgs,
    /// The manager to enrol at
    #[arg(long, value_name = "URL")]
    pub manager: Option<String>,
    /// Where the host finds its enrolment token; the token itself goes into no user data
    #[arg(long, value_name = "PATH", requires = "manager")]
    pub token_file: Option<PathBuf>,
    /// The pin of the manager's authority, for hosts that enrol without a token
    #[arg(long, value_name = "PIN", requires = "manager")]
    pub ca_pin: Option<String>,
    /// Take the configuration from this file instead of from flags
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["vips", "interface", "health", "manager"])]
    pub file: Option<PathBuf>,
    /// Write user data to stdout instead of the configuration to the disk
    #[arg(long, value_name = "KIND")]
    pub emit: Option<Emit>,
    /// Tell this Kubernetes of the VIP in the same user data
    #[arg(long = "for", value_name = "FLAVOUR", requires = "emit")]
    pub flavour: Option<Flavour>,
    /// Overwrite a configuration that is there
    #[arg(long)]
    pub force: bool,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
}

/// Who brings the configuration to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// cloud-init user data
    CloudInit,
    /// Butane, for Ignition: Fedora CoreOS, Flatcar, Elemental 3
    Butane,
    /// yip, a cloud-config of Elemental and Kairos
    Yip,
    /// An ExtensionServiceConfig of Talos
    Talos,
    /// A systemd credential, for SMBIOS or the kernel's command line
    Credential,
}

/// A Kubernetes that is told of the VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Flavour {
    /// kubeadm: the control-plane endpoint, for `kubeadm init --config`
    Kubeadm,
    /// k3s: a name in the certificate
    K3s,
    /// RKE2: a name in the certificate
    Rke2,
}

/// `kedge up`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["vips"]))]
pub struct UpArgs {
    /// What it says.
    #[command(flatten)]
    pub site: SiteArgs,
    /// Keep it: written to /etc/kedge/agent.yaml.d/90-up.yaml, and the agent's unit enabled and started
    #[arg(long)]
    pub persist: bool,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// An address, also with the prefix length people like to add: the link's own counts.
fn address(text: &str) -> Result<IpAddr, String> {
    let net = || text.parse::<IpNet>().map(|net| net.addr());
    text.parse::<IpAddr>()
        .or_else(|_| net())
        .map_err(|_| "write an address, such as 192.168.1.50".to_owned())
}
