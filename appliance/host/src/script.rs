//! Programs that are run to ask them something: as somebody who may do little, for a bounded time,
//! with a bounded answer, and never by a shell.

use std::{
    ffi::OsString,
    fmt, fs, io,
    os::unix::{fs::MetadataExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, Uid, getegid, geteuid, kill_process_group},
    thread::set_thread_res_uid,
};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe::Receiver,
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::account::Account;

/// A program and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The name or number of the user it runs as.
    pub user: String,
    /// After how long it is killed, with every process of its group.
    pub timeout: Duration,
}

/// What became of a run.
#[derive(Debug)]
pub enum Outcome {
    /// It ended.
    Ended {
        /// How.
        status: ExitStatus,
        /// The last line it wrote, shortened; empty without one.
        last: String,
    },
    /// It took too long and was killed.
    Killed {
        /// After how long.
        after: Duration,
        /// The last line it wrote, shortened; empty without one.
        last: String,
    },
    /// It was not run.
    Refused(Refused),
}

/// Why a script was not run.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such user.
    #[error("there is no user {0}")]
    NoUser(String),
    /// The users cannot be read.
    #[error("the users of this host cannot be read")]
    Users(#[source] io::Error),
    /// As root nobody else may be able to change it.
    #[error("it would run as root, and {} can be changed by others than root", .0.display())]
    Writable(PathBuf),
    /// The program cannot be looked at.
    #[error("{} cannot be looked at", .0.display())]
    Unseen(PathBuf, #[source] io::Error),
    /// The kernel did not start it.
    #[error("it cannot be started")]
    Start(#[source] io::Error),
}

impl Script {
    /// A program that runs as the user of this process.
    #[must_use]
    pub fn own(program: PathBuf, arguments: Vec<String>, timeout: Duration) -> Self {
        Self {
            program,
            arguments,
            user: geteuid().as_raw().to_string(),
            timeout,
        }
    }

    /// Runs it once. When the future is dropped every process of its group is killed.
    pub async fn run(&self) -> Outcome {
        match self.start() {
            Ok(started) => self.wait(started).await,
            Err(refused) => Outcome::Refused(refused),
        }
    }

    fn start(&self) -> Result<Started, Refused> {
        let account = Account::find(&self.user)
            .map_err(Refused::Users)?
            .ok_or_else(|| Refused::NoUser(self.user.clone()))?;
        if account.is_root() {
            only_root_writes(&self.program)?;
        }
        // One for both, so that what was written last is known.
        let (said, say) = io::pipe().map_err(Refused::Start)?;
        let said = Receiver::from_owned_fd(said.into()).map_err(Refused::Start)?;
        let say_too = say.try_clone().map_err(Refused::Start)?;
        let mut command = Command::new(&self.program);
        command
            .args(self.arguments.iter().map(OsString::from))
            .env_clear()
            .env("PATH", SEARCHED)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(say)
            .stderr(say_too)
            .process_group(0)
            .kill_on_drop(true);
        let own = (geteuid().as_raw(), getegid().as_raw());
        if own != (account.uid, account.gid) {
            // Whoever sets the user as root loses every other group too.
            command.uid(account.uid).gid(account.gid);
        }
        let child = command.spawn().map_err(Refused::Start)?;
        let group = Group {
            id: child.id().and_then(|id| Pid::from_raw(id.cast_signed())),
            user: (own.0 != account.uid).then_some(account.uid),
        };
        Ok(Started { child, group, said })
    }

    async fn wait(&self, started: Started) -> Outcome {
        let Started {
            mut child,
            mut group,
            said,
        } = started;
        let mut written = Written::default();
        let mut said = Some(said);
        let ended = timeout(self.timeout, async {
            tokio::select! {
                // It may close what it writes to and go on, or leave it open to others.
                status = child.wait() => status,
                never = listen(&mut said, &mut written) => match never {},
            }
        })
        .await;
        match ended {
            Ok(Ok(status)) => {
                group.id = None;
                // What it wrote last may still be on its way.
                let rest = listen(&mut said, &mut written);
                tokio::select! {
                    biased;
                    never = rest => match never {},
                    () = sleep(LINGER) => {}
                }
                let last = written.last_line();
                Outcome::Ended { status, last }
            }
            Ok(Err(error)) => Outcome::Refused(Refused::Start(error)),
            Err(_) => {
                drop(group);
                // Killed processes end; nobody else waits for this one.
                let _ = timeout(REAP, child.wait()).await;
                Outcome::Killed {
                    after: self.timeout,
                    last: written.last_line(),
                }
            }
        }
    }
}

impl Outcome {
    /// Whether the answer is yes.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Ended { status, .. } if status.success())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = match self {
            Self::Ended { status, last } => {
                match (status.code(), status.signal()) {
                    (Some(code), _) => write!(f, "ended with {code}")?,
                    (None, Some(signal)) => write!(f, "was killed by signal {signal}")?,
                    (None, None) => f.write_str("ended in an unknown way")?,
                }
                last
            }
            Self::Killed { after, last } => {
                let after = kedge_core::Span::new(*after);
                write!(f, "took longer than {after} and was killed")?;
                last
            }
            Self::Refused(refused) => {
                write!(f, "was not run: {refused}")?;
                let source = std::error::Error::source(refused);
                return source.map_or(Ok(()), |source| write!(f, ": {source}"));
            }
        };
        if last.is_empty() {
            Ok(())
        } else {
            write!(f, ": {last}")
        }
    }
}

