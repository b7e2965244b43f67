//! What the program writes about itself: man pages, completions, schemas.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, ensure};

use crate::{
    archive,
    tree::{Kind, Node, Tree},
};

/// Runs the program, with another one before it where this machine does not run it itself.
pub struct Program<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// What runs it, such as `qemu-aarch64-static`.
    pub runner: Option<&'a str>,
}

impl Program<'_> {
    fn says(&self, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
        let mut command = match self.runner {
            Some(runner) => {
                let mut command = Command::new(runner);
                command.arg(self.path);
                command
            }
            None => Command::new(self.path),
        };
        let output = command
            .args(arguments)
            .env_clear()
            .output()
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        ensure!(
            output.status.success(),
            "{} {} ended with {}: {}",
            self.path.display(),
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output.stdout)
    }

    /// The version, without the program's name.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn version(&self) -> anyhow::Result<String> {
        let said = String::from_utf8(self.says(&["version", "-o", "name"])?)?;
        Ok(said.trim().to_owned())
    }

    /// Everything it writes.
    ///
    /// # Errors
    ///
    /// It does not run, or refuses.
    pub fn pages(&self) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        let folder = tempfile::tempdir()?;
        let place = folder.path().to_str().context("an odd temporary folder")?;
        self.says(&["man", place])?;
        for page in fs::read_dir(folder.path())? {
            let page = page?;
            let name = page.file_name().into_string().unwrap_or_default();
            let packed = archive::gzip(&fs::read(page.path())?)?;
            let path = format!("usr/share/man/man1/{name}.gz");
            tree.add(path, 0o644, Kind::Documentation, Node::File(packed));
        }
        for (shell, path) in COMPLETIONS {
            tree.file(*path, self.says(&["completions", shell])?);
        }
        for role in ["agent", "gateway"] {
            let path = format!("usr/share/kedge/{role}.schema.json");
            tree.file(path, self.says(&["config", "schema", "--role", role])?);
        }
        Ok(tree)
    }
}

const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/kedge"),
    ("fish", "usr/share/fish/vendor_completions.d/kedge.fish"),
    ("zsh", "usr/share/zsh/site-functions/_kedge"),
];
