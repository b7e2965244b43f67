//! Finding the cluster: a kubeconfig file, or the cluster this manager runs in.

use kedge_core::{Code, Fix, Problem};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{Access, Cluster, dial, lease::Terms};
use crate::{Place, pki};

/// Connects to the cluster of a kubeconfig file, or to the one around this process, as a store.
///
/// # Errors
///
/// The file cannot be used, no cluster is around, or it does not answer.
pub async fn open(place: &Place, terms: Terms) -> Result<Cluster, Problem> {
    let (config, name) = configuration(place).await?;
    let client = connected(&config, &name)?;
    let access = Access {
        me: me()?,
        terms,
        name,
        config: Some(config),
    };
    Cluster::connect(client, access).await
}

/// A client of the cluster of a kubeconfig file, or of the one around this process, and what it is
/// called.
///
/// # Errors
///
/// The file cannot be used, no cluster is around, or the place is none.
pub async fn client(place: &Place) -> Result<(Client, String), Problem> {
    let (config, name) = configuration(place).await?;
    Ok((connected(&config, &name)?, name))
}

async fn configuration(place: &Place) -> Result<(Config, String), Problem> {
    match place {
        Place::Kubeconfig(file) => {
            let name = format!("cluster of {}", file.display());
            let told = |error: &dyn std::error::Error| unusable(&name).caused_by(error);
            let read = Kubeconfig::read_from(file).map_err(|error| told(&error))?;
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            Ok((config.map_err(|error| told(&error))?, name))
        }
        Place::InCluster => {
            let name = "cluster around the manager".to_owned();
            let config = Config::incluster();
            Ok((
                config.map_err(|error| unusable(&name).caused_by(&error))?,
                name,
            ))
        }
        Place::Directory(dir) => Err(unusable(&format!("directory {}", dir.display()))
            .evidence("it is a folder, not a cluster")),
    }
}

fn connected(config: &Config, name: &str) -> Result<Client, Problem> {
    dial::client(config).map_err(|error| unusable(name).caused_by(&error))
}

/// A name of this run of this manager: a restarted one waits for its predecessor's lease like any
/// other.
fn me() -> Result<String, Problem> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let host = host.map(|host| host.trim().to_owned()).unwrap_or_default();
    let run = pki::uuid().map_err(|error| {
        Problem::new(Code::SysUnexpected, "the manager cannot name itself").caused_by(&error)
    })?;
    Ok(format!("{host}_{run}"))
}

fn unusable(name: &str) -> Problem {
    let what = format!("the {name} cannot be reached");
    Problem::new(Code::SysUnexpected, what)
        .consequence("the manager does not start")
        .fix(
            Fix::text("name a kubeconfig file that works")
                .command("kedge manager --kubeconfig FILE"),
        )
}
