//! Processes inside a namespace.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use kedge_net::netns::{Namespace, Signal, Worker};

use crate::error::LabError;

/// A process that a lab started. It is killed in `Drop`, and by the kernel when the lab's thread
/// in that namespace ends, however it ends.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

/// What its stdin and stdout are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing; its stdout goes into the log.
    Closed,
    /// Pipes to the lab, both of them.
    Piped,
}

impl Process {
    /// Starts a program inside a namespace, with a clean environment and a log of its own. A
    /// process of the same name that ran before keeps its lines in the log.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        worker: &Worker,
        name: &str,
        mut command: Command,
        log: &Path,
        stdin: Stdin,
    ) -> Result<Self, LabError> {
        if let Some(directory) = log.parent() {
            fs::create_dir_all(directory).map_err(LabError::file(directory))?;
        }
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(LabError::file(log))?;
        let errors = file.try_clone().map_err(LabError::file(log))?;
        // Settings of whoever started the lab, such as NOTIFY_SOCKET or KEDGE_SET_…, are not for
        // its nodes.
        command.env_clear();
        command.envs(
            PASSED_ON
                .iter()
                .filter_map(|key| Some((key, std::env::var_os(key)?))),
        );
        // Ctrl-C in the terminal is for the lab, which then takes its nodes down in order.
        command.process_group(0);
        command.stderr(errors);
        match stdin {
            Stdin::Closed => command.stdin(Stdio::null()).stdout(file),
            Stdin::Piped => command.stdin(Stdio::piped()).stdout(Stdio::piped()),
        };
        let program = command.get_program().to_string_lossy().into_owned();
        let child = worker.spawn(command)?.map_err(|source| LabError::Spawn {
            program,
            node: worker.name().to_owned(),
            source,
        })?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            ended: None,
        })
    }

    /// Its name within the node, such as `agent`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(LAST_WORDS).collect();
        lines
            .into_iter()
            .rev()
            .map(crate::stage::printable)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Its ends of the pipes, once.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Asks it to end, in order.
    pub fn terminate(&mut self, namespace: &Namespace) {
        if self.ended().is_none() {
            namespace.signal_process(self.child.id(), Signal::TERM);
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// When it still runs at the limit.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus, LabError> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if begun.elapsed() > limit {
                return Err(LabError::Late {
                    what: format!("the end of {}", self.name),
                    limit,
                    seen: self.last_words(),
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Copies a node's logs to a directory that outlives the lab.
///
/// # Errors
/// When the file system refuses.
pub(crate) fn copy_logs(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

const PASSED_ON: [&str; 3] = ["PATH", "TZ", "RUST_BACKTRACE"];

const LAST_WORDS: usize = 6;
