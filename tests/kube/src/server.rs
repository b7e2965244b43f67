//! An API server with a store of its own, on loopback.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{Api, Client, api::PostParams};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    assets::{Program, ready},
    keys,
    process::Process,
};

/// A running API server.
#[derive(Debug)]
pub struct Server {
    api: Option<Process>,
    etcd: Option<Process>,
    folder: TempDir,
    port: u16,
    etcd_ports: (u16, u16),
    flags: Vec<String>,
}

impl Server {
    /// Starts a server, or says why it cannot be had.
    pub async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    /// Starts a server with further flags.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub async fn start_with(flags: &[&str]) -> Option<Self> {
        Self::begin(flags, false).await
    }

    /// Starts a server that writes down who asked it for what ([`Self::audit`]).
    pub async fn start_audited() -> Option<Self> {
        Self::begin(&[], true).await
    }

    async fn begin(flags: &[&str], audited: bool) -> Option<Self> {
        if !ready(&[Program::Etcd, Program::ApiServer]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let [port, client, peer] = free_ports();
        let mut server = Self {
            api: None,
            etcd: None,
            folder,
            port,
            etcd_ports: (client, peer),
            flags: flags.iter().map(ToString::to_string).collect(),
        };
        keys::write(server.folder.path());
        if audited {
            let policy = server.folder.path().join("audit.json");
            fs::write(&policy, AUDIT_POLICY).unwrap();
            let flags = [
                format!("--audit-policy-file={}", policy.display()),
                format!("--audit-log-path={}", server.audit().display()),
            ];
            server.flags.extend(flags);
        }
        server.start_etcd();
        server.start_api().await;
        Some(server)
    }

    /// Starts the store.
    pub fn start_etcd(&mut self) {
        let (client, peer) = self.etcd_ports;
        let mut command = Command::new(Program::Etcd.path().unwrap());
        command
            .arg("--data-dir")
            .arg(self.data())
            .arg(format!("--listen-client-urls=http://127.0.0.1:{client}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{peer}"));
        self.etcd = Some(Process::start("etcd", self.folder.path(), command));
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub async fn start_api(&mut self) {
        let folder = self.folder.path();
        let mut command = Command::new(Program::ApiServer.path().unwrap());
        command
            .arg(format!(
                "--etcd-servers=http://127.0.0.1:{}",
                self.etcd_ports.0
            ))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(format!("--secure-port={}", self.port))
            .arg(format!("--cert-dir={}", folder.join("certs").display()))
            .args(keys::flags(folder))
            .args(&self.flags);
        let mut api = Process::start("kube-apiserver", folder, command);
        let begun = Instant::now();
        while !self.is_ready().await {
            assert!(
                api.is_running() && begun.elapsed() < Duration::from_secs(60),
                "{}",
                api.last_words()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("API server ready: {:.1} s", begun.elapsed().as_secs_f64());
        self.api = Some(api);
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

    /// Keeps what the store holds, for [`restore`](Self::restore).
    ///
    /// # Panics
    ///
    /// When it cannot be copied.
    pub fn backup(&mut self) {
        // A copy of what is being written would be torn.
        self.etcd().signal(Signal::STOP);
        copy(&self.data(), &self.folder.path().join("backup"));
        self.etcd().signal(Signal::CONT);
    }

    /// Takes the store back to what was kept, and starts both again. Revisions go back as well.
    ///
    /// # Panics
    ///
    /// When nothing was kept, or they do not come up.
    pub async fn restore(&mut self) {
        self.kill_api();
        self.kill_etcd();
        fs::remove_dir_all(self.data()).unwrap();
        copy(&self.folder.path().join("backup"), &self.data());
        self.start_etcd();
        self.start_api().await;
    }

    /// Has the store forget its history: what somebody saw before is not told again.
    ///
    /// # Panics
    ///
    /// When it does not answer.
    pub async fn compact(&self) {
        let revision = self.ask_etcd("/v3/kv/range", r#"{"key": "AA=="}"#).await;
        let revision: serde_json::Value = serde_json::from_str(&revision).unwrap();
        let revision = &revision["header"]["revision"];
        let wish = format!("{{\"revision\": {revision}, \"physical\": true}}");
        let answer = self.ask_etcd("/v3/kv/compaction", &wish).await;
        println!("compacted at {revision}: {answer}");
    }

    async fn ask_etcd(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.etcd_ports.0))
            .await
            .unwrap();
        let length = body.len();
        let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        body.to_owned()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("etcd")
    }

    fn etcd(&self) -> &Process {
        self.etcd.as_ref().unwrap()
    }

    /// The server's process.
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[must_use]
    pub fn api(&self) -> &Process {
        self.api.as_ref().unwrap()
    }

    /// The address it serves at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// A folder that goes with the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a server that was started for it writes down the requests, a line of JSON each.
    #[must_use]
    pub fn audit(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// A kubeconfig of a ServiceAccount, with a token as its Pods have.
    ///
    /// # Panics
    ///
    /// When there is no such account.
    pub async fn kubeconfig_of_account(&self, space: &str, name: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await, space);
        let request = TokenRequest::default();
        let how = PostParams::default();
        let made = accounts.create_token_request(name, &how, &request).await;
        let token = made.unwrap().status.unwrap().token;
        let path = self
            .folder
            .path()
            .join(format!("{space}-{name}.kubeconfig"));
        fs::write(&path, self.kubeconfig_text(&token)).unwrap();
        path
    }

    /// A client of the admin.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn client(&self) -> Client {
        self.client_of("admin").await
    }

    /// A client of somebody with a token.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn client_of(&self, token: &str) -> Client {
        self.try_client(token).await.unwrap()
    }

    /// A kubeconfig of somebody with a token, as a file.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        let path = self.folder.path().join(format!("{token}.kubeconfig"));
        let text = self.kubeconfig_text(token);
        // Somebody may be reading it.
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            fs::write(&path, text).unwrap();
        }
        path
    }

    fn kubeconfig_text(&self, token: &str) -> String {
        let ca = self.folder.path().join("certs/apiserver.crt");
        keys::kubeconfig(&format!("https://{}", self.address()), &ca, token)
    }

    async fn try_client(&self, token: &str) -> Result<Client, String> {
        keys::connect(&self.kubeconfig_text(token)).await
    }

    async fn is_ready(&self) -> bool {
        // Its certificate is made while it starts.
        match self.try_client("admin").await {
            Ok(client) => keys::is_ready(&client).await,
            Err(_) => false,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The store last: a server without one hangs on and keeps its port.
        drop(self.api.take());
        drop(self.etcd.take());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Ports of loopback that nobody has right now.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    held.each_ref().map(|one| one.local_addr().unwrap().port())
}

/// Who asked for what; nothing of what was said.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [{"level": "Metadata"}]}"#;
