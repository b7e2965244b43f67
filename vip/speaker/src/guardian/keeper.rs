//! The agent's side: starts the guardian, and another when it ends.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use kedge_core::{Code, Fix, Problem};
use kedge_net::{channel::Channel, clock, process};
use tracing::{info, warn};

use super::{
    link::{Connection, Link, send},
    mastership::{Estate, Mastership},
    message::Message,
};

/// The guardian's program, and where its page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// An executable for which the argument `guardian` means [`run`](super::run).
    pub executable: PathBuf,
    /// A file in a directory that is empty after a boot and closed to others.
    pub page: PathBuf,
}

/// Keeps a guardian running. Dropping it lets the guardian end.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connection: Arc<ArcSwapOption<Connection>>,
    problem: ArcSwapOption<Problem>,
    over: AtomicBool,
}

/// The thread's side.
struct Watching {
    executable: PathBuf,
    page: Arc<Mastership>,
    shared: Arc<Shared>,
    /// Wakes the VIP thread when a guardian listens.
    tell: Box<dyn Fn() + Send>,
    number: u64,
}

impl Keeper {
    /// Cancels the guardian of an earlier agent and starts one, in the network namespace of the
    /// calling thread. `tell` is called when one listens, on another thread. One that keeps VIPs for
    /// this agent goes on until they are taken from it.
    ///
    /// # Errors
    ///
    /// No page or no thread.
    pub(crate) fn start(
        program: Program,
        tell: impl Fn() + Send + 'static,
    ) -> io::Result<(Self, Link, Option<Estate>)> {
        let (page, estate) = Mastership::create(&program.page, clock::now())?;
        let page = Arc::new(page);
        let shared = Arc::new(Shared {
            connection: Arc::default(),
            problem: ArcSwapOption::empty(),
            over: AtomicBool::new(false),
        });
        let link = Link::new(Arc::clone(&page), Arc::clone(&shared.connection));
        let watching = Watching {
            executable: program.executable,
            page,
            shared: Arc::clone(&shared),
            tell: Box::new(tell),
            number: 0,
        };
        std::thread::Builder::new()
            .name("kedge-guardian".into())
            .spawn(move || watching.run())?;
        // An agent that took the place of another in the same process is the parent.
        if let Some(pid) = estate.as_ref().and_then(Estate::guardian) {
            process::reap(pid);
        }
        Ok((Self { shared }, link, estate))
    }

    /// Lets the guardian be: it keeps the VIPs for another agent.
    pub(crate) fn release(&self) {
        self.shared.over.store(true, Ordering::Release);
    }

    /// Why nobody guards at present.
    pub(crate) fn problem(&self) -> Option<Arc<Problem>> {
        self.shared.problem.load_full()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        // It has nothing to say for an agent that has left, and ends.
        self.shared.connection.store(None);
    }
}

impl Watching {
    fn run(mut self) {
        let mut patience = FIRST_PATIENCE;
        loop {
            let started = Instant::now();
            let ended = match self.start() {
                Ok(mut child) => match child.wait() {
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                },
                Err(error) => error.to_string(),
            };
            self.shared.connection.store(None);
            if self.shared.over.load(Ordering::Acquire) {
                return;
            }
            let problem = unguarded(&ended);
            warn!(KEDGE_CODE = %problem.code, ended, "the guardian is gone, and started again");
            self.shared.problem.store(Some(Arc::new(problem)));
            if started.elapsed() > LAST_PATIENCE {
                patience = FIRST_PATIENCE;
            }
            std::thread::sleep(patience);
            patience = (patience * 2).min(LAST_PATIENCE);
        }
    }

    fn start(&mut self) -> io::Result<Child> {
        let (ours, theirs) = Channel::pair()?;
        let child = Command::new(&self.executable)
            .arg("guardian")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        let end = process::own_end()?;
        let beside = [self.page.as_fd(), end.as_fd()];
        send(&ours, &Message::Hello, &beside)?;
        self.number += 1;
        self.shared.connection.store(Some(Arc::new(Connection {
            number: self.number,
            channel: ours,
        })));
        self.page.guarded_by(child.id());
        self.shared.problem.store(None);
        if self.shared.over.load(Ordering::Acquire) {
            self.shared.connection.store(None);
        }
        info!(pid = child.id(), "a guardian stands by");
        (self.tell)();
        Ok(child)
    }
}

/// Nobody guards, because of what `why` says.
pub(crate) fn unguarded(why: &impl ToString) -> Problem {
    Problem::warning(Code::VipGuardian, "the guardian of the VIPs is not running")
        .evidence(why.to_string())
        .consequence(
            "when the agent is killed, its VIPs move after three advertisement intervals, not at \
             once",
        )
        .fix(Fix::text(
            "see the agent's log for why; it is started again by itself",
        ))
}

const FIRST_PATIENCE: Duration = Duration::from_millis(100);
const LAST_PATIENCE: Duration = Duration::from_secs(30);
