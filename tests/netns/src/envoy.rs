//! The real Envoy, beside a server of its configuration.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use hyper::Method;
use kedge_gateway_xds::{Ads, Bootstrap, Wanted};
use kedge_host::local::call;
use tokio::runtime::{Builder, Runtime};

use crate::{eventually, lan::Host, left_out, secs};

/// Where the executable is; `None` where it cannot be had. Fails where CI requires it.
#[must_use]
pub fn executable() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy");
        let said = Command::new(script)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        if said.status.success() {
            return Some(PathBuf::from(
                String::from_utf8(said.stdout).unwrap().trim(),
            ));
        }
        left_out("Envoy cannot be had");
        None
    };
    FOUND.get_or_init(find).as_deref()
}

/// An Envoy that runs on a host.
#[derive(Debug)]
pub struct Envoy {
    process: Child,
    admin: PathBuf,
    log: PathBuf,
}

impl Envoy {
    /// Starts it; what it serves it is told over the socket.
    #[must_use]
    pub fn start(host: &Host, executable: &Path, ads: &Path) -> Self {
        let directory = host.directory();
        let admin = directory.join("admin.sock");
        let log = directory.join("envoy.log");
        let config = directory.join("envoy.json");
        let bootstrap = Bootstrap {
            node: "gateway-0",
            ads,
            admin: &admin,
            connections: 50_000,
        };
        fs::write(&config, bootstrap.render().to_string()).unwrap();
        // One that was killed leaves its socket.
        let _ = fs::remove_file(&admin);
        let mut command = Command::new(executable);
        command
            .arg("--config-path")
            .arg(&config)
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "--log-level",
                "info",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let envoy = Self {
            process: host.spawn(command),
            admin,
            log,
        };
        eventually("Envoy answers", secs(10), || {
            envoy.ask("/server_info").is_some()
        });
        envoy
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it says to a question.
    #[must_use]
    pub fn ask(&self, path: &str) -> Option<String> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(call(&self.admin, Method::GET, path, Vec::new()));
        String::from_utf8(reply.ok()?.body.to_vec()).ok()
    }

    /// The names of its listeners.
    #[must_use]
    pub fn listeners(&self) -> Vec<String> {
        let said = self.ask("/listeners").unwrap();
        let names = said.lines().filter_map(|line| line.split_once("::"));
        names.map(|(name, _)| name.to_owned()).collect()
    }

    /// What it logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The server of its configuration.
#[derive(Debug)]
pub struct Server {
    runtime: Option<Runtime>,
    /// What Envoy is to hold.
    pub wanted: Wanted,
    socket: PathBuf,
}

impl Server {
    /// Starts it on a socket of a host's directory.
    #[must_use]
    pub fn start(host: &Host) -> Self {
        Self::on(&host.directory().join("ads.sock"))
    }

    /// Starts it on a socket.
    #[must_use]
    pub fn on(socket: &Path) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.unwrap();
        let wanted = Wanted::default();
        let guard = runtime.enter();
        let ads = Ads::bind(socket, wanted.clone()).unwrap();
        drop(guard);
        runtime.spawn(ads.serve());
        Self {
            runtime: Some(runtime),
            wanted,
            socket: socket.to_owned(),
        }
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}
