//! The process of an Envoy that the gateway runs.

use std::{
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use kedge_core::{Code, Fix, Problem};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::timeout,
};
use tracing::{info, warn};

/// An Envoy that is kept running.
pub(super) struct Process {
    executable: PathBuf,
    config: PathBuf,
    running: Option<Child>,
    ended: Option<Ended>,
}

struct Ended {
    at: Instant,
    why: Why,
}

enum Why {
    NotStarted(io::Error),
    Exited(ExitStatus),
}

impl Process {
    pub const fn new(executable: PathBuf, config: PathBuf) -> Self {
        Self {
            executable,
            config,
            running: None,
            ended: None,
        }
    }

    /// Starts it if it does not run.
    ///
    /// Envoy ends with the thread that started it: this must be called on one that lives as long as the gateway.
    pub fn tend(&mut self) {
        if let Some(child) = &mut self.running {
            match child.try_wait() {
                Ok(None) => return,
                Ok(Some(status)) => {
                    warn!(%status, "Envoy ended");
                    self.running = None;
                    self.ended = Some(Ended::now(Why::Exited(status)));
                }
                Err(error) => self.ended = Some(Ended::now(Why::NotStarted(error))),
            }
        }
        if self
            .ended
            .as_ref()
            .is_some_and(|ended| ended.at.elapsed() < PAUSE)
        {
            return;
        }
        let mut command = Command::new(&self.executable);
        command
            .arg("--config-path")
            .arg(&self.config)
            .args(["--disable-hot-restart", "--log-level", "warning"])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        match command.spawn() {
            Ok(child) => {
                info!(pid = child.id(), "Envoy starts");
                self.running = Some(child);
            }
            Err(error) => self.ended = Some(Ended::now(Why::NotStarted(error))),
        }
    }

    /// What is wrong with it.
    pub fn problem(&self) -> Option<Problem> {
        let ended = self.ended.as_ref()?;
        // One that has run for a while since has made up for it.
        if self.running.is_some() && ended.at.elapsed() > PAUSE + PROVEN {
            return None;
        }
        let problem = match &ended.why {
            Why::NotStarted(error) => {
                Problem::new(Code::GatewayNoEnvoy, "Envoy cannot be started").caused_by(error)
            }
            Why::Exited(status) => Problem::new(Code::GatewayNoEnvoy, "Envoy ended")
                .evidence(format!("{} ended with {status}", self.executable.display())),
        };
        Some(
            problem
                .object("proxy.envoy")
                .consequence("nobody is served meanwhile; it is started again")
                .fix(Fix::text("see what it said").command("journalctl -u kedge-gateway")),
        )
    }

    /// Ends it.
    pub async fn end(mut self) {
        let Some(mut child) = self.running.take() else {
            return;
        };
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        let told = pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        if !told || timeout(PATIENCE, child.wait()).await.is_err() {
            // It is gone when this returns, or was already.
            let _ = child.kill().await;
        }
    }
}

impl Ended {
    fn now(why: Why) -> Self {
        Self {
            at: Instant::now(),
            why,
        }
    }
}

/// Between two starts.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it must run to be called well again.
const PROVEN: Duration = Duration::from_secs(5);
/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(2);
