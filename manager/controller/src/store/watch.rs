//! Tells when something below a directory changed. A hint, not a promise: a periodic rescan
//! finds what a watch misses (network file systems, an exhausted inotify limit).

use std::{path::Path, sync::Arc};

use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// Watches a directory until dropped.
#[derive(Debug)]
pub struct Watch {
    _watcher: notify::RecommendedWatcher,
}

impl Watch {
    /// Wakes `changed` whenever something below `root` is written, made, moved or removed.
    ///
    /// # Errors
    ///
    /// The kernel refuses the watch.
    pub fn start(root: &Path, changed: Arc<Notify>) -> Result<Self, notify::Error> {
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // Reading is an event as well: without this check a rescan would cause the next one.
                let read_only = event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_)));
                if !read_only {
                    changed.notify_one();
                }
            })?;
        watcher.watch(root, RecursiveMode::Recursive)?;
        Ok(Self { _watcher: watcher })
    }
}
