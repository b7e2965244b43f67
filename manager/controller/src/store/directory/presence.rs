//! Whether the directory is there with what it held. An unmounted file system leaves an empty
//! folder behind, and that is no wish to delete everything.

use std::{collections::BTreeMap, fs, io, os::unix::fs::MetadataExt as _, path::Path};

use super::{Directory, LAST_GOOD, OWNED, UserFile};
use crate::store::{document, files};

/// Which folder it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    pub(super) fn of(root: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(root)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

impl Directory {
    /// Fails unless the folder is the one that was opened.
    pub(super) fn is_here(&self) -> io::Result<()> {
        if Place::of(&self.root)? == self.place {
            Ok(())
        } else {
            Err(io::Error::other(
                "it is another folder than the one that was opened: \
                 its file system may have been unmounted",
            ))
        }
    }

    /// Whether documents are known although no file is there.
    pub(super) fn is_emptied(&mut self) -> bool {
        if self.user_files.is_empty() {
            self.user_files = self.remembered();
        }
        let mut files = self.user_files.values();
        files.any(|file| !file.documents.is_empty())
    }

    /// The files of the run before, as they were when last good.
    fn remembered(&self) -> BTreeMap<String, UserFile> {
        let read = |name: String| {
            let text = fs::read_to_string(self.last_good(&name)).ok()?;
            let read = document::read_all(&name, &text).into_iter();
            let documents = read.filter_map(Result::ok).collect();
            let file = UserFile {
                documents,
                ..UserFile::default()
            };
            Some((name, file))
        };
        self.last_good_names()
            .into_iter()
            .filter_map(read)
            .collect()
    }

    /// Removes the copies of files that went while no manager looked.
    pub(super) fn prune_last_good(&self) {
        let names = self.last_good_names().into_iter();
        for name in names.filter(|name| !self.user_files.contains_key(name)) {
            let _: io::Result<()> = files::remove(&self.last_good(&name), &self.root.join(OWNED));
        }
    }

    fn last_good_names(&self) -> Vec<String> {
        let base = self.root.join(OWNED).join(LAST_GOOD);
        let found = files::yaml(&base, &[]).unwrap_or_default().into_iter();
        let names = found.filter_map(|path| {
            let name = path.strip_prefix(&base).ok()?;
            Some(name.to_string_lossy().into_owned())
        });
        names.collect()
    }
}
