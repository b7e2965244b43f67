//! State that survives a restart: JSON files, two generations each.
//!
//! A file is two lines of JSON: a header with the checksum of the rest, and the value. It is
//! written beside the old one, synchronised and renamed, and the old one stays as
//! `<name>.prev.json`, so that at every moment one good generation is on the disk. What cannot be
//! read is moved aside as `<name>.json.corrupt-<n>` for whoever wants to know why. What cannot be
//! written is kept in memory.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kedge_core::{Code, Coded, Fix, Problem};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The state of one role. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
    // What could not be written; it wins over the disk until a write succeeds.
    memory: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

/// What was found on the disk.
#[derive(Debug)]
pub struct Restored<T> {
    /// The newest readable value, `None` if there is none.
    pub value: Option<T>,
    /// Files that could not be read and what was done about it.
    pub problems: Vec<Problem>,
}

/// State could not be written; it is kept in memory until the process ends.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct NotPersisted {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl Store {
    /// The state below `dir`, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            memory: Arc::default(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads a value. Never fails: what is unreadable is quarantined and told.
    pub fn load<T: DeserializeOwned>(&self, name: &str) -> Restored<T> {
        let mut problems = Vec::new();
        if let Some(bytes) = self.memory().get(name)
            && let Ok(value) = decode(bytes)
        {
            return Restored {
                value: Some(value),
                problems,
            };
        }
        for path in [self.current(name), self.previous(name)] {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    problems.push(unreadable(&path, &error));
                    continue;
                }
            };
            match decode(&bytes) {
                Ok(value) => {
                    return Restored {
                        value: Some(value),
                        problems,
                    };
                }
                Err(why) => problems.push(quarantine(&path, &why)),
            }
        }
        Restored {
            value: None,
            problems,
        }
    }

    /// Writes a value; the one before it stays as the other generation.
    ///
    /// # Errors
    ///
    /// The disk is full or read-only. The value is then kept in memory, where
    /// [`Store::load`] finds it.
    pub fn save<T: Serialize>(&self, name: &str, value: &T) -> Result<(), NotPersisted> {
        let path = self.current(name);
        let written = encode(value).and_then(|bytes| {
            let result = self.replace(name, &bytes);
            if result.is_ok() {
                self.memory().remove(name);
            } else {
                self.memory().insert(name.to_owned(), bytes);
            }
            result
        });
        written.map_err(|source| NotPersisted { path, source })
    }

    /// Removes a value, both generations.
    ///
    /// # Errors
    ///
    /// A file could not be removed.
    pub fn remove(&self, name: &str) -> Result<(), NotPersisted> {
        self.memory().remove(name);
        // The other generation first: alone it would count as the value.
        for path in [self.previous(name), self.current(name)] {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(NotPersisted { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)?;
        let (current, previous) = (self.current(name), self.previous(name));
        let fresh = self.dir.join(format!(".{name}.json.new"));
        write_synced(&fresh, bytes)?;
        // A link, not a rename: there is no moment without a current file.
        let aside = self.dir.join(format!(".{name}.json.old"));
        remove_if_there(&aside)?;
        match fs::hard_link(&current, &aside) {
            Ok(()) => fs::rename(&aside, &previous)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        fs::rename(&fresh, &current)?;
        File::open(&self.dir)?.sync_all()
    }

    fn current(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    fn previous(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.prev.json"))
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a file only its owner can read, and has it on the disk before it returns.
///
/// # Errors
///
/// It cannot be written.
pub fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    remove_if_there(path)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    sha256: String,
}

fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(value)?;
    let header = Header {
        version: VERSION,
        sha256: sha256_hex(&body),
    };
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&body);
    bytes.push(b'\n');
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let split = bytes.iter().position(|byte| *byte == b'\n');
    let (header, body) = split
        .and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?)))
        .ok_or_else(|| format!("{} bytes without a header", bytes.len()))?;
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let header: Header =
        serde_json::from_slice(header).map_err(|error| format!("the header: {error}"))?;
    if header.version != VERSION {
        return Err(format!("version {} is not {VERSION}", header.version));
    }
    if sha256_hex(body) != header.sha256 {
        return Err("the checksum does not match".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn sha256_hex(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn quarantine(path: &Path, why: &str) -> Problem {
    let aside = (1..=QUARANTINED_AT_MOST).find_map(|n| {
        let aside = PathBuf::from(format!("{}.corrupt-{n}", path.display()));
        (!aside.exists()).then_some(aside)
    });
    let done = match &aside {
        Some(aside) => fs::rename(path, aside).map(|()| format!("moved to {}", aside.display())),
        None => fs::remove_file(path)
            .map(|()| format!("removed: {QUARANTINED_AT_MOST} corrupt copies are kept already")),
    };
    let done = done.unwrap_or_else(|error| format!("left where it is: {error}"));
    tracing::warn!(KEDGE_CODE = %Code::HostStateCorrupt, path = %path.display(), why, done, "state file is corrupt");
    Problem::warning(
        Code::HostStateCorrupt,
        format!("the state file {} is corrupt", path.display()),
    )
    .object(path.display().to_string())
    .evidence(why)
    .evidence(done)
    .consequence("the other generation is used, or the role starts without this state")
    .fix(
        Fix::text("look for a failing disk; the role heals the file by itself")
            .command("journalctl -k -p warning"),
    )
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::warning(
        Code::HostStateCorrupt,
        format!("the state file {} cannot be read", path.display()),
    )
    .object(path.display().to_string())
    .caused_by(error)
    .consequence("the other generation is used, or the role starts without this state")
    .fix(
        Fix::text("give the file back to the user the role runs as")
            .command(format!("ls -l {}", path.display())),
    )
}

impl Coded for NotPersisted {
    fn problem(&self) -> Problem {
        Problem::warning(
            Code::HostStateNotPersisted,
            format!("{} cannot be written", self.path.display()),
        )
        .object(self.path.display().to_string())
        .evidence(self.source.to_string())
        .consequence("the role runs on from memory and forgets this at its next start")
        .fix(
            Fix::text("make room, or mount the file system read-write")
                .command("df -h /var/lib/kedge; findmnt --target /var/lib/kedge"),
        )
    }
}

const VERSION: u32 = 1;
const QUARANTINED_AT_MOST: u32 = 9;

#[cfg(test)]
mod tests;
