//! A repository of packages for apt, on a host of the LAN.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use kedge_tests_netns::lan::Host;
use sha2::{Digest as _, Sha256};

use crate::web::Web;

/// Serves this package on a host.
#[must_use]
pub fn serve(host: &Host, deb: &Path) -> Web {
    let folder = host.directory().join("repository");
    fs::create_dir(&folder).unwrap();
    let name = deb.file_name().unwrap().to_str().unwrap();
    fs::copy(deb, folder.join(name)).unwrap();
    let content = fs::read(deb).unwrap();
    let control = Command::new("dpkg-deb")
        .arg("--field")
        .arg(deb)
        .output()
        .unwrap();
    let mut packages = String::from_utf8(control.stdout).unwrap();
    let (size, sum) = (content.len(), Sha256::digest(&content));
    write!(
        packages,
        "Filename: ./{name}\nSize: {size}\nSHA256: {sum:x}\n"
    )
    .unwrap();
    let (size, sum) = (packages.len(), Sha256::digest(&packages));
    let release = format!("Suite: test\nSHA256:\n {sum:x} {size} Packages\n");
    fs::write(folder.join("Packages"), packages).unwrap();
    fs::write(folder.join("Release"), release).unwrap();
    Web::serve(host, folder)
}
