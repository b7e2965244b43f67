//! Tells when something below a directory changed. A hint, not a promise: a periodic rescan
//! finds what a watch misses (network file systems, an exhausted inotify limit).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use notify::{Event, EventKind, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::directory::{OWNED, STATUS};

/// Watches a directory until dropped.
#[derive(Debug)]
pub struct Watch {
    _watcher: notify::RecommendedWatcher,
}

impl Watch {
    /// Wakes `changed` whenever a user's file below `root` is written, made, moved or removed, or
    /// one of ours is removed.
    ///
    /// # Errors
    ///
    /// The kernel refuses the watch.
    pub fn start(root: &Path, changed: Arc<Notify>) -> Result<Self, notify::Error> {
        let own = [root.join(OWNED), root.join(STATUS)];
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error may stand for lost events: look.
            if event.map_or(true, |event| matters(&event, &own)) {
                changed.notify_one();
            }
        })?;
        watcher.watch(root, RecursiveMode::Recursive)?;
        Ok(Self { _watcher: watcher })
    }
}

/// Reading is an event as well, and so are our own writes: a rescan after each would cost a fleet's
/// worth of reads for every host that reports.
fn matters(event: &Event, own: &[PathBuf; 2]) -> bool {
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    let removed = matches!(event.kind, EventKind::Remove(_));
    event.paths.is_empty()
        || event.paths.iter().any(|path| {
            let ours = own.iter().any(|own| path.starts_with(own));
            let document = path
                .extension()
                .is_some_and(|extension| extension == "yaml");
            !ours || (removed && document)
        })
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_users_changes_and_removals_of_ours_are_told() {
        let root = tempfile::tempdir().unwrap();
        let owned = root.path().join("owned/deep");
        fs::create_dir_all(&owned).unwrap();
        fs::write(owned.join("a.yaml"), "old").unwrap();
        fs::write(root.path().join("user.yaml"), "old").unwrap();
        let changed = Arc::new(Notify::new());
        let _watch = Watch::start(root.path(), Arc::clone(&changed)).unwrap();
        let told = async |wait| timeout(wait, changed.notified()).await.is_ok();

        fs::write(root.path().join("user.yaml"), "new").unwrap();
        assert!(told(Duration::from_secs(5)).await);
        while told(Duration::from_millis(100)).await {}
        super::super::files::replace(&owned.join("a.yaml"), b"new", 0o644).unwrap();
        fs::read(root.path().join("user.yaml")).unwrap();
        assert!(
            !told(Duration::from_millis(300)).await,
            "our own write, and a read"
        );
        fs::remove_file(owned.join("a.yaml")).unwrap();
        assert!(told(Duration::from_secs(5)).await);
    }
}
