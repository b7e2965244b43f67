//! Builds what was built once more, from a clone at another place and into another folder, and compares.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// Where it is built again.
#[derive(Debug)]
pub struct Again {
    clone: PathBuf,
    target: PathBuf,
    packages: PathBuf,
}

impl Again {
    /// In a folder that is made for it.
    ///
    /// # Errors
    ///
    /// It is there already, or something of the work tree is not committed: a clone would not have it.
    pub fn within(folder: &Path, root: &Path) -> anyhow::Result<Self> {
        let changed = said(Command::new("git").args(["status", "--porcelain"]), root)?;
        ensure!(
            changed.is_empty(),
            "not everything is committed:\n{changed}"
        );
        fs::create_dir(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        // Of another length, and deeper.
        let clone = folder.join("somewhere/else/clone");
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "."]).arg(&clone);
        said(&mut git, root)?;
        Ok(Self {
            clone,
            target: folder.join("built"),
            packages: folder.join("packages"),
        })
    }

    /// Builds it there, told the same.
    ///
    /// # Errors
    ///
    /// It does not build.
    pub fn build(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let program = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let status = Command::new(program)
            .args(["run", "--quiet", "--package", "kedge-packaging-dist", "--"])
            .args(arguments)
            .arg("--out")
            .arg(&self.packages)
            .env("CARGO_TARGET_DIR", &self.target)
            .current_dir(&self.clone)
            .status()?;
        ensure!(status.success(), "it does not build again");
        Ok(())
    }

    /// Whether every package is the same to the byte as the one beside this list. Each has the executable in it.
    ///
    /// # Errors
    ///
    /// One is not, or is missing.
    pub fn compare(&self, first: &Path) -> anyhow::Result<usize> {
        let list = |folder: &Path| -> anyhow::Result<String> {
            let path = folder.join("SHA256SUMS");
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        same(&list(first)?, &list(&self.packages)?)
    }
}

/// How many files both lists have, each with the same sum.
fn same(first: &str, second: &str) -> anyhow::Result<usize> {
    let second = sums(second);
    ensure!(!second.is_empty(), "nothing was built again");
    let first = sums(first);
    for (name, sum) in &second {
        let before = first.get(name);
        ensure!(before.is_some(), "{name} was not built before");
        ensure!(before == Some(sum), "{name} is another one each time");
    }
    Ok(second.len())
}

/// Names, and the sum of each.
fn sums(list: &str) -> BTreeMap<&str, &str> {
    let lines = list.lines().filter_map(|line| line.split_once("  "));
    lines.map(|(sum, name)| (name, sum)).collect()
}

fn said(command: &mut Command, folder: &Path) -> anyhow::Result<String> {
    let output = command.current_dir(folder).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}");
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn lists_are_the_same_when_each_file_of_the_second_is_that_of_the_first() {
        let first = "aa  kedge.deb\nbb  kedge.rpm\ncc  an-older-one.deb\n";
        assert_eq!(same(first, "bb  kedge.rpm\naa  kedge.deb\n").unwrap(), 2);
        let other = same(first, "aa  kedge.deb\nbc  kedge.rpm\n").unwrap_err();
        assert_eq!(other.to_string(), "kedge.rpm is another one each time");
        assert!(same(first, "dd  kedge.raw\n").is_err());
        assert!(same(first, "").is_err());
    }
}
