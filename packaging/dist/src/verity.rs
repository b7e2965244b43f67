//! A system extension that proves what it holds: a disk image of three partitions, the file system of the
//! extension, its hash tree (dm-verity), and a signature of the tree's root. Whoever has the certificate
//! reads no byte of it that was not signed.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, ensure};

/// Who signs.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// A private key, PEM.
    pub key: &'a Path,
    /// Its certificate, PEM; hosts have it in `/etc/verity.d`.
    pub certificate: &'a Path,
}

/// Writes the image of an extension again, signed, with `systemd-repart`. Salt and signature of each are
/// its own: two of them are not alike to the byte.
///
/// # Errors
///
/// `systemd-repart` is missing or does not take the key.
pub fn sign(image: &Path, signer: Signer<'_>, to: &Path) -> anyhow::Result<()> {
    let length = fs::metadata(image)?.len();
    let image = image.canonicalize()?;
    let folder = tempfile::tempdir()?;
    // A block takes 32 bytes in the tree, and systemd 252 makes them of 512: a sixteenth, and what is above it.
    let tree = (length / 14 + ROOM).next_multiple_of(BLOCK);
    for (name, more) in [
        (
            "10-root",
            // As large as it is: 10 MiB would be the least, and hashed.
            format!(
                "Type=root\nVerity=data\nCopyBlocks={}\nSizeMinBytes={BLOCK}\n",
                image.display()
            ),
        ),
        (
            "20-verity",
            format!("Type=root-verity\nVerity=hash\nSizeMinBytes={tree}\nSizeMaxBytes={tree}\n"),
        ),
        (
            "30-signature",
            "Type=root-verity-sig\nVerity=signature\n".to_owned(),
        ),
    ] {
        let text = format!("[Partition]\nVerityMatchKey=root\n{more}");
        fs::write(folder.path().join(format!("{name}.conf")), text)?;
    }
    _ = fs::remove_file(to);
    let output = Command::new("systemd-repart")
        .args([
            "--empty=create",
            "--size=auto",
            "--dry-run=no",
            "--json=off",
        ])
        .arg(format!("--definitions={}", folder.path().display()))
        .arg(format!("--private-key={}", signer.key.display()))
        .arg(format!("--certificate={}", signer.certificate.display()))
        .arg(to)
        .output()
        .context("systemd-repart is missing (Debian: systemd)")?;
    ensure!(
        output.status.success(),
        "systemd-repart ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

const BLOCK: u64 = 4096;
/// The head of the tree, and what becomes of a small image.
const ROOM: u64 = 64 * 1024;
