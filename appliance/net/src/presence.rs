//! Whether a file is there, and the moment that changes.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

use crate::sys;

/// Watches one path. What the kernel does not tell (a network file system, a directory that comes
/// later) is found by asking [`is_there`](Self::is_there) now and then.
#[derive(Debug)]
pub struct Presence {
    path: PathBuf,
    fd: AsyncFd<OwnedFd>,
}

impl Presence {
    /// Watches `path`, on the current runtime.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left, or the user too many watches.
    pub fn watch(path: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let presence = Self {
            path: path.to_owned(),
            fd: sys::descriptor::watch(fd)?,
        };
        presence.look();
        Ok(presence)
    }

    /// Whether the file is there; an error is one that cannot be told.
    ///
    /// # Errors
    ///
    /// A directory above it must not be entered, or the disk does not answer.
    pub fn is_there(&self) -> io::Result<bool> {
        // A directory that was made anew since is another one.
        self.look();
        self.path.try_exists()
    }

    /// Waits until something happened in its directory. Loses nothing when it is cancelled.
    ///
    /// # Errors
    ///
    /// The runtime is ending.
    pub async fn stirred(&self) -> io::Result<()> {
        let mut ready = self.fd.readable().await?;
        // Cleared first: what happens while reading makes it ready again.
        ready.clear_ready();
        let mut space = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(ready.get_inner(), &mut space);
        while events.next().is_ok() {}
        Ok(())
    }

    /// Watches the directory; doing so again costs nothing.
    fn look(&self) {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        // Where there is none there is no file either, and the next look may find one.
        let _ = inotify::add_watch(self.fd.get_ref(), directory, EVENTS);
    }
}

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    async fn stirs(presence: &Presence) -> bool {
        let limit = Duration::from_secs(5);
        tokio::time::timeout(limit, presence.stirred())
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn a_file_that_comes_and_goes_is_told_at_once() {
        let path = std::env::temp_dir().join(format!("kedge-presence-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let file = path.join("deeper").join("ready");
        let presence = Presence::watch(&file).unwrap();
        assert!(!presence.is_there().unwrap(), "nor is its directory");
        fs::create_dir(path.join("deeper")).unwrap();
        assert!(!presence.is_there().unwrap());
        fs::write(&file, "").unwrap();
        assert!(stirs(&presence).await && presence.is_there().unwrap());
        fs::rename(&file, path.join("other")).unwrap();
        assert!(stirs(&presence).await && !presence.is_there().unwrap());
        fs::rename(path.join("other"), &file).unwrap();
        assert!(stirs(&presence).await && presence.is_there().unwrap());
        fs::remove_file(&file).unwrap();
        assert!(stirs(&presence).await && !presence.is_there().unwrap());
        fs::remove_dir_all(path).unwrap();
    }
}
