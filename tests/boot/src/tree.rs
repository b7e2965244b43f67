//! The files of a node: the base system, Kedge as a package installs it, and what the node has of its
//! own, in layers.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use kedge_dist::Form;
use kedge_net::netns::{self, Lease};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::{
    base::{self, Recipe},
    cgroup,
};

/// A node's files; they go when it is dropped.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    _folder: TempDir,
}

impl Tree {
    /// The files of a node of the run with that id, with this executable as a package installs it, or
    /// without Kedge.
    pub fn new(run: &str, name: &str, kedge: Option<&Path>) -> Self {
        let tree = Self::of(base::NODES, run, name, kedge);
        tree.write("etc/machine-id", "");
        tree.write("etc/hostname", &format!("{name}\n"));
        if kedge.is_some() {
            let groups = fs::read_to_string(tree.root.join("etc/group")).unwrap();
            tree.write("etc/group", &format!("{groups}kedge:x:{GROUP}:\n"));
            tree.write(LIMITS.0, LIMITS.1);
        }
        tree
    }

    /// The files of another system as they are, with this executable or without.
    pub fn of(recipe: Recipe, run: &str, name: &str, kedge: Option<&Path>) -> Self {
        let base = recipe.ready();
        let nodes = base::cache().join("nodes");
        fs::create_dir_all(&nodes).unwrap();
        collect(&nodes);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{run}-{name}-"))
            .tempdir_in(nodes)
            .unwrap();
        let part = |name: &str| {
            let part = folder.path().join(name);
            fs::create_dir(&part).unwrap();
            part
        };
        let (package, upper, work, root) = (part("kedge"), part("up"), part("work"), part("root"));
        if let Some(kedge) = kedge {
            install(&package, kedge);
        }
        let layers = format!(
            "lowerdir={}:{},upperdir={},workdir={}",
            package.display(),
            base.display(),
            upper.display(),
            work.display()
        );
        let layers = std::ffi::CString::new(layers).unwrap();
        mount(
            "overlay",
            &root,
            "overlay",
            MountFlags::empty(),
            layers.as_c_str(),
        )
        .unwrap();
        Self {
            root,
            _folder: folder,
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file of the node's own.
    pub fn write(&self, path: &str, text: &str) {
        write(&self.root, path, text);
    }

    /// Enables a unit of the system.
    pub fn enable(&self, unit: &str) {
        let wants = self.root.join("etc/systemd/system/multi-user.target.wants");
        fs::create_dir_all(&wants).unwrap();
        link(&format!("/lib/systemd/system/{unit}"), &wants.join(unit));
    }

    /// Another name for a unit, under which D-Bus starts it.
    pub fn alias(&self, unit: &str, name: &str) {
        let system = self.root.join("etc/systemd/system");
        link(&format!("/lib/systemd/system/{unit}"), &system.join(name));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}

fn link(to: &str, path: &Path) {
    _ = fs::remove_file(path);
    symlink(to, path).unwrap();
}

/// What a package installs.
fn install(package: &Path, kedge: &Path) {
    let files = kedge_dist::table(Form::Deb)
        .only(|path| path.starts_with("usr/lib/") || path.starts_with("usr/share/dbus-1/"));
    files.write(package).unwrap();
    let programs = package.join("usr/bin");
    fs::create_dir_all(&programs).unwrap();
    let program = programs.join("kedge");
    if fs::hard_link(kedge, &program).is_err() {
        fs::copy(kedge, &program).unwrap();
    }
}

/// Writes a file below a root, and its folders.
pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Removes what runs left that were killed: systemd-nspawn outlives them.
pub fn collect(nodes: &Path) {
    _ = netns::collect();
    cgroup::collect();
    for entry in fs::read_dir(nodes).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let run = name.split('-').next().unwrap_or_default();
        if !Lease::is_live(run) {
            _ = unmount(entry.path().join("root"), UnmountFlags::DETACH);
            _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The number of the group `kedge` where no package made it.
pub const GROUP: u32 = 990;

/// Where PID 1 may not raise limits, as in a container on a machine that may not, real time and locked
/// memory take capabilities.
const LIMITS: (&str, &str) = (
    "etc/systemd/system/kedge-agent.service.d/10-limits.conf",
    "[Service]\nCapabilityBoundingSet=CAP_IPC_LOCK CAP_SYS_NICE\n",
);
