//! The control plane of a workload cluster: on each host an etcd member and an API server.
//!
//! Where the hosts are is the caller's: each brings the means to start a process inside. An API
//! server here listens on every address of its host, so hosts are network namespaces.

use std::{
    fmt, fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use kube::Client;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::{
    assets::{Program, ready},
    keys,
    process::Process,
};

/// How a process is started on a host.
pub type Spawn = Box<dyn Fn(Command) -> io::Result<Child>>;

/// A host of the control plane to be.
pub struct Place {
    /// Its name: that of its etcd member and its node.
    pub name: String,
    /// Its address on the LAN.
    pub address: Ipv4Addr,
    /// How a process is started on it.
    pub spawn: Spawn,
}

/// A running control plane.
#[derive(Debug)]
pub struct Workload {
    hosts: Vec<Host>,
    folder: PathBuf,
}

/// One host of a control plane.
pub struct Host {
    api: Option<Process>,
    etcd: Option<Process>,
    place: Place,
    folder: PathBuf,
    shared: PathBuf,
    members: String,
}

impl Workload {
    /// Starts etcd and an API server on every host, or says why they cannot be had. `names` are
    /// further addresses that clients use, such as the VIP.
    ///
    /// They are not ready yet: only somebody in their network can ask them.
    ///
    /// # Panics
    ///
    /// When a file cannot be written or a process cannot be started.
    pub fn start(folder: &Path, places: Vec<Place>, names: &[String]) -> Option<Self> {
        let mut workload = Self::stores(folder, places)?;
        workload.certify(&Authority::new(), names);
        for host in &mut workload.hosts {
            host.start_api();
        }
        Some(workload)
    }

    /// Starts etcd on every host, and no API server yet: each is started once its host is to be
    /// one of the control plane, after [`certify`](Self::certify).
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn stores(folder: &Path, places: Vec<Place>) -> Option<Self> {
        if !ready(&[Program::Etcd, Program::ApiServer]) {
            return None;
        }
        keys::write(folder).unwrap();
        let members: Vec<String> = places
            .iter()
            .map(|place| format!("{}={}", place.name, place.peer()))
            .collect();
        let mut hosts = Vec::new();
        for place in places {
            let own = folder.join(&place.name);
            fs::create_dir_all(&own).unwrap();
            let mut host = Host {
                api: None,
                etcd: None,
                place,
                folder: own,
                shared: folder.to_owned(),
                members: members.join(","),
            };
            host.start_etcd();
            hosts.push(host);
        }
        Some(Self {
            hosts,
            folder: folder.to_owned(),
        })
    }

    /// Gives every API server a certificate for its own addresses and for `names`, and makes it
    /// admit clients that the same authority certified.
    ///
    /// # Panics
    ///
    /// When a file cannot be written.
    pub fn certify(&self, authority: &Authority, names: &[String]) {
        fs::write(self.folder.join("ca.crt"), &authority.certificate).unwrap();
        for host in &self.hosts {
            let mut all = names.to_vec();
            all.extend([host.place.address.to_string(), "127.0.0.1".to_owned()]);
            authority.certify(&host.folder, all);
        }
    }

    /// A host by its name.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn host(&mut self, name: &str) -> &mut Host {
        let mut of_name = self.hosts.iter_mut().filter(|host| host.place.name == name);
        of_name.next().unwrap()
    }

    /// A kubeconfig of the admin that uses one of the addresses.
    #[must_use]
    pub fn kubeconfig(&self, address: &str) -> String {
        self.kubeconfig_at(&format!("{address}:{PORT}"))
    }

    /// A kubeconfig of the admin that uses an address and a port.
    #[must_use]
    pub fn kubeconfig_at(&self, address: &str) -> String {
        let ca = self.folder.join("ca.crt");
        keys::kubeconfig(&format!("https://{address}"), &ca, "admin")
    }
}

impl Host {
    /// Starts the etcd member.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start_etcd(&mut self) {
        let mut command = Command::new(Program::Etcd.path().unwrap());
        command
            .arg(format!("--name={}", self.place.name))
            .arg(format!("--data-dir={}", self.folder.join("etcd").display()))
            .arg(format!("--listen-client-urls={STORE}"))
            .arg(format!("--listen-peer-urls={}", self.place.peer()))
            .arg(format!("--initial-cluster={}", self.members));
        let spawn = &self.place.spawn;
        self.etcd = Some(Process::start_by("etcd", &self.folder, command, spawn).unwrap());
    }

    /// Starts the API server.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start_api(&mut self) {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new(Program::ApiServer.path().unwrap());
        command
            .arg(format!("--etcd-servers={STORE}"))
            .arg(format!("--advertise-address={}", self.place.address))
            .arg(format!("--secure-port={PORT}"))
            .arg(format!("--cert-dir={}", file("certs")))
            .arg(format!("--tls-cert-file={}", file("tls.crt")))
            .arg(format!("--tls-private-key-file={}", file("tls.key")))
            .arg(format!(
                "--client-ca-file={}",
                self.shared.join("ca.crt").display()
            ))
            .args(keys::flags(&self.shared));
        let spawn = &self.place.spawn;
        let api = Process::start_by("kube-apiserver", &self.folder, command, spawn).unwrap();
        self.api = Some(api);
    }

    /// Kills the API server at once.
    pub fn kill_api(&mut self) {
        drop(self.api.take());
    }

    /// Kills the etcd member at once.
    pub fn kill_etcd(&mut self) {
        drop(self.etcd.take());
    }

    /// Its address on the LAN.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.place.address
    }

    /// What its programs printed last.
    #[must_use]
    pub fn last_words(&self) -> String {
        let both = [&self.etcd, &self.api];
        let both = both.into_iter().flatten().map(Process::last_words);
        both.collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = (self.etcd.is_some(), self.api.is_some());
        write!(f, "Host({}, {running:?})", self.place.name)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The store last: a server without one hangs on.
        self.kill_api();
        self.kill_etcd();
    }
}

impl Place {
    fn peer(&self) -> String {
        format!("http://{}:2380", self.address)
    }
}

/// Whether the server that a client talks to says that it is ready.
pub async fn is_ready(client: &Client) -> bool {
    keys::is_ready(client).await
}

/// A client by a kubeconfig.
///
/// # Errors
///
/// Why it cannot be made.
pub async fn connect(kubeconfig: &str) -> Result<Client, String> {
    keys::connect(kubeconfig).await
}

/// What signs the servers' certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// An authority of its own.
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    /// The authority that a control-plane provider made for a cluster: its certificate and key.
    ///
    /// # Panics
    ///
    /// When they cannot be read.
    #[must_use]
    pub fn of_cluster(certificate: &str, key: &str) -> Self {
        let key = KeyPair::from_pem(key).unwrap();
        Self {
            issuer: Issuer::from_ca_cert_pem(certificate, key).unwrap(),
            certificate: certificate.to_owned(),
        }
    }

    fn certify(&self, folder: &Path, names: Vec<String>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
        fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    }
}

const STORE: &str = "http://127.0.0.1:2379";
const PORT: u16 = 6443;