/// A script that runs.
struct Started {
    child: Child,
    group: Group,
    /// What it writes, to stdout and to stderr.
    said: Receiver,
}

/// The processes a script started and that did not leave its group; killed when dropped.
struct Group {
    id: Option<Pid>,
    /// Whose they are, when it is another user.
    user: Option<u32>,
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(group) = self.id else { return };
        // None is left when it ended by itself.
        let kill = move || {
            let _ = kill_process_group(group, Signal::KILL);
        };
        let Some(user) = self.user else { return kill() };
        // A thread that is the same user: to kill processes of others takes a capability more.
        let _ = thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let user = Uid::from_raw(user);
                if set_thread_res_uid(user, user, user).is_ok() {
                    kill();
                }
            });
            thread.join()
        });
    }
}

/// The end of what was written.
#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(KEPT);
        self.0.drain(..surplus);
    }

    /// The last line that is not empty, without control characters.
    fn last_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        let plain = last.unwrap_or_default().trim().chars();
        plain.filter(|it| !it.is_control()).take(SHOWN).collect()
    }
}

/// Reads for ever.
async fn listen(said: &mut Option<Receiver>, written: &mut Written) -> std::convert::Infallible {
    let mut buffer = [0; CHUNK];
    loop {
        written.add(next(said, &mut buffer).await);
    }
}

/// The next bytes; a stream that is over never has any.
async fn next<'a>(stream: &mut Option<Receiver>, buffer: &'a mut [u8; CHUNK]) -> &'a [u8] {
    if let Some(open) = stream {
        match open.read(buffer).await {
            Ok(count) if count > 0 => return buffer.get(..count).unwrap_or_default(),
            Ok(_) | Err(_) => *stream = None,
        }
    }
    std::future::pending().await
}

/// Refuses a program that somebody else than root can change or exchange.
fn only_root_writes(program: &Path) -> Result<(), Refused> {
    // The file that is run, whatever links lead to it.
    let unseen = |path: &Path| {
        let path = path.to_owned();
        move |error| Refused::Unseen(path, error)
    };
    let real = fs::canonicalize(program).map_err(unseen(program))?;
    // Whoever owns a link can turn it elsewhere.
    for path in program.ancestors() {
        if fs::symlink_metadata(path).map_err(unseen(path))?.uid() != 0 {
            return Err(Refused::Writable(path.to_owned()));
        }
    }
    for path in real.ancestors().chain(program.ancestors()) {
        let found = fs::metadata(path).map_err(unseen(path))?;
        // In a directory like /tmp nobody can exchange what is another's.
        let sticky = found.is_dir() && found.mode() & 0o1000 != 0 && path != program;
        if found.uid() != 0 || (found.mode() & 0o022 != 0 && !sticky) {
            return Err(Refused::Writable(path.to_owned()));
        }
    }
    Ok(())
}

const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const CHUNK: usize = 512;
/// What is kept of what a script writes.
const KEPT: usize = 1_024;
/// What people are shown of it.
const SHOWN: usize = 120;
const LINGER: Duration = Duration::from_millis(20);
const REAP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
