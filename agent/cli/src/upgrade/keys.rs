//! Whose releases this host trusts: public keys of minisign's.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use kedge_core::{Code, Fix, Problem};
use kedge_host::Root;
use minisign_verify::{Error, PublicKey, Signature};

/// The keys that are trusted, by their file.
#[derive(Debug)]
pub struct Trusted(BTreeMap<PathBuf, PublicKey>);

impl Trusted {
    /// This key alone, or those of the packages and of the administrator. A file of the administrator's takes
    /// the place of a packages' one of its name; where it is empty, that key is trusted no longer.
    ///
    /// # Errors
    ///
    /// A key cannot be read.
    pub fn of(root: &Root, alone: Option<&Path>) -> Result<Self, Problem> {
        if let Some(path) = alone {
            let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
            let key = PublicKey::decode(&text).map_err(|error| unreadable(path, &error))?;
            return Ok(Self([(path.to_owned(), key)].into()));
        }
        let mut files = BTreeMap::new();
        for folder in [root.vendor_dir(), root.config_dir()] {
            for path in keys_in(&folder.join(FOLDER))? {
                files.insert(path.file_name().map(ToOwned::to_owned), path);
            }
        }
        let mut keys = BTreeMap::new();
        for path in files.into_values() {
            let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
            if !text.trim().is_empty() {
                let key = PublicKey::decode(&text).map_err(|error| unreadable(&path, &error))?;
                keys.insert(path, key);
            }
        }
        Ok(Self(keys))
    }

    /// Whose signature of these bytes this is.
    ///
    /// # Errors
    ///
    /// It is nobody's whom this host trusts, or the bytes are others.
    pub fn verify(&self, bytes: &[u8], signature: &str) -> Result<&Path, Problem> {
        let signature = Signature::decode(signature)
            .map_err(|error| tampered("its signature cannot be read").caused_by(&error))?;
        for (path, key) in &self.0 {
            match key.verify(bytes, &signature, false) {
                Ok(()) => return Ok(path),
                Err(Error::UnexpectedKeyId) => {}
                Err(error) => {
                    let what = "its signature is of another list of checksums";
                    let by = format!("checked with {}", path.display());
                    return Err(tampered(what).evidence(by).caused_by(&error));
                }
            }
        }
        Err(self.stranger(&signature))
    }

    fn stranger(&self, signature: &Signature) -> Problem {
        let tried = self.0.keys().map(|path| path.display().to_string());
        let tried = match tried.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "this host trusts no key at all".to_owned(),
            tried => format!("this host trusts {tried}"),
        };
        let says = signature.untrusted_comment();
        let says = says.strip_prefix("untrusted comment: ").unwrap_or(says);
        Problem::new(Code::PkgUntrusted, Code::PkgUntrusted.title())
            .evidence(format!("the signature says of itself: {says}"))
            .evidence(tried)
            .consequence("nothing was changed")
            .fix(
                Fix::text(
                    "compare the release's public key with one you know from another place, \
                     and keep it in /etc/kedge/keys, or name it",
                )
                .command("kedge upgrade --key FILE …"),
            )
    }
}

/// A release whose parts do not belong together.
pub fn tampered(what: impl Into<String>) -> Problem {
    Problem::new(Code::PkgTampered, Code::PkgTampered.title())
        .evidence(what)
        .consequence("nothing was changed")
        .fix(Fix::text(
            "fetch it again, from the place it is published at; if it stays so, tell whoever publishes it",
        ))
}

fn keys_in(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.extension().is_some_and(|it| it == "pub") {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> Problem {
    Problem::new(Code::PkgUntrusted, "a key cannot be read")
        .object(path.display().to_string())
        .caused_by(error)
        .consequence("nothing was changed")
        .fix(Fix::text(
            "put minisign's public key there (two lines), or remove the file",
        ))
}

const FOLDER: &str = "keys";
