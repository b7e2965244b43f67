//! logind: what is about to become of the host, and a lock that makes it wait a moment.
//!
//! ```text
//!  lock taken ─► "it will" ─► the agent hands over ─► lock let go ─► host goes down, or sleeps
//!       ▲                                                                  │
//!       └───────────────── "it did", "it does not after all" ◄─────────────┘
//! ```
//!
//! A task of its own, asleep but for those signals. It never guesses: a bus that goes away, as it does
//! early in a shutdown, takes nothing back.

use std::{fmt, io, time::Duration};

use futures_util::StreamExt as _;
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::sleep,
};
use tracing::{debug, info};
use zbus::{OwnedFd, proxy, proxy::CacheProperties};

use crate::bus::{Bus, Unanswered};

/// What ends for a host, for good or for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is switched off or started again.
    Shutdown,
    /// It is suspended or hibernates.
    Sleep,
}

/// What logind says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It will happen, once nobody holds a lock or logind has waited long enough.
    Begins(Ending),
    /// It has happened and is over, or it does not happen.
    Over(Ending),
}

/// Whether logind waits for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has not been asked yet.
    Asking,
    /// It waits for this long at most.
    Held(Duration),
    /// It does not wait: what was to be done is done.
    LetGo,
    /// It does not wait.
    None(Unanswered),
}

impl Standing {
    /// How long there is, once it begins.
    #[must_use]
    pub const fn patience(self) -> Option<Duration> {
        match self {
            Self::Held(patience) => Some(patience),
            Self::Asking | Self::LetGo | Self::None(_) => None,
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking => f.write_str("none (logind is being asked)"),
            Self::Held(patience) => {
                write!(f, "held, logind waits up to {} s", patience.as_secs_f64())
            }
            Self::LetGo => f.write_str("let go"),
            Self::None(Unanswered::NoBus) => f.write_str("none (no bus)"),
            Self::None(Unanswered::NoService) => f.write_str("none (no logind)"),
            Self::None(Unanswered::Denied) => f.write_str("none (no polkit)"),
            Self::None(Unanswered::Failed) => f.write_str("none (logind refuses)"),
        }
    }
}

/// Listens to logind until dropped.
#[derive(Debug)]
pub struct Login {
    news: mpsc::Receiver<News>,
    standing: watch::Receiver<Standing>,
    let_go: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Login {
    /// Listens, and takes a lock that lasts until [`Login::let_go`].
    #[must_use]
    pub fn listen(bus: Bus) -> Self {
        let (told, news) = mpsc::channel(NEWS);
        let (stands, standing) = watch::channel(Standing::Asking);
        let (let_go, done) = mpsc::channel(1);
        let listener = Listener {
            bus,
            told,
            stands,
            done,
            begun: None,
        };
        Self {
            news,
            standing,
            let_go,
            task: tokio::spawn(listener.run()),
        }
    }

    /// The next news; never, once there is no logind.
    pub async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Whether logind waits.
    #[must_use]
    pub fn standing(&self) -> Standing {
        *self.standing.borrow()
    }

    /// Gives the lock back: logind need not wait any longer. It is taken again when what began is over.
    pub fn let_go(&self) {
        // One wish is as good as two.
        let _ = self.let_go.try_send(());
    }

    /// Whether nothing will ever come: there is no logind.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Listener {
    bus: Bus,
    told: mpsc::Sender<News>,
    stands: watch::Sender<Standing>,
    done: mpsc::Receiver<()>,
    /// What was told last, if it is not over.
    begun: Option<Ending>,
}

impl Listener {
    async fn run(mut self) {
        let mut pause = RETRY;
        loop {
            let lost = match self.attend().await {
                // Nobody listens any more.
                Ok(()) => return,
                Err(error) => error,
            };
            let because = Unanswered::from(&lost);
            let held = self.stands.send_replace(Standing::None(because));
            info!(
                inhibitor = %Standing::None(because),
                source = %lost,
                "logind does not wait for the VIPs"
            );
            match because {
                Unanswered::NoBus | Unanswered::Failed => {}
                // A host without logind stays one.
                Unanswered::NoService | Unanswered::Denied => return,
            }
            if matches!(held, Standing::Held(_) | Standing::LetGo) {
                pause = RETRY;
            }
            sleep(pause).await;
            pause = (pause * 2).min(RARELY);
        }
    }

