//! `kedge k8s`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand};
use kedge_host::enrol::ManagerUrl;

/// Kubernetes.
#[derive(Clone, Debug, Subcommand)]
pub enum K8sCommand {
    /// Run the agent of a cluster: its Services, Ingresses and routes become load balancers at the gateway
    ///
    /// It runs in the tenant's own cluster as a Deployment, or on a host with a kubeconfig. Of several
    /// agents the one that holds the Lease works.
    Run(K8sRunArgs),
    /// List the Services that are offered at the gateway, and why one is not
    Services(K8sPlaceArgs),
    /// List the Ingresses that are offered at the gateway, and why one is not
    Ingresses(K8sClusterArgs),
    /// List the routes of the Gateway API that are offered at the gateway, and why one is not
    Routes(K8sClusterArgs),
    /// Show which agent offers the Services, Ingresses and routes of a cluster
    Status(K8sStatusArgs),
    /// Take back every hook, finalizer and mark of Kedge, so that nothing waits for it any more
    ///
    /// For the end of Kedge on a cluster; the chart does it before it is removed. Works with the
    /// manager dead. Endpoints stay filled, and Kedge's objects and definitions stay.
    Uninstall(UninstallArgs),
}

/// Which Services are ours.
#[derive(Clone, Debug, Args)]
pub struct K8sClassArgs {
    /// The loadBalancerClass of Services that are offered
    #[arg(long, value_name = "CLASS", default_value = "kedge.dev/gateway")]
    pub class: String,
    /// Offer Services of type LoadBalancer without a class as well, unless another answered them
    #[arg(long)]
    pub unclassed: bool,
}

/// Which cluster, and nothing else.
#[derive(Clone, Debug, Args)]
pub struct K8sClusterArgs {
    /// The cluster's kubeconfig file, or `in-cluster`; KUBECONFIG or ~/.kube/config when left out
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Which cluster.
#[derive(Clone, Debug, Args)]
pub struct K8sPlaceArgs {
    /// The cluster's kubeconfig file, or `in-cluster`; KUBECONFIG or ~/.kube/config when left out
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Which Services are ours.
    #[command(flatten)]
    pub class: K8sClassArgs,
}

/// Which agents.
#[derive(Clone, Debug, Args)]
pub struct K8sStatusArgs {
    /// Which cluster.
    #[command(flatten)]
    pub place: K8sPlaceArgs,
    /// The namespace of the agents' Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kedge-system")]
    pub namespace: String,
}

/// How the agent of a cluster runs.
#[derive(Clone, Debug, Args)]
pub struct K8sRunArgs {
    /// Which cluster.
    #[command(flatten)]
    pub place: K8sPlaceArgs,
    /// Where the manager serves the agent API
    #[arg(long, value_name = "URL")]
    pub manager: ManagerUrl,
    /// The name of this cluster's agent at the manager
    #[arg(long, value_name = "NAME", default_value = "kedge-services")]
    pub name: String,
    /// The file with the enrolment token; needed until the agent is enrolled
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The Secret that keeps the agent's identity, for agents whose disk does not stay
    #[arg(long, value_name = "SECRET")]
    pub identity_secret: Option<String>,
    /// The namespace of the agents' Lease and Secret
    #[arg(long, value_name = "NAMESPACE", default_value = "kedge-system")]
    pub namespace: String,
    /// Let more than half of what is offered go although nobody saw its Services being deleted
    #[arg(long)]
    pub confirm_removal: bool,
    /// Answer a kubelet's probes at this address, without TLS: /healthz and /readyz
    #[arg(long, value_name = "ADDRESS")]
    pub health_listen: Option<SocketAddr>,
}

/// What to take back.
#[derive(Clone, Debug, Args)]
pub struct UninstallArgs {
    /// The cluster's kubeconfig file, or `in-cluster`; KUBECONFIG or ~/.kube/config when left out
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A Deployment of managers in kedge-system to scale to none first
    #[arg(long, value_name = "DEPLOYMENT")]
    pub stop: Option<String>,
    /// Only say what would be taken back
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
