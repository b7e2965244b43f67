//! The prober as the lab holds it: a process in the client's namespace.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::ChildStdin,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use crate::{
    error::LabError, lab::Lab, probe::ProbeReport, process::Process, roles::ProbeEvent,
    stage::Stage,
};

/// A packet train under way.
#[derive(Debug)]
pub struct Prober {
    process: Process,
    stdin: Option<ChildStdin>,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    responders: Vec<String>,
    report: Option<ProbeReport>,
}

impl Prober {
    /// Starts a train from a node to a target.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(lab: &Lab, node: &str, target: SocketAddr) -> Result<Self, LabError> {
        let command = lab.role(["probe", "--target", &target.to_string()]);
        let mut process = lab.start_piped(node, "probe", command)?;
        let (stdin, stdout) = process.pipes().ok_or_else(|| unexpected("has no pipes"))?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let reader = std::thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    match serde_json::from_str(&line) {
                        Ok(ProbeEvent::Responder { name, .. }) => seen.responders.push(name),
                        Ok(ProbeEvent::Report(report)) => seen.report = Some(report),
                        Err(err) => {
                            let error = &err as &dyn std::error::Error;
                            tracing::warn!(error, "the prober said something else");
                        }
                    }
                }
            }
        });
        Ok(Self {
            process,
            stdin: Some(stdin),
            seen,
            reader: Some(reader),
        })
    }

    /// Who answers right now, if anybody ever did.
    #[must_use]
    pub fn responder(&self) -> Option<String> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .responders
            .last()
            .cloned()
    }

    /// Waits until somebody answers.
    ///
    /// # Errors
    /// When nobody does.
    pub fn wait_for_answer(&self, stage: &Stage, limit: Duration) -> Result<String, LabError> {
        stage.eventually("the first answer to a probe", limit, || {
            self.responder().ok_or_else(|| "no answer".to_owned())
        })
    }

    /// Waits until somebody else answers.
    ///
    /// # Errors
    /// When nobody else does.
    pub fn wait_for_other(
        &self,
        than: &str,
        stage: &Stage,
        limit: Duration,
    ) -> Result<String, LabError> {
        stage.eventually("an answer from another host", limit, || {
            match self.responder() {
                Some(name) if name != than => Ok(name),
                _ => Err(format!("{than} was the last to answer")),
            }
        })
    }

    /// Ends the train and reads its report.
    ///
    /// # Errors
    /// When the prober ended without one.
    pub fn finish(mut self) -> Result<ProbeReport, LabError> {
        drop(self.stdin.take());
        let status = self.process.wait(Duration::from_secs(5))?;
        if let Some(reader) = self.reader.take() {
            _ = reader.join();
        }
        let report = self
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .report
            .take();
        report.ok_or_else(|| {
            unexpected(&format!(
                "ended with {status}: {}",
                self.process.last_words()
            ))
        })
    }
}

fn unexpected(said: &str) -> LabError {
    LabError::Unexpected {
        who: "the prober".to_owned(),
        said: said.to_owned(),
    }
}
