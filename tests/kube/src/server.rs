//! An API server with a store of its own, on loopback or at an address of its own.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Instant,
};

use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kedge_agent_lab::kube::{ApiServer, Programs};
use kube::{Api, Client, api::PostParams};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    assets::{Program, ready},
    process::Process,
};

/// A running API server.
#[derive(Debug)]
pub struct Server {
    inner: ApiServer,
    folder: TempDir,
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
        Self::begin(Ipv4Addr::LOCALHOST, flags, false).await
    }

    /// Starts a server that Pods reach at an address of a namespace of the test's own. They get tokens
    /// of their accounts, and the Service `kubernetes` leads to it.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub async fn start_for_pods(address: Ipv4Addr) -> Option<Self> {
        let flags = [
            // Empty: the admission that gives Pods their tokens is not left out.
            "--disable-admission-plugins=",
            "--endpoint-reconciler-type=lease",
            // Nobody here knows the names of nodes.
            "--kubelet-preferred-address-types=InternalIP",
        ];
        Self::begin(address, &flags, false).await
    }

    /// Starts a server that writes down who asked it for what ([`Self::audit`]), and whose admission
    /// asks whether who names an owner may hold it up, as OpenShift's does.
    pub async fn start_audited() -> Option<Self> {
        let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
        Self::begin(Ipv4Addr::LOCALHOST, &[plugin], true).await
    }

    async fn begin(address: Ipv4Addr, flags: &[&str], audited: bool) -> Option<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir().unwrap();
        let mut flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        if audited {
            let policy = folder.path().join("audit.json");
            fs::write(&policy, AUDIT_POLICY).unwrap();
            flags.push(format!("--audit-policy-file={}", policy.display()));
            let log = folder.path().join(AUDIT_LOG);
            flags.push(format!("--audit-log-path={}", log.display()));
        }
        let begun = Instant::now();
        let inner = ApiServer::start_at(address, programs, folder.path(), flags);
        let inner = inner.await.unwrap_or_else(|err| panic!("{err:?}"));
        println!("API server ready: {:.1} s", begun.elapsed().as_secs_f64());
        Some(Self { inner, folder })
    }

    /// Starts the store.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start_etcd(&mut self) {
        self.inner.start_etcd().unwrap();
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub async fn start_api(&mut self) {
        let begun = Instant::now();
        let started = self.inner.start_api().await;
        started.unwrap_or_else(|err| panic!("{err:?}"));
        println!("API server ready: {:.1} s", begun.elapsed().as_secs_f64());
    }

    /// Ends the server alone; its store lives.
    pub fn stop_api(&mut self) {
        self.inner.stop_api();
    }

    /// Kills the server at once; its store lives.
    pub fn kill_api(&mut self) {
        self.inner.kill_api();
    }

    /// Kills the store at once.
    pub fn kill_etcd(&mut self) {
        self.inner.kill_etcd();
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
        let store = self.inner.store();
        let store = store.trim_start_matches("http://");
        let mut stream = TcpStream::connect(store).await.unwrap();
        let length = body.len();
        let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        body.to_owned()
    }

    fn data(&self) -> PathBuf {
        self.inner.data()
    }

    fn etcd(&self) -> &Process {
        self.inner.etcd().unwrap()
    }

    /// The server's process.
    ///
    /// # Panics
    ///
    /// When it does not run.
    #[must_use]
    pub fn api(&self) -> &Process {
        self.inner.api().unwrap()
    }

    /// The address it serves at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.inner.address()
    }

    /// A folder that goes with the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a server that was started for it writes down the requests, a line of JSON each.
    #[must_use]
    pub fn audit(&self) -> PathBuf {
        self.folder.path().join(AUDIT_LOG)
    }

    /// A kubeconfig of a ServiceAccount, with a token as its Pods have.
    ///
    /// # Panics
    ///
    /// When there is no such account.
    pub async fn kubeconfig_of_account(&self, space: &str, name: &str) -> PathBuf {
        let token = self.token_of_account(space, name).await;
        let path = self
            .folder
            .path()
            .join(format!("{space}-{name}.kubeconfig"));
        fs::write(&path, self.inner.kubeconfig_text(&token)).unwrap();
        path
    }

    /// A token of a ServiceAccount, as its Pods have.
    ///
    /// # Panics
    ///
    /// When there is no such account.
    pub async fn token_of_account(&self, space: &str, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await, space);
        let request = TokenRequest::default();
        let how = PostParams::default();
        let made = accounts.create_token_request(name, &how, &request).await;
        made.unwrap().status.unwrap().token
    }

    /// The certificate its clients know it by.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certs/apiserver.crt")
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
        self.inner.client(token).await.unwrap()
    }

    /// A kubeconfig of somebody with a token, as a file.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        self.inner.kubeconfig(token).unwrap()
    }
}

/// The programs of an API server, built if need be. Says why not, and fails where CI requires the
/// tier.
pub(crate) fn programs() -> Option<Programs> {
    ready(&[Program::Etcd, Program::ApiServer]).then(|| Programs {
        etcd: Program::Etcd.path().unwrap(),
        api_server: Program::ApiServer.path().unwrap(),
    })
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
///
/// # Panics
///
/// When there are none.
#[must_use]
pub fn free_ports<const N: usize>() -> [u16; N] {
    kedge_agent_lab::kube::free_ports().unwrap()
}

/// Who asked for what; nothing of what was said. A watch is written down when it begins: it may never
/// end.
const AUDIT_POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}"#;
const AUDIT_LOG: &str = "audit.log";
