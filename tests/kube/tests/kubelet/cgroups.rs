//! A cgroup of the test's own in every hierarchy there is, of either version, and its end.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A cgroup of one name in all hierarchies. It goes with everything below it.
pub struct Cgroups {
    name: String,
}

impl Cgroups {
    /// Why there can be none.
    pub fn missing() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("a node's cgroups need root".to_owned());
        }
        let all = hierarchies();
        for controller in ["cpu", "cpuset", "memory", "pids"] {
            if !all.iter().any(|it| has(it, controller)) {
                return Some(format!("a node needs the cgroup controller {controller}"));
            }
        }
        None
    }

    /// Makes them. Those of runs that were killed go.
    pub fn create() -> Self {
        for hierarchy in hierarchies() {
            for entry in fs::read_dir(hierarchy).unwrap().flatten() {
                let name = entry.file_name().into_string().unwrap_or_default();
                let owner = name.strip_prefix(PREFIX);
                if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                    remove(&entry.path());
                }
            }
        }
        let name = format!("{PREFIX}{}", std::process::id());
        for hierarchy in hierarchies() {
            fs::create_dir_all(hierarchy.join(&name)).unwrap();
        }
        Self { name }
    }

    /// Their name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for hierarchy in hierarchies() {
            let own = hierarchy.join(&self.name);
            let begun = Instant::now();
            // The last processes may still be ending.
            while !remove(&own) && begun.elapsed() < LIMIT {
                std::thread::sleep(Duration::from_millis(20));
            }
            if own.exists() {
                eprintln!("{} is left", own.display());
            }
        }
    }
}

/// The roots of what is mounted: one of version 2, or one of each controller of version 1.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.procs").exists() {
        return vec![root.to_owned()];
    }
    let all = fs::read_dir(root).into_iter().flatten().flatten();
    // Links are other names of the same.
    let all = all.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    let all = all.map(|entry| entry.path());
    all.filter(|path| path.join("cgroup.procs").exists())
        .collect()
}

fn has(hierarchy: &Path, controller: &str) -> bool {
    let of_version_2 = fs::read_to_string(hierarchy.join("cgroup.controllers"));
    if let Ok(all) = of_version_2 {
        return all.split_whitespace().any(|it| it == controller);
    }
    let name = hierarchy.file_name().unwrap_or_default().to_string_lossy();
    name.split(',').any(|it| it == controller)
}

/// Removes a cgroup and those below it; whether it is gone.
fn remove(path: &Path) -> bool {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            remove(&entry.path());
        }
    }
    fs::remove_dir(path).is_ok() || !path.exists()
}

const PREFIX: &str = "kedge-kubelet-";
const LIMIT: Duration = Duration::from_secs(10);
