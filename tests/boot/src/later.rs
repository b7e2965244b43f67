//! A later Debian than the nodes', for what theirs has not. It is not booted: its programs run among its files.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use kedge_tests_netns::{
    asked::Said,
    lan::{Host, Lan},
};

use crate::{base::LATER, tree::Tree};

/// Its files, on a host of the LAN.
#[derive(Debug)]
pub struct Later<'a> {
    host: &'a Host,
    tree: Tree,
}

impl<'a> Later<'a> {
    /// With files of its own.
    #[must_use]
    pub fn on(lan: &Lan, host: &'a Host) -> Self {
        let tree = Tree::of(LATER, lan.id(), "later", None);
        Self { host, tree }
    }

    /// Where a file is.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.root().join(path)
    }

    /// Writes a file.
    pub fn write(&self, path: &str, content: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs a line of its shell, in the network of its host and with mounts that go with it.
    #[must_use]
    pub fn run(&self, line: &str) -> Said {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "sh", "-c", INSIDE, "sh"])
            .arg(self.tree.root())
            .arg(line)
            .stdin(Stdio::null());
        Said::of(&self.host.run(move || command.output().unwrap()))
    }
}

const INSIDE: &str = "set -e; cd \"$1\"; mount -t proc proc proc; mount --rbind /dev dev; \
                      mount -t tmpfs tmpfs tmp; mount -t tmpfs tmpfs run; \
                      exec chroot . sh -c \"$2\"";
