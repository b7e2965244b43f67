//! Packages: the host's package manager installs what was verified.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_control::local::PackageForm;
use kedge_core::{Code, Fix, Problem};
use semver::Version;

use super::{
    archive::Content,
    files,
    kept::Kept,
    release::{HERE, Package, Release},
};

/// Writes a package to where it stays for a way back, and says where that is. What is older than the version
/// before goes.
///
/// # Errors
///
/// The disk is full.
pub fn store(kept: &Kept, package: &Package, bytes: Vec<u8>) -> io::Result<PathBuf> {
    let folder = kept.packages()?;
    let path = folder.join(&package.name);
    files::put(&path, &Content::Bytes(bytes, 0o644))?;
    let mut others: Vec<_> = fs::read_dir(&folder)?.flatten().collect();
    others.retain(|entry| entry.path() != path);
    others.sort_by_key(|entry| entry.metadata().and_then(|it| it.modified()).ok());
    let too_many = others.len().saturating_sub(1);
    for entry in others.into_iter().take(too_many) {
        fs::remove_file(entry.path())?;
    }
    Ok(path)
}

/// The package of a version that was installed before: one that an upgrade left, or apt's own.
pub fn stored(kept: &Kept, root: &Path, form: PackageForm, version: &Version) -> Option<PathBuf> {
    let folders = [kept.packages().ok()?, root.join("var/cache/apt/archives")];
    folders.into_iter().find_map(|folder| {
        let names = fs::read_dir(&folder).ok()?.flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let found = Release::of_names(names).choose((form, HERE), None, Some(version))?;
        Some(folder.join(found.name))
    })
}

/// What somebody would type to install it.
pub fn command(form: PackageForm, path: &Path) -> String {
    let (program, arguments) = how(form);
    format!("{program} {} {}", arguments.join(" "), path.display())
}

/// Has the package manager install it; a downgrade is one as well.
///
/// # Errors
///
/// It refuses, with what it said.
pub fn install(form: PackageForm, path: &Path) -> Result<(), Problem> {
    let (program, arguments) = how(form);
    let failed = || {
        Problem::new(
            Code::PkgNotInstalled,
            format!("{program} did not install it"),
        )
        .object(path.display().to_string())
        .fix(Fix::text("see what it says").command(command(form, path)))
    };
    let output = Command::new(program)
        .args(arguments)
        .arg(path)
        .env("DEBIAN_FRONTEND", OsStr::new("noninteractive"))
        .output()
        .map_err(|error| failed().caused_by(&error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut last: Vec<&str> = said.lines().rev().take(5).collect();
    last.reverse();
    Err(failed()
        .evidence(format!("it ended with {}", output.status))
        .evidence(last.join("\n")))
}

const fn how(form: PackageForm) -> (&'static str, &'static [&'static str]) {
    match form {
        PackageForm::Rpm => ("rpm", &["--upgrade", "--oldpackage"]),
        // What an administrator wrote stays, and nobody is asked about it.
        _ => ("dpkg", &["--force-confold", "--install"]),
    }
}
