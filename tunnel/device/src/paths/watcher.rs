//! Hears that routes or links changed, and says when ways are worth another look.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kedge_core::Instant;
use kedge_net::underlay::Changes;
use tokio::{
    sync::Notify,
    task::{JoinHandle, spawn},
    time::sleep,
};
use tracing::debug;

/// One task that listens, as long as this lives.
#[derive(Debug)]
pub(super) struct Watcher {
    task: JoinHandle<()>,
    changed: Arc<AtomicBool>,
    /// Not before then: of a host whose routes change all the time no more than a share is spent on them.
    rests_until: Option<Instant>,
}

impl Watcher {
    /// The one that listens; it is opened, in the network namespace of the calling thread, where there is none.
    pub(super) fn watching<'a>(
        watcher: &'a mut Option<Self>,
        news: &Arc<Notify>,
    ) -> Option<&'a mut Self> {
        if watcher.as_ref().is_none_or(|it| it.task.is_finished()) {
            match Changes::open() {
                Ok(changes) => *watcher = Some(Self::start(changes, Arc::clone(news))),
                // The routes are looked at now and then all the same.
                Err(err) => {
                    let error = &err as &dyn std::error::Error;
                    debug!(error, "changes of routes are not heard of");
                }
            }
        }
        watcher.as_mut()
    }

    fn start(changes: Changes, news: Arc<Notify>) -> Self {
        let changed = Arc::<AtomicBool>::default();
        let task = spawn(listen(changes, Arc::clone(&changed), news));
        Self {
            task,
            changed,
            rests_until: None,
        }
    }

    /// Whether something changed.
    pub(super) fn is_due(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// The same, once.
    pub(super) fn take(&self, now: Instant) -> bool {
        let rests = self.rests_until.is_some_and(|until| now < until);
        !rests && self.changed.swap(false, Ordering::Relaxed)
    }

    /// Notes how long the look at all ways took.
    pub(super) fn took(&mut self, begun: Instant, now: Instant) {
        self.rests_until = Some(now + now.since(begun) * SHARE);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(changes: Changes, changed: Arc<AtomicBool>, news: Arc<Notify>) {
    let listen = async {
        loop {
            changes.told().await?;
            // A change seldom comes alone: they are told as one.
            sleep(SETTLE).await;
            changes.take().await?;
            changed.store(true, Ordering::Relaxed);
            news.notify_one();
        }
    };
    let ended: std::io::Result<()> = listen.await;
    if let Err(err) = ended {
        let error = &err as &dyn std::error::Error;
        debug!(error, "changes of routes are not heard of any more");
    }
}

const SETTLE: Duration = Duration::from_millis(50);

/// The look at all ways takes a twentieth of the time at most.
const SHARE: u32 = 20;
