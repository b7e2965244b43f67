//! State on disk without waiting for the disk: the newest value is written, in order, by a task.

use std::sync::{Arc, Mutex, PoisonError};

use kedge_core::{Coded as _, Problem};
use serde::Serialize;
use tokio::{sync::watch, task::JoinHandle};
use tracing::warn;

use crate::state::Store;

/// Writes one value of the state whenever it changes.
#[derive(Debug)]
pub struct Saver<T> {
    /// The newest value and how many there were.
    wanted: watch::Sender<Option<(u64, T)>>,
    /// How many of them the disk has been given.
    written: watch::Receiver<u64>,
    problem: Arc<Mutex<Option<Problem>>>,
    task: JoinHandle<()>,
}

impl<T: Clone + Serialize + Send + Sync + 'static> Saver<T> {
    /// Starts the writer of the value called `name`.
    ///
    /// Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(store: Store, name: &'static str) -> Self {
        let (wanted, changes) = watch::channel(None);
        let problem = Arc::<Mutex<Option<Problem>>>::default();
        let (done, written) = watch::channel(0);
        let task = tokio::spawn(write(store, name, changes, done, Arc::clone(&problem)));
        Self {
            wanted,
            written,
            problem,
            task,
        }
    }

    /// Wants `value` on the disk. Values that nobody had time to write are skipped.
    pub fn save(&self, value: T) {
        self.wanted.send_modify(|wanted| {
            let before = wanted.as_ref().map_or(0, |(count, _)| *count);
            *wanted = Some((before + 1, value));
        });
    }

    /// Waits until the last value that was wanted so far is on the disk, or was refused by it.
    pub fn settled(&self) -> impl Future<Output = ()> + Send + use<T> {
        let wanted = self.wanted.borrow().as_ref().map_or(0, |(count, _)| *count);
        let mut written = self.written.clone();
        async move {
            // An error means that the writer is gone: nothing more will be written.
            let _ = written.wait_for(|written| *written >= wanted).await;
        }
    }

    /// What is wrong with the disk.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.clone()
    }

    /// Has the last value on the disk.
    pub async fn finish(self) {
        drop(self.wanted);
        // A task that was cancelled belongs to a runtime that is ending.
        let _ = self.task.await;
    }
}

async fn write<T: Clone + Serialize + Send + Sync + 'static>(
    store: Store,
    name: &'static str,
    mut changes: watch::Receiver<Option<(u64, T)>>,
    done: watch::Sender<u64>,
    problem: Arc<Mutex<Option<Problem>>>,
) {
    // `changed` reports a value that came before the sender was dropped.
    while changes.changed().await.is_ok() {
        let value = changes.borrow_and_update().clone();
        let Some((count, value)) = value else {
            continue;
        };
        let store = store.clone();
        let saved = tokio::task::spawn_blocking(move || store.save(name, &value)).await;
        let Ok(saved) = saved else { return };
        if let Err(err) = &saved {
            let error = err as &dyn std::error::Error;
            warn!(name, error, "state is not persisted");
        }
        let told = saved.err().map(|error| error.problem());
        *problem.lock().unwrap_or_else(PoisonError::into_inner) = told;
        done.send_replace(count);
    }
}

#[cfg(test)]
mod tests {
    use kedge_core::Code;

    use super::*;

    #[tokio::test]
    async fn the_last_value_is_on_the_disk_when_the_saver_has_finished() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let saver = Saver::start(store.clone(), "n");
        for n in 0..100 {
            saver.save(n);
        }
        saver.finish().await;
        assert_eq!(store.load::<i32>("n").value, Some(99));
    }

    #[tokio::test]
    async fn whoever_waits_goes_on_when_the_disk_has_what_was_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let saver = Saver::start(store.clone(), "n");
        saver.settled().await;
        for n in 0..10 {
            saver.save(n);
            saver.settled().await;
            assert_eq!(store.load::<i32>("n").value, Some(n));
        }
    }

    #[tokio::test]
    async fn a_disk_that_takes_nothing_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("blocked");
        std::fs::write(&blocked, "").unwrap();
        let saver = Saver::start(Store::new(&blocked), "n");
        saver.save(1);
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let problem = loop {
            if let Some(problem) = saver.problem() {
                break problem;
            }
            assert!(std::time::Instant::now() < limit, "no problem was told");
            tokio::task::yield_now().await;
        };
        assert_eq!(problem.code, Code::HostStateNotPersisted);
    }
}
