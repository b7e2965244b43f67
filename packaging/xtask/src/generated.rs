//! Files that a program of the project writes and the repository keeps.

use std::{fs, path::Path, process::Command};

use anyhow::bail;

use crate::{programs, run};

/// A folder of such files.
pub struct Generated {
    /// The task that writes them.
    pub task: &'static str,
    /// The example that does so into the folder it is given.
    pub example: &'static str,
    /// Where they are kept, from the project's root.
    pub target: &'static str,
}

impl Generated {
    /// Writes the files, or fails when they differ.
    pub fn settle(&self, check: bool) -> anyhow::Result<()> {
        let target = run::root()?.join(self.target);
        let name = format!("kedge-{}-{}", self.task, std::process::id());
        let fresh = std::env::temp_dir().join(name);
        fs::create_dir_all(&fresh)?;
        let written = self.write(&fresh);
        let outcome = written.and_then(|()| self.compare(&fresh, &target, check));
        fs::remove_dir_all(&fresh)?;
        outcome
    }

    fn write(&self, fresh: &Path) -> anyhow::Result<()> {
        let mut generator = Command::new(programs::example(self.example)?);
        let name = format!("{}: generate", self.task);
        run::step(&name, generator.arg(fresh))
    }

    fn compare(&self, fresh: &Path, target: &Path, check: bool) -> anyhow::Result<()> {
        let wanted = listing(fresh)?;
        let present = if target.exists() {
            listing(target)?
        } else {
            Vec::new()
        };
        if check {
            let all = wanted.iter().chain(&present);
            let stale: Vec<&String> = all
                .filter(|name| fs::read(fresh.join(name)).ok() != fs::read(target.join(name)).ok())
                .collect();
            if !stale.is_empty() {
                let (target, task) = (self.target, self.task);
                bail!("{target} differs from the program: {stale:?}; run `cargo xtask {task}`");
            }
            return Ok(());
        }
        for name in present.iter().filter(|name| !wanted.contains(name)) {
            fs::remove_file(target.join(name))?;
        }
        for name in &wanted {
            let path = target.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(fresh.join(name), path)?;
        }
        println!("{}: {} generated files", self.task, wanted.len());
        Ok(())
    }
}

/// The files below a folder, as paths relative to it.
pub fn listing(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                names.push(path.strip_prefix(folder)?.display().to_string());
            }
        }
    }
    names.sort();
    Ok(names)
}
