//! The demo's site on a lab: the objects a manager reads, the files of every role, their
//! processes and their control sockets.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use kedge_control::local::{
    AgentStatus, FleetEndpoint, FleetEndpointList, FleetHostList, GatewayStatus, ManagerStatus,
    Vip, VipExplanation,
};
use kedge_core::vip::RouterState;
/// An error and its causes in one line.
pub use kedge_core::with_causes as told;
use kedge_host::{Role, Root};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    certificate::Authority,
    client::{self, CallError},
    error::LabError,
    lab::Lab,
    topology::{GATEWAY, HOSTS, MANAGER, host_address},
};

/// A lab with the demo's site on it.
#[derive(Debug)]
pub struct Site {
    lab: Lab,
    authority: Authority,
}

/// What the stand-in API server says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Kubernetes' version.
    pub git_version: String,
    /// The host that answered.
    pub served_by: String,
}

impl Site {
    /// Puts the site on a lab: writes the objects; nothing runs yet.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn new(lab: Lab) -> Result<Self, LabError> {
        let site = Self {
            lab,
            authority: Authority::new()?,
        };
        let directory = site.objects();
        for (name, text) in OBJECTS {
            write(&directory.join(name), text)?;
        }
        for host in HOSTS {
            write(
                &directory.join(format!("{host}.yaml")),
                &HOST_OBJECT.replace("HOST", host),
            )?;
        }
        Ok(site)
    }

    /// The lab below.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The lab below.
    pub fn lab_mut(&mut self) -> &mut Lab {
        &mut self.lab
    }

    /// Takes everything down and says what is left.
    #[must_use]
    pub fn take_down(self) -> Vec<String> {
        self.lab.take_down()
    }

    /// The directory the manager reads.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.lab.root("manager").join("objects")
    }

    /// What a cluster's own file says of its endpoint: nothing, before and after it is filled.
    ///
    /// # Errors
    /// When the file is not as the user wrote it.
    pub fn untouched(&self, cluster: &str) -> Result<PathBuf, LabError> {
        let name = format!("{cluster}.yaml");
        let path = self.objects().join(&name);
        let now = fs::read_to_string(&path).map_err(LabError::file(&path))?;
        let wrote = OBJECTS
            .iter()
            .any(|(known, text)| *known == name && *text == now);
        if wrote {
            return Ok(path);
        }
        let said = format!("changed the user's file {}", path.display());
        Err(LabError::Unexpected {
            who: "the manager".to_owned(),
            said,
        })
    }

    /// The file in which Kedge keeps a cluster's endpoint, below the manager's directory.
    #[must_use]
    pub fn filled_in(cluster: &str) -> PathBuf {
        Path::new("owned/infrastructure.cluster.x-k8s.io/ElementalCluster")
            .join(TENANT)
            .join(cluster)
            .join("kedge-endpoint.yaml")
    }

    /// Starts the manager.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_manager(&mut self) -> Result<(), LabError> {
        let objects = self.objects().display().to_string();
        self.start_manager_with(&["--dir", &objects])
    }

    /// Starts the manager on the cluster of a kubeconfig, in the place of the directory. It may
    /// lead the kubeconfigs of the tenant's clusters through the gateway.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_manager_on(&mut self, kubeconfig: &str) -> Result<(), LabError> {
        let spaces = format!("kubeconfig_namespaces=[{TENANT}]");
        self.start_manager_with(&["--kubeconfig", kubeconfig, "--set", &spaces])
    }

    fn start_manager_with(&mut self, place: &[&str]) -> Result<(), LabError> {
        let text = format!("version: 1\nlisten: {MANAGER}:{MANAGER_PORT}\n");
        write(&self.root("manager").config_file(Role::Manager), &text)?;
        let arguments = ["manager"].into_iter().chain(place.iter().copied());
        self.lab.start_kedge("manager", "manager", arguments)
    }

    /// Starts the gateway; the first time with a token that is made for it.
    ///
    /// # Errors
    /// When no token can be had or it cannot be started.
    pub fn start_gateway(&mut self) -> Result<(), LabError> {
        let root = self.root("gateway");
        if !root.config_file(Role::Gateway).exists() {
            self.write_token(&root, ["--gateway", "gw"])?;
            let text = format!(
                "version: 1\nname: gw-0\n{}{GATEWAY_TUNNEL}",
                manager_section()
            );
            write(&root.config_file(Role::Gateway), &text)?;
        }
        self.lab.start_kedge("gateway", "gateway", ["gateway"])
    }

    /// Starts a host: its stand-in API server and its agent; the first time with a token that is
    /// made for it.
    ///
    /// # Errors
    /// When no token can be had or it cannot be started.
    pub fn start_host(&mut self, host: &str) -> Result<(), LabError> {
        self.start_apiserver(host)?;
        self.start_agent(host)
    }

    /// Starts a host's agent.
    ///
    /// # Errors
    /// As [`start_host`](Self::start_host).
    pub fn start_agent(&mut self, host: &str) -> Result<(), LabError> {
        let root = self.root(host);
        if !root.config_file(Role::Agent).exists() {
            let bound = format!("ElementalHost/{host}");
            self.write_token(&root, ["--tenant", TENANT, "--host", &bound])?;
            let text = format!(
                "version: 1\nnode: {{name: {host}}}\n{}  host_ref:\n    api_group: \
                 infrastructure.cluster.x-k8s.io\n    kind: ElementalHost\n    name: {host}\n",
                manager_section()
            );
            write(&root.config_file(Role::Agent), &text)?;
        }
        self.lab.start_kedge(host, "agent", ["agent"])
    }

    /// Starts whatever runs on a node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_node(&mut self, node: &str) -> Result<(), LabError> {
        match node {
            "manager" => self.start_manager(),
            "gateway" => self.start_gateway(),
            host if HOSTS.contains(&host) => self.start_host(host),
            _ => Ok(()),
        }
    }

    /// The names of the processes that run on a node.
    #[must_use]
    pub fn expected(node: &str) -> &'static [&'static str] {
        match node {
            "manager" => &["manager"],
            "gateway" => &["gateway"],
            host if HOSTS.contains(&host) => &["apiserver", "agent"],
            _ => &[],
        }
    }

    /// An agent at one glance.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn agent(&self, host: &str) -> Result<AgentStatus, CallError> {
        self.read(host, Role::Agent, "/v1/status")
    }

    /// The VIP of cluster `edge` as a host sees it.
    ///
    /// # Errors
    /// When its agent does not answer or has no VIP yet.
    pub fn vip(&self, host: &str) -> Result<Vip, String> {
        let status = self.agent(host).map_err(|err| told(&err))?;
        status
            .vips
            .into_iter()
            .next()
            .ok_or_else(|| format!("{host} has no VIP yet"))
    }

    /// Why the VIP is where it is, in the words of a host.
    ///
    /// # Errors
    /// When its agent does not answer.
    pub fn explain(&self, host: &str, vip: &str) -> Result<VipExplanation, CallError> {
        self.read(host, Role::Agent, &format!("/v1/vips/{vip}/explain"))
    }

    /// The one host that holds the VIP, if it is one; else what each says.
    ///
    /// # Errors
    /// When none or several hold it.
    pub fn owner(&self) -> Result<&'static str, String> {
        let states = HOSTS.map(|host| (host, self.vip(host)));
        let active = |(_, vip): &&(&'static str, Result<Vip, String>)| {
            vip.as_ref()
                .is_ok_and(|vip| vip.state == RouterState::Active)
        };
        let mut owners = states.iter().filter(active).map(|(host, _)| *host);
        match (owners.next(), owners.next()) {
            (Some(owner), None) => Ok(owner),
            _ => Err(states
                .iter()
                .map(|(host, vip)| match vip {
                    Ok(vip) => format!("{host} {:?}: {}", vip.state, vip.because),
                    Err(err) => format!("{host}: {err}"),
                })
                .collect::<Vec<_>>()
                .join("; ")),
        }
    }

    /// The gateway at one glance.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn gateway(&self) -> Result<GatewayStatus, CallError> {
        self.read("gateway", Role::Gateway, "/v1/status")
    }

    /// The manager at one glance.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn manager(&self) -> Result<ManagerStatus, CallError> {
        self.read("manager", Role::Manager, "/v1/status")
    }

    /// The clusters' endpoints as the manager tells them.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn endpoints(&self) -> Result<Vec<FleetEndpoint>, CallError> {
        self.read::<FleetEndpointList>("manager", Role::Manager, "/v1/fleet/endpoints")
            .map(|list| list.items)
    }

    /// One cluster's endpoint.
    ///
    /// # Errors
    /// When the manager does not answer or does not know the cluster.
    pub fn endpoint(&self, cluster: &str) -> Result<FleetEndpoint, String> {
        let all = self.endpoints().map_err(|err| told(&err))?;
        let found = all.into_iter().find(|endpoint| endpoint.cluster == cluster);
        found.ok_or_else(|| format!("the manager does not know cluster {cluster}"))
    }

    /// The hosts as the manager tells them.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn hosts(&self) -> Result<FleetHostList, CallError> {
        self.read("manager", Role::Manager, "/v1/fleet/hosts")
    }

    /// Asks the API's `/version` from the client's namespace, through TLS that is verified.
    ///
    /// # Errors
    /// When nobody answers, or nobody of the site.
    pub fn version(&self, at: SocketAddr) -> Result<Version, String> {
        let roots = self.authority.roots();
        let ask = move || client::https(at, roots, "/version").map_err(|err| told(&err));
        let worker = self.lab.worker("client").map_err(|err| told(&err))?;
        let answer = worker.run(ask).map_err(|err| told(&err))??;
        if !answer.status.is_success() {
            return Err(format!("https://{at}/version answered {}", answer.status));
        }
        serde_json::from_slice(&answer.body).map_err(|err| told(&err))
    }

    fn start_apiserver(&mut self, host: &str) -> Result<(), LabError> {
        let own = host_address(host).unwrap_or(Ipv4Addr::LOCALHOST);
        // What kubeadm's certSANs would list: this host, the addresses the pool may give, the
        // gateway.
        let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), own.into()];
        addresses.extend(POOL.map(|last| IpAddr::from([10, 20, 14, last])));
        addresses.push(GATEWAY.into());
        let files = self
            .authority
            .issue(&self.lab.root(host).join("pki"), host, &addresses)?;
        let (certificate, key) = (
            files.certificate.display().to_string(),
            files.key.display().to_string(),
        );
        let arguments = [
            "apiserver",
            "--name",
            host,
            "--certificate",
            &certificate,
            "--key",
            &key,
        ];
        self.lab.start_role(host, "apiserver", arguments)
    }

    /// Makes a token at the manager's socket, with the command a person would type, and puts it
    /// where the node's configuration expects it.
    fn write_token<const N: usize>(&self, root: &Root, scope: [&str; N]) -> Result<(), LabError> {
        let mut command = Command::new(self.lab.kedge());
        command.args(["token", "create"]).args(scope);
        command
            .arg("--root")
            .arg(self.lab.root("manager"))
            .stdin(Stdio::null());
        let output = command.output().map_err(|source| LabError::Spawn {
            program: self.lab.kedge().display().to_string(),
            node: "manager".to_owned(),
            source,
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let who = "kedge token create".to_owned();
            return Err(LabError::Unexpected {
                who,
                said: format!("failed: {said}"),
            });
        }
        write(
            &root.config_dir().join("token"),
            &String::from_utf8_lossy(&output.stdout),
        )
    }

    fn read<T: DeserializeOwned>(
        &self,
        node: &str,
        role: Role,
        route: &str,
    ) -> Result<T, CallError> {
        client::read(&self.root(node).socket(role), route)
    }

    fn root(&self, node: &str) -> Root {
        Root::new(self.lab.root(node))
    }
}

fn manager_section() -> String {
    format!("manager:\n  url: https://{MANAGER}:{MANAGER_PORT}\n  token_file: /etc/kedge/token\n")
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(LabError::file(directory))?;
    }
    // Tokens are among what is written here.
    let mut file = fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(LabError::file(path))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(LabError::file(path))
}

const OBJECTS: [(&str, &str); 5] = [
    ("tenant.yaml", include_str!("site/objects/tenant.yaml")),
    ("gateway.yaml", include_str!("site/objects/gateway.yaml")),
    ("edge.yaml", include_str!("site/objects/edge.yaml")),
    (
        "edge-tunnel.yaml",
        include_str!("site/objects/edge-tunnel.yaml"),
    ),
    (
        "edge-host.yaml",
        include_str!("site/objects/edge-host.yaml"),
    ),
];
const HOST_OBJECT: &str = include_str!("site/objects/host.yaml");

/// The last bytes of the pool's addresses.
const POOL: [u8; 7] = [10, 14, 15, 16, 17, 18, 19];

const TENANT: &str = "store-014";
const MANAGER_PORT: u16 = 9443;
const GATEWAY_TUNNEL: &str = "tunnel:\n  listen_port: 51820\n  tls_port: 443\n";
