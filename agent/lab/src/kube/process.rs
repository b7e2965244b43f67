//! A program outside of the lab's namespaces: it dies with us, and its last words are kept.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{LazyLock, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::LabError;

/// A running program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts a program that writes to `NAME.log` in the folder.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(name: &str, folder: &Path, command: &Command) -> Result<Self, LabError> {
        Self::start_by(name, folder, bound(command), spawn_for_life)
    }

    /// Starts a program by other means, in another place of the network.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_by(
        name: &str,
        folder: &Path,
        mut command: Command,
        spawn: impl FnOnce(Command) -> io::Result<Child>,
    ) -> Result<Self, LabError> {
        let log = folder.join(format!("{name}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(LabError::file(&log))?;
        let errors = out.try_clone().map_err(LabError::file(&log))?;
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        let child = spawn(command).map_err(|source| LabError::Spawn {
            program: name.to_owned(),
            node: "this machine".to_owned(),
            source,
        })?;
        Ok(Self {
            child,
            name: name.to_owned(),
            log,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            _ = kill_process(pid, signal);
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it ended.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Ends it: asks, then kills.
    pub fn stop(&mut self) {
        // One that was stopped does not hear anything else.
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        if self.wait(Duration::from_secs(5)).is_none() {
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }

    /// What it printed last.
    #[must_use]
    pub fn last_words(&self) -> String {
        let all = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = all.lines().collect();
        let from = lines.len().saturating_sub(30);
        format!(
            "{}:\n{}",
            self.name,
            lines.get(from..).unwrap_or_default().join("\n")
        )
    }

    /// Where it writes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }
}

/// Starts a process that the kernel ends with this one, however this one ends.
///
/// The kernel looks at the thread that started it: that is one that stays.
fn spawn_for_life(command: Command) -> io::Result<Child> {
    let (answer, answered) = mpsc::channel();
    let spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = |_| io::Error::other("the thread that starts processes ended");
    spawner
        .send((command, answer))
        .map_err(|_| io::Error::other("the thread that starts processes ended"))?;
    answered.recv().map_err(ended)?
}

/// The command, bound to the thread that starts it.
fn bound(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound
        .args(["--pdeathsig", "KILL", "--"])
        .arg(command.get_program())
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(key, value),
            None => bound.env_remove(key),
        };
    }
    bound
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

static SPAWNER: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| {
    let (orders, ordered) = mpsc::channel::<Order>();
    std::thread::spawn(move || {
        for (mut command, answer) in ordered {
            _ = answer.send(command.spawn());
        }
    });
    Mutex::new(orders)
});

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
