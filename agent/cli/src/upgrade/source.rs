//! Where a release is: a folder, one of its files, or the address of either.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use kedge_core::{Code, Fix, Problem};
use kedge_host::download;
use sha2::{Digest as _, Sha256};

use super::{
    keys::{Trusted, tampered},
    release::{Package, Release},
};
use crate::{client::Failure, roles};

/// A place with a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    place: Place,
    /// The package that was named, where it was one.
    pub named: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    /// Without a slash at its end.
    Server(String),
}

impl Source {
    /// What was named on the command line.
    pub fn of(text: &str) -> Self {
        let is_a_package = |name: &str| {
            [".deb", ".rpm", ".raw", ".tar.xz"]
                .iter()
                .any(|end| name.ends_with(end))
        };
        if text.starts_with("https://") || text.starts_with("http://") {
            let text = text.trim_end_matches('/');
            return match text.rsplit_once('/') {
                Some((folder, name)) if is_a_package(name) => Self {
                    place: Place::Server(folder.to_owned()),
                    named: Some(name.to_owned()),
                },
                _ => Self {
                    place: Place::Server(text.to_owned()),
                    named: None,
                },
            };
        }
        let path = Path::new(text);
        let name = path.file_name().and_then(|it| it.to_str());
        match name.filter(|name| is_a_package(name)) {
            Some(name) => Self {
                place: Place::Folder(path.parent().unwrap_or(Path::new("")).to_owned()),
                named: Some(name.to_owned()),
            },
            None => Self {
                place: Place::Folder(path.to_owned()),
                named: None,
            },
        }
    }

    /// What is published there, and whose signature it bears.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not what somebody signed whom this host trusts.
    pub fn release(&self, trusted: &Trusted) -> Result<(Release, PathBuf), Failure> {
        let sums = self.read(SUMS, SMALL)?;
        let signature = self.read(SIGNATURE, SMALL)?;
        let signature =
            String::from_utf8(signature).map_err(|_| tampered("its signature cannot be read"))?;
        let by = trusted.verify(&sums, &signature)?.to_owned();
        let sums = String::from_utf8(sums)
            .map_err(|_| tampered("its list of checksums cannot be read"))?;
        let release = Release::parse(&sums)
            .map_err(|error| tampered("its list of checksums cannot be read").caused_by(&error))?;
        Ok((release, by))
    }

    /// The bytes of a package, which are those that were signed.
    ///
    /// # Errors
    ///
    /// They cannot be read, or are others.
    pub fn package(&self, package: &Package) -> Result<Vec<u8>, Failure> {
        let bytes = self.read(&package.name, LARGE)?;
        let found = Sha256::digest(&bytes);
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        if found != package.sha256 {
            return Err(
                tampered("a package has another checksum than the signed one")
                    .object(package.name.clone())
                    .evidence(format!("signed: {}", package.sha256))
                    .evidence(format!("found:  {found}"))
                    .into(),
            );
        }
        Ok(bytes)
    }

    fn read(&self, name: &str, at_most: usize) -> Result<Vec<u8>, Failure> {
        match &self.place {
            Place::Folder(folder) => {
                let path = folder.join(name);
                bounded(&path, at_most)
                    .map_err(|error| unreadable(&path.display().to_string(), &error).into())
            }
            Place::Server(folder) => {
                let address = format!("{folder}/{name}");
                let got = roles::calm_runtime()?.block_on(download::get(&address, at_most, WITHIN));
                match got {
                    Ok(bytes) => Ok(bytes.to_vec()),
                    Err(error) => Err(unreadable(&address, &error).into()),
                }
            }
        }
    }
}

fn bounded(path: &Path, at_most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(at_most).unwrap_or(u64::MAX);
    let read = fs::File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if read > at_most {
        return Err(io::Error::other(format!(
            "it has more than {at_most} bytes"
        )));
    }
    Ok(bytes)
}

fn unreadable(place: &str, error: &dyn std::error::Error) -> Problem {
    let problem = Problem::new(Code::PkgUnreachable, Code::PkgUnreachable.title())
        .object(place.to_owned())
        .caused_by(error)
        .consequence("nothing was changed");
    problem.fix(Fix::text(
        "name the folder, the package or the address of a release that is signed: SHA256SUMS and \
         SHA256SUMS.minisig are beside its packages",
    ))
}

const SUMS: &str = "SHA256SUMS";
const SIGNATURE: &str = "SHA256SUMS.minisig";
const SMALL: usize = 64 * 1024;
const LARGE: usize = 128 * 1024 * 1024;
/// For a package over a slow line.
const WITHIN: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_a_package_and_the_address_of_either_are_told_apart() {
        let of = |text: &str| {
            let source = Source::of(text);
            let place = match source.place {
                Place::Folder(path) => path.display().to_string(),
                Place::Server(url) => url,
            };
            (place, source.named)
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(of("/mnt/usb"), ("/mnt/usb".into(), None));
        assert_eq!(
            of("/mnt/kedge_1_amd64.deb"),
            ("/mnt".into(), named("kedge_1_amd64.deb"))
        );
        assert_eq!(
            of("kedge-1-x86-64.raw"),
            (String::new(), named("kedge-1-x86-64.raw"))
        );
        assert_eq!(
            of("https://a.example/kedge/"),
            ("https://a.example/kedge".into(), None)
        );
        assert_eq!(
            of("https://a.example/kedge/kedge-1.x86_64.rpm"),
            (
                "https://a.example/kedge".into(),
                named("kedge-1.x86_64.rpm")
            )
        );
    }
}
