//! An API server with a store of its own, on loopback or at an address of its own.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::{BuildHasher as _, Hasher as _},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use kube::Client;

use super::{Process, Programs, keys};
use crate::error::LabError;

/// A running API server. Both of its processes end with it.
#[derive(Debug)]
pub struct ApiServer {
    api: Option<Process>,
    etcd: Option<Process>,
    programs: Programs,
    folder: PathBuf,
    at: SocketAddr,
    etcd_ports: (u16, u16),
    flags: Vec<String>,
}

impl ApiServer {
    /// Starts both in a folder, which the caller removes afterwards; the server with further flags.
    ///
    /// # Errors
    /// They do not come up.
    pub async fn start(
        programs: Programs,
        folder: &Path,
        flags: Vec<String>,
    ) -> Result<Self, LabError> {
        Self::start_at(Ipv4Addr::LOCALHOST, programs, folder, flags).await
    }

    /// The same, where clients reach the server at this address.
    ///
    /// # Errors
    /// They do not come up.
    pub async fn start_at(
        address: Ipv4Addr,
        programs: Programs,
        folder: &Path,
        flags: Vec<String>,
    ) -> Result<Self, LabError> {
        let ports = free_ports().map_err(LabError::file("a port of 127.0.0.1"))?;
        let [port, client, peer] = ports;
        let mut server = Self {
            api: None,
            etcd: None,
            programs,
            folder: folder.to_owned(),
            at: (address, port).into(),
            etcd_ports: (client, peer),
            flags,
        };
        keys::write(folder)?;
        server.start_etcd()?;
        server.start_api().await?;
        Ok(server)
    }

    /// Starts the store.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_etcd(&mut self) -> Result<(), LabError> {
        let (client, peer) = self.etcd_ports;
        let mut command = Command::new(&self.programs.etcd);
        command
            .arg("--data-dir")
            .arg(self.data())
            .arg(format!("--listen-client-urls=http://127.0.0.1:{client}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer}"));
        self.etcd = Some(Process::start("etcd", &self.folder, &command)?);
        Ok(())
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn start_api(&mut self) -> Result<(), LabError> {
        let mut command = Command::new(&self.programs.api_server);
        command
            .arg(format!("--etcd-servers={}", self.store()))
            .arg(format!("--bind-address={}", self.at.ip()))
            .arg(format!("--advertise-address={}", self.at.ip()))
            .arg(format!("--secure-port={}", self.at.port()))
            .arg(format!(
                "--cert-dir={}",
                self.folder.join("certs").display()
            ))
            .args(keys::flags_beside(&self.folder, &self.flags))
            .args(&self.flags);
        let mut api = Process::start("kube-apiserver", &self.folder, &command)?;
        let begun = Instant::now();
        while !self.is_ready().await {
            if !api.is_running() || begun.elapsed() > READY {
                return Err(LabError::Late {
                    what: "an API server that is ready".to_owned(),
                    limit: READY,
                    seen: api.last_words(),
                });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.api = Some(api);
        Ok(())
    }

    /// Ends the server alone; its store lives.
    pub fn stop_api(&mut self) {
        if let Some(mut api) = self.api.take() {
            api.stop();
        }
    }

    /// Kills the server at once; its store lives.
    pub fn kill_api(&mut self) {
        drop(self.api.take());
    }

    /// Kills the store at once.
    pub fn kill_etcd(&mut self) {
        drop(self.etcd.take());
    }

    /// The server's process, while it runs.
    #[must_use]
    pub const fn api(&self) -> Option<&Process> {
        self.api.as_ref()
    }

    /// The store's process, while it runs.
    #[must_use]
    pub const fn etcd(&self) -> Option<&Process> {
        self.etcd.as_ref()
    }

    /// Where the store keeps its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    /// Where the store answers.
    #[must_use]
    pub fn store(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_ports.0)
    }

    /// The address it serves at.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.at
    }

    /// A client of somebody with a token.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub async fn client(&self, token: &str) -> Result<Client, String> {
        keys::connect(&self.kubeconfig_text(token)).await
    }

    /// A kubeconfig of somebody with a token, as a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig(&self, token: &str) -> Result<PathBuf, LabError> {
        let path = self.folder.join(format!("{token}.kubeconfig"));
        let text = self.kubeconfig_text(token);
        // Somebody may be reading it.
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(&path, text).map_err(LabError::file(&path))?;
        }
        Ok(path)
    }

    /// A kubeconfig of somebody with a token.
    #[must_use]
    pub fn kubeconfig_text(&self, token: &str) -> String {
        let ca = self.folder.join("certs/apiserver.crt");
        keys::kubeconfig(&format!("https://{}", self.address()), &ca, token)
    }

    async fn is_ready(&self) -> bool {
        // Its certificate is made while it starts.
        match self.client("admin").await {
            Ok(client) => keys::is_ready(&client).await,
            Err(_) => false,
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        // The store last: a server without one hangs on and keeps its port.
        self.kill_api();
        self.kill_etcd();
    }
}

/// Ports of loopback that nobody has right now, and that no connection of anybody gets from the kernel until they are
/// listened on: programs that start at the same time make many.
///
/// # Errors
/// There are not so many.
pub fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::new();
    for port in &mut ports {
        let free = (0..TRIES).find_map(|_| {
            let chance = RandomState::new().build_hasher().finish() % u64::from(PORTS);
            let port = FIRST + u16::try_from(chance).ok()?;
            Some((port, TcpListener::bind(("127.0.0.1", port)).ok()?))
        });
        let (free, listener) = free.ok_or(io::ErrorKind::AddrInUse)?;
        *port = free;
        held.push(listener);
    }
    Ok(ports)
}

/// Below what the kernel gives away by itself (`net.ipv4.ip_local_port_range`), and what Services get on nodes.
const FIRST: u16 = 15_000;
const PORTS: u16 = 15_000;
const TRIES: u32 = 1_000;

const READY: Duration = Duration::from_secs(60);
