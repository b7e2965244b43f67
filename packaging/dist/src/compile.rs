//! Builds the executable that is packaged: linked statically, without a path of this machine in it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

use crate::Machine;

/// What is in the executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// What hosts carry: no manager, no lab (docs/adr/0021).
    Hosts,
    /// Everything.
    Whole,
}

impl Edition {
    /// What cargo is told.
    pub(crate) const fn features(self) -> &'static [&'static str] {
        match self {
            Self::Hosts => &["--no-default-features"],
            Self::Whole => &[],
        }
    }
}

/// Builds it with this profile, and says where it is.
///
/// # Errors
///
/// It does not build.
pub fn kedge(
    root: &Path,
    machine: Machine,
    edition: Edition,
    profile: &str,
) -> anyhow::Result<PathBuf> {
    let target = machine.target();
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let program = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let home = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => Path::new(&env::var_os("HOME").context("no home")?).join(".cargo"),
    };
    // The order in which one replaces another is the last that fits.
    let places = [
        (home.as_path(), "/cargo"),
        (folder.as_path(), "/target"),
        (root, "/kedge"),
    ];
    let mut rust = String::from("-Ctarget-feature=+crt-static");
    let mut c = String::new();
    for (from, to) in places {
        let from = from.display();
        rust.push_str(&format!(" --remap-path-prefix={from}={to}"));
        c.push_str(&format!(" -ffile-prefix-map={from}={to}"));
    }
    let mut build = Command::new(program);
    for (name, tool) in machine.cross_tools() {
        if env::var_os(name).is_none() {
            build.env(name, tool);
        }
    }
    let status = build
        .args([
            "build",
            "--locked",
            "--package",
            "kedge-agent-cli",
            "--bin",
            "kedge",
        ])
        .args(["--profile", profile, "--target", target])
        .args(edition.features())
        .env("RUSTFLAGS", rust)
        .env("CFLAGS", c)
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the executable does not build");
    let place = if profile == "dev" { "debug" } else { profile };
    let built = folder.join(target).join(place).join("kedge");
    ensure!(fs::exists(&built)?, "{} is not there", built.display());
    Ok(built)
}
