//! The tasks that watch. Each says at once what it sees first, then whatever changes.

use std::{fmt::Display, io, path::PathBuf, time::Duration};

use kedge_core::{
    Name,
    bfd::{Liveness, SessionState},
};
use kedge_host::script::Script;
use kedge_net::{
    monitor::{Link, MonitorError, Watch},
    presence::Presence,
    process::Process,
};
use kedge_vip_speaker::bfd::{Level, Levels};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use super::seen::{Seen, Streak};
use crate::config::{ScriptConfig, Tracked};

/// Says what is seen of one thing; what was said already is not said again.
pub(super) struct Teller {
    what: Tracked,
    pub(super) told: Seen,
    queue: mpsc::Sender<(Tracked, Seen)>,
}

impl Teller {
    pub(super) fn new(what: Tracked, queue: mpsc::Sender<(Tracked, Seen)>) -> Self {
        Self {
            what,
            told: Seen::default(),
            queue,
        }
    }

    /// Starts the task that says what is seen after `first`.
    pub(super) fn start<F: Future<Output = ()> + Send + 'static>(
        mut self,
        first: Seen,
        follow: impl FnOnce(Self) -> F,
    ) -> (Seen, JoinHandle<()>) {
        self.told = first.clone();
        (first, tokio::spawn(follow(self)))
    }

    /// Whether anybody listens still.
    pub(super) async fn tell(&mut self, seen: Seen) -> bool {
        if seen == self.told {
            return true;
        }
        self.told = seen.clone();
        self.queue.send((self.what.clone(), seen)).await.is_ok()
    }
}

/// An interface: the kernel says what becomes of it.
pub(super) fn interface(name: String, teller: Teller) -> (Seen, JoinHandle<()>) {
    let watch = Watch::open();
    let first = carrier(&name, &watch, true);
    teller.start(first, |teller| follow_interface(name, watch, teller))
}

async fn follow_interface(
    name: String,
    mut watch: Result<Watch, MonitorError>,
    mut teller: Teller,
) {
    loop {
        let seen = carrier(&name, &watch, teller.told.good);
        if !teller.tell(seen).await {
            return;
        }
        match &mut watch {
            Ok(open) => {
                if let Err(error) = open.changed().await {
                    watch = Err(error);
                }
            }
            Err(_) => {
                sleep(RETRY).await;
                watch = Watch::open();
            }
        }
    }
}

/// While the kernel cannot be asked everything is as it was.
fn carrier(name: &str, watch: &Result<Watch, MonitorError>, before: bool) -> Seen {
    let monitor = match watch {
        Ok(watch) => watch.monitor(),
        Err(error) => return unknown("the kernel's links", error, before),
    };
    match monitor.link_named(name) {
        Some(link) if link.is_running() => Seen::good(format!("{name} has a carrier")),
        Some(Link { up: false, .. }) => Seen::bad(format!("{name} is set down")),
        Some(_) => Seen::bad(format!("{name} has no carrier")),
        None => Seen::bad(format!("there is no interface {name}")),
    }
}

/// A process: its end is seen at once, its start when it is looked for next.
pub(super) fn process(name: String, teller: Teller) -> (Seen, JoinHandle<()>) {
    let found = Process::find(&name);
    let first = running(&name, &found, true);
    teller.start(first, |teller| follow_process(name, found, teller))
}

async fn follow_process(name: String, mut found: io::Result<Option<Process>>, mut teller: Teller) {
    loop {
        let seen = running(&name, &found, teller.told.good);
        if !teller.tell(seen).await {
            return;
        }
        match &found {
            Ok(Some(process)) => {
                if process.ended().await.is_err() {
                    sleep(LOOK).await;
                }
            }
            Ok(None) | Err(_) => sleep(LOOK).await,
        }
        // Of several of that name another one may still run.
        let wanted = name.clone();
        let looked = tokio::task::spawn_blocking(move || Process::find(&wanted)).await;
        found = match looked {
            Ok(found) => found,
            Err(error) => Err(io::Error::other(error)),
        };
    }
}

fn running(name: &str, found: &io::Result<Option<Process>>, before: bool) -> Seen {
    match found {
        Ok(Some(process)) => Seen::good(format!("{name} runs as process {}", process.pid())),
        Ok(None) => Seen::bad(format!("no process {name} runs")),
        Err(error) => unknown("the processes of this host", error, before),
    }
}

/// A file: the kernel says when its directory changes, and it is looked for now and then.
pub(super) fn file(path: PathBuf, teller: Teller) -> (Seen, JoinHandle<()>) {
    let presence = Presence::watch(&path);
    let first = there(&path, &presence, true);
    teller.start(first, |teller| follow_file(path, presence, teller))
}

