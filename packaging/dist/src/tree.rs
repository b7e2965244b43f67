//! The files of a package, whatever its form.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

/// Files by their path, which starts without a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Entry>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub node: Node,
    /// What a package manager is told about it.
    pub kind: Kind,
    /// Its permissions.
    pub mode: u32,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory that belongs to the package.
    Directory,
    /// A file.
    File(Vec<u8>),
    /// A symbolic link, and where it leads.
    Link(String),
}

/// What a package manager is told about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// Administrators change it: an upgrade keeps what they wrote.
    Configuration,
    /// Documentation.
    Documentation,
    /// A licence.
    Licence,
}

impl Tree {
    /// Adds an entry, or replaces it.
    pub fn add(&mut self, path: impl Into<String>, mode: u32, kind: Kind, node: Node) {
        let entry = Entry { node, kind, mode };
        self.0.insert(path.into(), entry);
    }

    /// Adds a file with the usual permissions.
    pub fn file(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.add(path, 0o644, Kind::Plain, Node::File(content.into()));
    }

    /// Its entries, by path.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The permissions of an entry.
    #[must_use]
    pub fn mode(&self, path: &str) -> Option<u32> {
        self.0.get(path).map(|entry| entry.mode)
    }

    /// Every directory on the way to an entry, parents first; those of the package itself among them.
    #[must_use]
    pub fn directories(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (path, entry) in &self.0 {
            let mut here = path.as_str();
            while let Some((parent, _)) = here.rsplit_once('/') {
                all.insert(parent.to_owned());
                here = parent;
            }
            if entry.node == Node::Directory {
                all.insert(path.clone());
            }
        }
        all
    }

    /// The entries for which this holds.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let mut entries = self.0.clone();
        entries.retain(|path, _| wanted(path));
        Self(entries)
    }

    /// How many bytes its files take.
    #[must_use]
    pub fn size(&self) -> u64 {
        let size = |entry: &Entry| match &entry.node {
            Node::File(content) => content.len() as u64,
            Node::Directory | Node::Link(_) => 0,
        };
        self.0.values().map(size).sum()
    }

    /// Writes it into a folder.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for directory in self.directories() {
            fs::create_dir_all(folder.join(directory))?;
        }
        for (path, entry) in &self.0 {
            let path = folder.join(path);
            match &entry.node {
                Node::Directory => {}
                Node::Link(to) => {
                    symlink(to, path)?;
                    continue;
                }
                Node::File(content) => fs::write(&path, content)?,
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode))?;
        }
        Ok(())
    }
}
