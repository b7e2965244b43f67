//! A place of its own for each node among the control groups: two systems that shared one would stop
//! each other's services.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kedge_net::netns::Lease;

/// Control groups of one node, one in each hierarchy that systemd uses.
#[derive(Debug)]
pub struct Cgroup {
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes them, below those of this process.
    pub fn create(name: &str) -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let folders: Vec<_> = own.lines().filter_map(|line| folder(line, name)).collect();
        assert!(!folders.is_empty(), "no control groups are mounted");
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        Self { folders }
    }

    /// What a shell does to move itself there.
    pub fn enter(&self) -> String {
        let enter = |folder: &PathBuf| format!("echo $$ > {}/cgroup.procs; ", folder.display());
        self.folders.iter().map(enter).collect()
    }

    /// The processes of a unit of the node, as this machine numbers them.
    pub fn processes(&self, unit: &str) -> Vec<u32> {
        let mut found = Vec::new();
        for folder in &self.folders {
            for top in ["payload/system.slice", "system.slice"] {
                let list = folder.join(top).join(unit).join("cgroup.procs");
                let list = fs::read_to_string(list).unwrap_or_default();
                found.extend(list.lines().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            remove(folder);
        }
    }
}

/// Removes those of runs that were killed.
pub fn collect() {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    for all in own.lines().filter_map(|line| folder(line, "")) {
        for entry in fs::read_dir(all).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let run = name.get(..4).unwrap_or_default();
            if entry.path().is_dir() && !Lease::is_live(run) {
                remove(&entry.path());
            }
        }
    }
}

/// The node's folder in the hierarchy that a line of `/proc/self/cgroup` is about.
fn folder(line: &str, name: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let mounts: &[&str] = match controllers {
        "" => &["/sys/fs/cgroup/unified", "/sys/fs/cgroup"],
        "name=systemd" => &["/sys/fs/cgroup/systemd"],
        _ => return None,
    };
    let mount = mounts.iter().map(Path::new);
    let mount = mount
        .into_iter()
        .find(|it| it.join("cgroup.procs").exists())?;
    let own = mount.join(path.trim_start_matches('/'));
    Some(own.join("kedge-boot").join(name))
}

fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove(&entry.path());
        }
    }
    _ = fs::remove_dir(folder);
}
