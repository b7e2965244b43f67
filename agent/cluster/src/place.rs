//! The cluster this agent is of.

use std::path::PathBuf;

use kedge_core::{Code, Fix, Problem};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Where the cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Around this process.
    InCluster,
    /// In a kubeconfig file.
    Kubeconfig(PathBuf),
}

/// A client of the cluster, and the namespace the agent lives in where it says so.
///
/// # Errors
///
/// The file cannot be used, or no cluster is around.
pub async fn connect(place: &Place) -> Result<(Client, String), Problem> {
    let config = match place {
        Place::InCluster => Config::incluster().map_err(|error| unusable(place, &error))?,
        Place::Kubeconfig(file) => {
            let read = Kubeconfig::read_from(file).map_err(|error| unusable(place, &error))?;
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(read, &options).await;
            config.map_err(|error| unusable(place, &error))?
        }
    };
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|error| unusable(place, &error))?;
    Ok((client, namespace))
}

/// A cluster that does not do what it is asked.
#[must_use]
pub fn unusable(place: &Place, error: &dyn std::error::Error) -> Problem {
    let name = match place {
        Place::InCluster => "the cluster around this agent".to_owned(),
        Place::Kubeconfig(file) => format!("the cluster of {}", file.display()),
    };
    Problem::new(Code::K8sUnreachable, format!("{name} cannot be reached"))
        .caused_by(error)
        .consequence("Services are not offered anew; what is offered stays offered")
        .fix(
            Fix::text("name a kubeconfig file that works")
                .command("kedge k8s services --kubeconfig FILE"),
        )
}

/// Whether a server keeps `ipMode`: beta, and so on by default, since 1.30 (KEP-1860). A version that
/// cannot be read is a newer one.
pub(crate) fn keeps_ip_mode(major: &str, minor: &str) -> bool {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    match (number(major), number(minor)) {
        (Some(1), Some(minor)) => minor >= 30,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_keep_the_mode_since_it_is_on_by_default() {
        assert!(!keeps_ip_mode("1", "29"));
        assert!(keeps_ip_mode("1", "30"));
        assert!(keeps_ip_mode("1", "36+k3s1"));
        assert!(keeps_ip_mode("2", "0"));
        assert!(keeps_ip_mode("", "?"));
    }
}
