//! A manager of somebody else: a program that watches the API server and serves webhooks.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    assets::Program,
    manifests,
    process::Process,
    server::{Server, free_ports},
};

/// Where a manager serves its webhooks, and the certificate it does so with.
///
/// The ports are chosen before the manager runs: definitions that name it come first.
#[derive(Debug)]
pub struct Webhooks {
    name: &'static str,
    folder: PathBuf,
    certificate: String,
    port: u16,
    health: u16,
}

impl Webhooks {
    /// Makes the certificate and chooses the ports.
    ///
    /// # Panics
    ///
    /// When the certificate cannot be made or written.
    #[must_use]
    pub fn new(program: Program, folder: &Path) -> Self {
        let folder = folder.join(program.file());
        fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
        fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let [port, health] = free_ports();
        Self {
            name: program.file(),
            folder,
            certificate: STANDARD.encode(made.cert.pem()),
            port,
            health,
        }
    }

    /// Points a definition's conversion here.
    pub fn convert(&self, definition: &mut Value) {
        definition["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": self.client("/convert"),
            },
        });
    }

    /// The admission webhooks of a manifest, named after the manager and pointed here.
    ///
    /// # Panics
    ///
    /// When the manifest cannot be read.
    #[must_use]
    pub fn admission(&self, manifest: &Path) -> Vec<Value> {
        let mut all = manifests::read(manifest);
        for configuration in &mut all {
            let name = configuration["metadata"]["name"].as_str().unwrap();
            configuration["metadata"]["name"] = json!(format!("{}-{name}", self.name));
            for webhook in configuration["webhooks"].as_array_mut().unwrap() {
                let path = webhook["clientConfig"]["service"]["path"].clone();
                webhook["clientConfig"] = self.client(path.as_str().unwrap());
            }
        }
        all
    }

    fn client(&self, path: &str) -> Value {
        json!({
            "url": format!("https://127.0.0.1:{}{path}", self.port),
            "caBundle": self.certificate,
        })
    }
}

/// A running manager.
#[derive(Debug)]
pub struct Manager {
    process: Process,
    health: u16,
}

impl Manager {
    /// Starts the program as the admin.
    #[must_use]
    pub fn start(server: &Server, program: Program, webhooks: &Webhooks, flags: &[String]) -> Self {
        let mut command = Command::new(program.path().unwrap());
        command
            .arg(format!(
                "--kubeconfig={}",
                server.kubeconfig("admin").display()
            ))
            .arg(format!("--webhook-port={}", webhooks.port))
            .arg(format!("--webhook-cert-dir={}", webhooks.folder.display()))
            .arg("--leader-elect=false")
            .args(flags)
            .env("POD_NAMESPACE", "default")
            .env("POD_NAME", program.file())
            .env("POD_UID", program.file());
        Self {
            process: Process::start(program.file(), server.folder(), &command).unwrap(),
            health: webhooks.health,
        }
    }

    /// Waits until it says that it is ready.
    ///
    /// # Panics
    ///
    /// When it ends or does not become ready.
    pub async fn ready(&mut self) {
        let begun = Instant::now();
        while !says_ready(self.health).await {
            assert!(
                self.process.is_running() && begun.elapsed() < Duration::from_secs(60),
                "{}",
                self.process.last_words()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Its process.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The flag that says where a manager tells its health.
#[must_use]
pub fn health_flag(name: &str, webhooks: &Webhooks) -> String {
    format!("--{name}=127.0.0.1:{}", webhooks.health)
}

/// Applies admission webhooks of managers that are ready.
pub async fn register(client: &Client, webhooks: &Webhooks, manifest: &Path) {
    manifests::apply(client, &webhooks.admission(manifest)).await;
}

async fn says_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return false;
    };
    let asked = stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await;
    let mut answer = Vec::new();
    asked.is_ok()
        && stream.read_to_end(&mut answer).await.is_ok()
        && answer.split(|b| *b == b' ').nth(1) == Some(b"200".as_slice())
}