async fn follow_file(path: PathBuf, mut presence: io::Result<Presence>, mut teller: Teller) {
    loop {
        let seen = there(&path, &presence, teller.told.good);
        if !teller.tell(seen).await {
            return;
        }
        match &presence {
            Ok(watched) => tokio::select! {
                stirred = watched.stirred() => {
                    if let Err(error) = stirred {
                        presence = Err(error);
                    }
                }
                () = sleep(LOOK) => {}
            },
            Err(_) => {
                sleep(LOOK).await;
                presence = Presence::watch(&path);
            }
        }
    }
}

fn there(path: &std::path::Path, presence: &io::Result<Presence>, before: bool) -> Seen {
    let shown = path.display();
    // Without the kernel's word there is still the look.
    let found = match presence {
        Ok(presence) => presence.is_there(),
        Err(_) => path.try_exists(),
    };
    match found {
        Ok(true) => Seen::good(format!("{shown} is there")),
        Ok(false) => Seen::bad(format!("{shown} is not there")),
        Err(error) => unknown(&shown.to_string(), &error, before),
    }
}

/// A script: asked again and again. Until it has answered often enough it is as it was, or well.
pub(super) fn script(
    config: ScriptConfig,
    restored: Option<bool>,
    teller: Teller,
) -> (Seen, JoinHandle<()>) {
    let shown = config.program.display().to_string();
    let good = restored.unwrap_or(true);
    let because = match restored {
        Some(true) => format!("{shown} ended well before Kedge was restarted"),
        Some(false) => format!("{shown} failed before Kedge was restarted"),
        None => format!("{shown} has not ended yet"),
    };
    let first = Seen { good, because };
    teller.start(first, |teller| follow_script(config, good, teller))
}

async fn follow_script(config: ScriptConfig, good: bool, mut teller: Teller) {
    let shown = config.program.display().to_string();
    let script = Script {
        program: config.program,
        arguments: config.arguments,
        user: config.user,
        timeout: config.timeout,
    };
    let mut streak = Streak::new(config.rise, config.fall, good);
    loop {
        // Measured from start to start.
        let next = Instant::now() + config.interval;
        let outcome = script.run().await;
        let undecided = streak.observe(outcome.is_good()).unwrap_or_default();
        let seen = Seen {
            good: streak.is_good(),
            because: format!("{shown} {outcome}{undecided}"),
        };
        if !teller.tell(seen).await {
            return;
        }
        sleep_until(next).await;
    }
}

/// A BFD session: its thread says what becomes of it. One that was lost before a restart of the agent
/// is lost until it is up.
pub(super) fn bfd(
    name: Name,
    levels: watch::Receiver<Levels>,
    mut was_lost: bool,
    teller: Teller,
) -> (Seen, JoinHandle<()>) {
    let first = path(&name, levels.borrow().get(&name), &mut was_lost);
    teller.start(first, move |teller| {
        follow_bfd(name, levels, was_lost, teller)
    })
}

async fn follow_bfd(
    name: Name,
    mut levels: watch::Receiver<Levels>,
    mut was_lost: bool,
    mut teller: Teller,
) {
    loop {
        let seen = path(&name, levels.borrow_and_update().get(&name), &mut was_lost);
        if !teller.tell(seen).await || levels.changed().await.is_err() {
            return;
        }
    }
}

fn path(name: &Name, level: Option<&Level>, was_lost: &mut bool) -> Seen {
    let Some(Level {
        state,
        liveness,
        because,
        peer_leaves: _,
    }) = level
    else {
        return if *was_lost {
            Seen::bad(format!("{name} was lost before Kedge was restarted"))
        } else {
            Seen::good(format!("{name} says nothing yet"))
        };
    };
    match liveness {
        Liveness::Alive => {
            *was_lost = false;
            Seen::good(format!("{name} is up"))
        }
        Liveness::Lost => Seen::bad(format!("{name} is down: {because}")),
        Liveness::Unknown if *was_lost && *state != SessionState::AdminDown => Seen::bad(format!(
            "{name} was lost before Kedge was restarted, and has not been up since"
        )),
        Liveness::Unknown => {
            *was_lost = false;
            Seen::good(format!("{name} is {state}, which is no failure: {because}"))
        }
    }
}

/// What cannot be found out is as it was: not to know is no failure of what is tracked.
pub(super) fn unknown(what: &str, error: &dyn Display, before: bool) -> Seen {
    Seen {
        good: before,
        because: format!("{what} cannot be read, so it counts as before: {error}"),
    }
}

/// How often something that is absent is looked for.
const LOOK: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(5);
