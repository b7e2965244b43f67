//! The manager under measurement: a process, looked at from outside.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use kedge_host::{Role, Root};
use tokio::net::TcpStream;

use crate::{
    error::LabError,
    kube::{Process, free_ports},
    stage::Stage,
};

/// A running manager.
#[derive(Debug)]
pub(super) struct Subject {
    process: Mutex<Process>,
    begun: Instant,
    root: Root,
    /// Where the agent API is.
    pub(super) agents: SocketAddr,
    observed: SocketAddr,
}

/// What its metrics and the kernel say at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Whether it writes: 1.
    pub(super) leads: f64,
    /// Namespaces that wait for their plan, or are planned.
    pub(super) queue: f64,
    /// Objects it knows.
    pub(super) objects: f64,
    /// Objects its plans looked at.
    pub(super) looked_at: f64,
    /// Seconds its plans took.
    pub(super) planning: f64,
    /// Seconds of CPU.
    pub(super) cpu: f64,
}

impl Subject {
    /// Starts it on a cluster.
    pub(super) fn start(
        kedge: &Path,
        kubeconfig: &Path,
        folder: &Path,
        name: &str,
    ) -> Result<Self, LabError> {
        let [agents, observed] = free_ports().map_err(LabError::file("a port of 127.0.0.1"))?;
        let [agents, observed] = [agents, observed].map(|port| ([127, 0, 0, 1], port).into());
        let (root, logs) = (folder.join(name), folder.join("logs"));
        for folder in [&root, &logs] {
            fs::create_dir_all(folder).map_err(LabError::file(folder))?;
        }
        let mut command = Command::new(kedge);
        command
            .arg("--root")
            .arg(&root)
            .arg("manager")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--set")
            .arg(format!("listen={agents}"))
            .arg("--set")
            .arg(format!("metrics.listen={observed}"));
        let begun = Instant::now();
        Ok(Self {
            process: Mutex::new(Process::start(name, &logs, &command)?),
            begun,
            root: Root::new(root),
            agents,
            observed,
        })
    }

    /// How long it has been running.
    pub(super) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits until it has read everything, leads, and has no plan to make.
    pub(super) async fn synced(&self, stage: &Stage) -> Result<Sample, LabError> {
        let mut is_ready = false;
        while self.begun.elapsed() < SYNCED {
            if stage.is_stopped() {
                return Err(LabError::Interrupted);
            }
            self.check()?;
            // It binds the port early, and answers once its first plans are made.
            is_ready = is_ready || matches!(self.get("/readyz").await, Ok((StatusCode::OK, _)));
            if is_ready
                && let Ok(seen) = self.sample().await
                && seen.leads > 0.0
                && seen.queue == 0.0
                && seen.objects > 0.0
            {
                return Ok(seen);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Err(LabError::Late {
            what: "a manager that has read everything and leads".to_owned(),
            limit: SYNCED,
            seen: self.last_words(),
        })
    }

    /// What it says now.
    pub(super) async fn sample(&self) -> Result<Sample, LabError> {
        let (_, text) = self.get("/metrics").await?;
        let mut sample = read(&text);
        sample.cpu = self.cpu()?;
        Ok(sample)
    }

    /// What it has in memory, in MiB.
    pub(super) fn rss(&self) -> Result<f64, LabError> {
        let path = self.proc("status");
        let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        let kilobytes = kilobytes.ok_or_else(|| self.unexpected("is gone"))?;
        Ok(kilobytes / 1024.0)
    }

    /// Its control socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.root.socket(Role::Manager)
    }

    /// What it printed last.
    pub(super) fn last_words(&self) -> String {
        self.process().last_words()
    }

    /// Ends it in order: its lease is given back.
    pub(super) fn stop(self) {
        drop(self);
    }

    /// Says so when it has ended on its own.
    pub(super) fn check(&self) -> Result<(), LabError> {
        if self.process().is_running() {
            return Ok(());
        }
        Err(self.unexpected(&format!("ended: {}", self.last_words())))
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cpu(&self) -> Result<f64, LabError> {
        let path = self.proc("stat");
        let text = fs::read_to_string(&path).map_err(LabError::file(&path))?;
        // The name before it may hold blanks.
        let rest = text.rsplit(')').next().unwrap_or_default();
        let ticks = rest.split_whitespace().skip(11).take(2);
        let ticks = ticks.filter_map(|number| number.parse::<f64>().ok());
        Ok(ticks.sum::<f64>() / TICKS)
    }

    fn proc(&self, file: &str) -> PathBuf {
        format!("/proc/{}/{file}", self.process().pid()).into()
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, String), LabError> {
        let broken = |err: hyper::Error| self.unexpected(&err.to_string());
        let unreached = |err: std::io::Error| self.unexpected(&err.to_string());
        let stream = TcpStream::connect(self.observed).await.map_err(unreached)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let driver = tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Empty::<Bytes>::new())
            .map_err(|err| self.unexpected(&err.to_string()))?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(broken)?;
        driver.abort();
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok((status, text))
    }

    fn unexpected(&self, said: &str) -> LabError {
        LabError::Unexpected {
            who: "the manager".to_owned(),
            said: said.to_owned(),
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.process().stop();
    }
}

fn read(text: &str) -> Sample {
    let value = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or_default()
    };
    Sample {
        leads: value("kedge_leader"),
        queue: value("kedge_controller_queue_depth"),
        objects: value("kedge_objects"),
        looked_at: value("kedge_reconciled_objects_total"),
        planning: value("kedge_controller_reconcile_duration_seconds_sum{controller=\"plan\"}"),
        cpu: 0.0,
    }
}

/// The first one writes the status of everything, and an API server takes ten milliseconds for each.
const SYNCED: Duration = Duration::from_secs(600);
/// The unit of times in `/proc`: a hundredth of a second on every machine.
const TICKS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_are_read_by_their_whole_names() {
        let text = "\
# HELP kedge_objects Objects of the store.
kedge_objects 13101
kedge_leader 1
kedge_controller_queue_depth 2
kedge_reconciled_objects_total 52404
kedge_controller_reconcile_duration_seconds_sum{controller=\"write\"} 9
kedge_controller_reconcile_duration_seconds_sum{controller=\"plan\"} 0.25
";
        let wanted = Sample {
            leads: 1.0,
            queue: 2.0,
            objects: 13_101.0,
            looked_at: 52_404.0,
            planning: 0.25,
            cpu: 0.0,
        };
        assert_eq!(read(text), wanted);
    }
}