    /// Listens for as long as there is a bus.
    async fn attend(&mut self) -> zbus::Result<()> {
        let connection = self.bus.connection().await?;
        let manager = ManagerProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let mut shutdowns = manager.receive_prepare_for_shutdown().await?;
        let mut sleeps = manager.receive_prepare_for_sleep().await?;
        // What was said while nobody listened.
        let now = if manager.preparing_for_shutdown().await? {
            Some(Ending::Shutdown)
        } else if manager.preparing_for_sleep().await? {
            Some(Ending::Sleep)
        } else {
            None
        };
        if let Some(before) = self.begun.filter(|_| self.begun != now) {
            self.tell(News::Over(before)).await;
        }
        if let Some(now) = now.filter(|_| self.begun != now) {
            self.tell(News::Begins(now)).await;
        }
        // It gives none while something is under way.
        let mut lock = match self.begun {
            Some(_) => None,
            None => self.lock(&manager).await?,
        };
        loop {
            let (ending, begins) = tokio::select! {
                signal = shutdowns.next() => match signal {
                    Some(signal) => (Ending::Shutdown, signal.args()?.start),
                    None => return Err(gone()),
                },
                signal = sleeps.next() => match signal {
                    Some(signal) => (Ending::Sleep, signal.args()?.start),
                    None => return Err(gone()),
                },
                wish = self.done.recv() => {
                    if wish.is_none() {
                        return Ok(());
                    }
                    if lock.take().is_some() {
                        self.stands.send_replace(Standing::LetGo);
                    }
                    continue;
                }
            };
            if begins {
                self.tell(News::Begins(ending)).await;
            } else {
                if lock.is_none() {
                    lock = self.lock(&manager).await?;
                }
                self.tell(News::Over(ending)).await;
            }
        }
    }

    async fn tell(&mut self, news: News) {
        self.begun = match news {
            News::Begins(ending) => Some(ending),
            News::Over(_) => None,
        };
        // Nobody listens: the task is about to be aborted.
        let _ = self.told.send(news).await;
    }

    /// Asks logind to wait. Whoever may not ask still hears what it says.
    async fn lock(&self, manager: &ManagerProxy<'_>) -> zbus::Result<Option<OwnedFd>> {
        match manager
            .inhibit("shutdown:sleep", "kedge", WHY, "delay")
            .await
        {
            Ok(lock) => {
                // It came without: a program that is run, and the one that takes the place of this
                // one, would hold it on.
                fcntl_setfd(&lock, FdFlags::CLOEXEC).map_err(io::Error::from)?;
                let micros = manager.inhibit_delay_max_usec().await?;
                let patience = Duration::from_micros(micros);
                self.stands.send_replace(Standing::Held(patience));
                debug!(?patience, "logind waits for the VIPs");
                Ok(Some(lock))
            }
            Err(error) if Unanswered::from(&error) == Unanswered::Denied => {
                let standing = Standing::None(Unanswered::Denied);
                info!(inhibitor = %standing, "logind does not wait for the VIPs");
                self.stands.send_replace(standing);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn gone() -> zbus::Error {
    zbus::Error::Failure("the bus is gone".to_owned())
}

#[proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
trait Manager {
    /// A lock that lasts as long as the descriptor is open.
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;

    #[zbus(signal)]
    fn prepare_for_shutdown(&self, start: bool) -> zbus::Result<()>;

    #[zbus(signal)]
    fn prepare_for_sleep(&self, start: bool) -> zbus::Result<()>;

    #[zbus(property)]
    fn preparing_for_shutdown(&self) -> zbus::Result<bool>;

    #[zbus(property)]
    fn preparing_for_sleep(&self) -> zbus::Result<bool>;

    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max_usec(&self) -> zbus::Result<u64>;
}

const WHY: &str = "VIPs are handed over first";
const NEWS: usize = 8;
/// How soon a bus is looked for that went away, and how rarely at last.
const RETRY: Duration = Duration::from_secs(1);
const RARELY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_why_nobody_waits() {
        for (standing, words) in [
            (
                Standing::Held(Duration::from_secs(5)),
                "held, logind waits up to 5 s",
            ),
            (Standing::None(Unanswered::Denied), "none (no polkit)"),
            (Standing::None(Unanswered::NoService), "none (no logind)"),
            (Standing::None(Unanswered::NoBus), "none (no bus)"),
        ] {
            assert_eq!(standing.to_string(), words);
        }
    }
}
