//! The bootable appliance: a Debian that cloud-init sets up, built by the recipe in `images/appliance`, and
//! the system extension laid over it.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

/// The system below: kernel, what finds its disk, and the disk, without Kedge.
#[derive(Clone, Debug)]
pub struct System {
    folder: PathBuf,
}

impl System {
    /// That of the recipe as it is, below a folder that keeps such systems. It is built there first where it
    /// is not: some minutes, as root, of packages of Debian.
    ///
    /// # Errors
    ///
    /// It cannot be built.
    pub fn ready(cache: &Path) -> anyhow::Result<Self> {
        let folder = cache.join(name()?);
        fs::create_dir_all(cache)?;
        // Others may want it too; one of them builds.
        let lock = fs::File::create(cache.join("appliance.lock"))?;
        lock.lock()?;
        if !folder.is_dir() {
            let partial = cache.join("appliance.partial");
            _ = fs::remove_dir_all(&partial);
            let output = Command::new(recipe().join("build"))
                .arg(&partial)
                .stdin(Stdio::null())
                .output()?;
            ensure!(
                output.status.success(),
                "the appliance's system cannot be built: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            fs::rename(&partial, &folder)?;
        }
        Ok(Self { folder })
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a disk like the system's with a system extension in it, which is merged at boot.
    ///
    /// # Errors
    ///
    /// The disk cannot be written, or debugfs is missing.
    pub fn with_extension(&self, image: &Path, disk: &Path) -> anyhow::Result<()> {
        let copied = Command::new("cp")
            .arg("--sparse=always")
            .args([&self.folder.join("disk.img"), disk])
            .status()?;
        ensure!(copied.success(), "{} cannot be written", disk.display());
        let mut debugfs = Command::new("debugfs")
            .args(["-w", "-f", "-"])
            .arg(disk)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("debugfs is missing (Debian: e2fsprogs)")?;
        let mut orders = debugfs.stdin.take().context("no way to debugfs")?;
        writeln!(orders, "mkdir {EXTENSIONS}\ncd {EXTENSIONS}")?;
        writeln!(orders, "write {} kedge.raw", image.display())?;
        drop(orders);
        let output = debugfs.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        // It ends well whatever happened; what it says beside its version is an error.
        let complaints: Vec<_> = said.lines().skip(1).collect();
        ensure!(
            output.status.success() && complaints.is_empty(),
            "the extension is not on {}: {complaints:?}",
            disk.display()
        );
        Ok(())
    }
}

/// The program that starts an appliance in QEMU.
#[must_use]
pub fn runner() -> PathBuf {
    recipe().join("run")
}

/// Whatever the recipe says is in the name: what was built before is not taken for it.
fn name() -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut folders = vec![recipe()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.path() != runner() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    for file in files {
        let path = file.strip_prefix(recipe())?.to_string_lossy().into_owned();
        hash.update(format!("{path}\n"));
        hash.update(fs::read(&file)?);
    }
    let hash = format!("{:x}", hash.finalize());
    Ok(format!("appliance-{}", hash.get(..12).unwrap_or_default()))
}

fn recipe() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images/appliance")
}

const EXTENSIONS: &str = "/var/lib/extensions";
