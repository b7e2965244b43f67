//! A system extension: an image beside the others, and the name that systemd-sysext merges.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_core::{Code, Fix, Problem};
use kedge_host::Root;

use super::{archive::Content, files, installed::Installed, not_installed, release::Package};

/// The image that is merged.
#[derive(Debug)]
pub struct Extension {
    root: Root,
    /// The name systemd-sysext looks for.
    name: PathBuf,
    /// Where images lie.
    images: PathBuf,
}

impl Extension {
    /// Finds it.
    ///
    /// # Errors
    ///
    /// None is merged from a file.
    pub fn of(root: &Root) -> Result<Self, Problem> {
        let places = PLACES.map(|place| root.path().join(place));
        let name = places
            .into_iter()
            .find(|place| place.symlink_metadata().is_ok());
        let name = name.ok_or_else(|| {
            Problem::new(
                Code::PkgNotInstalled,
                "the image of the extension is not found",
            )
            .evidence(format!("looked for {}", PLACES.join(", ")))
            .consequence("nothing was changed")
            .fix(Fix::text("replace the extension the way it was installed"))
        })?;
        let images = match fs::read_link(&name) {
            Ok(to) => {
                let folder = name.parent().unwrap_or(Path::new("/")).join(to);
                folder.parent().unwrap_or(Path::new("/")).to_owned()
            }
            Err(_) => root.path().join(IMAGES),
        };
        Ok(Self {
            root: root.clone(),
            name,
            images,
        })
    }

    /// Where the image lies that is merged; a file under the merged name is moved to the others first.
    ///
    /// # Errors
    ///
    /// A folder cannot be written.
    pub fn image(&self, installed: &Installed) -> io::Result<PathBuf> {
        if let Ok(to) = fs::read_link(&self.name) {
            return Ok(self.name.parent().unwrap_or(Path::new("/")).join(to));
        }
        let aside = self.images.join(format!("kedge-{}.raw", installed.version));
        fs::create_dir_all(&self.images)?;
        if fs::hard_link(&self.name, &aside).is_err() {
            fs::copy(&self.name, &aside)?;
        }
        Ok(aside)
    }

    /// Writes an image beside the others, and says where.
    ///
    /// # Errors
    ///
    /// The disk is full.
    pub fn store(&self, package: &Package, bytes: Vec<u8>) -> io::Result<PathBuf> {
        let path = self.images.join(&package.name);
        files::put(&path, &Content::Bytes(bytes, 0o644))?;
        Ok(path)
    }

    /// Merges that image in place of the other, and looks whether it was.
    ///
    /// # Errors
    ///
    /// systemd-sysext fails, or merges something else.
    pub fn merge(&self, image: &Path, expected: &semver::Version) -> Result<(), Problem> {
        let link = Content::Link(image.display().to_string());
        files::put(&self.name, &link).map_err(|error| not_installed(&self.name, &error))?;
        let failed = || {
            Problem::new(
                Code::PkgNotInstalled,
                "systemd-sysext did not merge the image",
            )
            .object(image.display().to_string())
            .fix(Fix::text("see what it says").command("systemd-sysext refresh"))
        };
        let output = Command::new("systemd-sysext").arg("refresh").output();
        let output = output.map_err(|error| failed().caused_by(&error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(failed().evidence(said));
        }
        // It says nothing of an image that it refuses.
        match Installed::at(&self.root) {
            Ok(it) if it.version == *expected => Ok(()),
            Ok(it) => Err(failed().evidence(format!("{} is merged", it.version))),
            Err(problem) => Err(failed().evidence(problem.what)),
        }
    }
}

const PLACES: [&str; 3] = [
    "etc/extensions/kedge.raw",
    "run/extensions/kedge.raw",
    "var/lib/extensions/kedge.raw",
];
const IMAGES: &str = "var/lib/kedge-images";
