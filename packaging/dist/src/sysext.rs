//! System extensions: what `systemd-sysext` lays over a `/usr` that nobody writes.

use std::{path::Path, process::Command};

use anyhow::{Context as _, ensure};

use crate::{Build, form::Form, tree::Tree};

/// Its files: `/usr` alone, and what says for which systems.
///
/// # Errors
///
/// As [`Build::tree`].
pub fn tree(build: &Build) -> anyhow::Result<Tree> {
    let mut tree = build
        .tree(Form::Sysext)?
        .only(|path| path.starts_with("usr/"));
    let machine = build.machine.systemd();
    tree.file(
        format!("usr/lib/extension-release.d/extension-release.{NAME}"),
        format!("ID=_any\nARCHITECTURE={machine}\nEXTENSION_RELOAD_MANAGER=1\n"),
    );
    Ok(tree)
}

/// Writes it as an image, with `mksquashfs`: a raw file is what systems verify and download.
pub(crate) fn write(build: &Build, to: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    tree(build)?.write(&root)?;
    // 19 where xz tries 9.
    let level = (1 + build.level.min(9) * 2).to_string();
    let output = Command::new("mksquashfs")
        .arg(&root)
        .arg(to)
        .args(["-noappend", "-no-progress", "-quiet", "-all-root"])
        .args(["-comp", "zstd", "-Xcompression-level", &level, "-b", "256K"])
        // Neither how many processors there are nor the hour it is may show.
        .args(["-processors", "1", "-root-mode", "0755"])
        .args(["-all-time", &build.epoch.to_string()])
        .args(["-mkfs-time", &build.epoch.to_string()])
        .env_remove("SOURCE_DATE_EPOCH")
        .output()
        .context("mksquashfs is missing (Debian: squashfs-tools)")?;
    ensure!(
        output.status.success(),
        "mksquashfs ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Its file name. Where it is merged it is called `kedge.raw`.
pub(crate) fn name(build: &Build) -> String {
    let (version, machine) = (&build.version, build.machine.systemd());
    format!("{NAME}-{version}-{machine}.raw")
}

const NAME: &str = "kedge";
