//! Who this host is: its keys, which it makes itself and which never leave it, and what it says
//! of itself.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use aws_lc_rs::rand;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use kedge_control::enrol::Facts;
use kedge_core::{Code, Coded, Fix, Problem};
use zeroize::Zeroizing;

use crate::{Role, Root, hardware, small_file::first_line, state::write_synced};

/// The Ed25519 key the manager knows this host by.
pub struct IdentityKey {
    pair: rcgen::KeyPair,
}

/// A WireGuard private key.
#[derive(Clone)]
pub struct TunnelKey(Zeroizing<[u8; 32]>);

/// A key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file could not be read.
    #[error("cannot read the key {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("cannot write the key {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file can be read by others.
    #[error("the key {} can be read by others (mode {mode:o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file holds no key of this kind.
    #[error("{} holds no {kind}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What should be there.
        kind: &'static str,
    },
    /// The system gave no randomness.
    #[error("no random bytes")]
    Random,
}

impl IdentityKey {
    /// Reads the role's identity key, or makes it.
    ///
    /// # Errors
    ///
    /// The file is damaged, exposed to others, or cannot be read or written. A damaged key is
    /// never replaced: a new key is another identity.
    pub fn load_or_create(root: &Root, role: Role) -> Result<Self, KeyError> {
        Self::load_or_create_in(&root.state_dir(role))
    }

    /// The same in a folder of one's own.
    ///
    /// # Errors
    ///
    /// As for [`Self::load_or_create`].
    pub fn load_or_create_in(dir: &Path) -> Result<Self, KeyError> {
        let path = dir.join("identity.key");
        let kind = "Ed25519 key (PKCS#8, PEM)";
        let corrupt = |path: &Path| KeyError::Corrupt {
            path: path.to_owned(),
            kind,
        };
        if let Some(text) = read_private(&path)? {
            let pair = rcgen::KeyPair::from_pem(&text).map_err(|_| corrupt(&path))?;
            if *pair.algorithm() != rcgen::PKCS_ED25519 {
                return Err(corrupt(&path));
            }
            return Ok(Self { pair });
        }
        let pair =
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(|_| KeyError::Random)?;
        write_private(&path, &Zeroizing::new(pair.serialize_pem()))?;
        Ok(Self { pair })
    }

    /// The key as rcgen and rustls take it.
    pub(crate) const fn pair(&self) -> &rcgen::KeyPair {
        &self.pair
    }
}

impl std::fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdentityKey(***)")
    }
}

impl TunnelKey {
    /// Reads the role's WireGuard key, or makes it.
    ///
    /// # Errors
    ///
    /// As for [`IdentityKey::load_or_create`].
    pub fn load_or_create(root: &Root, role: Role) -> Result<Self, KeyError> {
        Self::load_or_create_in(&root.state_dir(role))
    }

    /// The same in a folder of one's own.
    ///
    /// # Errors
    ///
    /// As for [`IdentityKey::load_or_create`].
    pub fn load_or_create_in(dir: &Path) -> Result<Self, KeyError> {
        Self::at(dir.join("tunnel.key"))
    }

    /// The same for the kernel's data plane. Peers refuse a key for a while that moves from one data
    /// plane to another, whose stamps are different, so that each has its own.
    ///
    /// # Errors
    ///
    /// As for [`IdentityKey::load_or_create`].
    pub fn load_or_create_for_kernel(root: &Root, role: Role) -> Result<Self, KeyError> {
        Self::at(root.state_dir(role).join("tunnel-kernel.key"))
    }

    fn at(path: PathBuf) -> Result<Self, KeyError> {
        if let Some(key) = Self::load(&path)? {
            return Ok(key);
        }
        let key = Self::generate()?;
        key.save(&path)?;
        Ok(key)
    }

    /// The key of a file; `None` if there is none.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, KeyError> {
        let Some(text) = read_private(path)? else {
            return Ok(None);
        };
        let mut bytes = Zeroizing::new([0; 32]);
        match BASE64_STANDARD.decode_slice(text.trim(), bytes.as_mut_slice()) {
            Ok(32) => Ok(Some(Self(bytes))),
            _ => Err(KeyError::Corrupt {
                path: path.to_owned(),
                kind: "WireGuard key (32 bytes, base64)",
            }),
        }
    }

    /// Writes it to a file that only its owner may read, whole or not at all.
    pub(crate) fn save(&self, path: &Path) -> Result<(), KeyError> {
        let mut text = Zeroizing::new(BASE64_STANDARD.encode(self.expose()));
        text.push('\n');
        write_private(path, &text)
    }

    /// A new key that is written nowhere.
    ///
    /// # Errors
    ///
    /// The system gave no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; 32]);
        rand::fill(bytes.as_mut_slice()).map_err(|_| KeyError::Random)?;
        // X25519 clamps by itself; stored clamped, the file looks like `wg genkey`'s.
        if let [first, .., last] = bytes.as_mut_slice() {
            *first &= 248;
            *last = (*last & 127) | 64;
        }
        Ok(Self(bytes))
    }

    /// The private key; do not log it.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for TunnelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TunnelKey(***)")
    }
}

/// What the host says of itself: claims, not proofs. What is unknown is empty.
#[must_use]
pub fn facts(root: &Root) -> Facts {
    Facts {
        hostname: hostname(root),
        machine_id: machine_id(root),
        boot_id: boot_id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        serial: hardware::serial(root),
        macs: hardware::macs(root),
    }
}

/// The host's name: `/etc/hostname` below the root if there is one, else the kernel's.
#[must_use]
pub fn hostname(root: &Root) -> String {
    let kernel = Path::new("/proc/sys/kernel/hostname");
    let own = root.path().join("etc/hostname");
    let path = if !root.is_system() && own.exists() {
        own
    } else {
        kernel.to_owned()
    };
    first_line(&path)
}

/// A host's name as a role enrols with it: the first label, in small letters.
#[must_use]
pub fn label(hostname: &str) -> String {
    let first = hostname.split('.').next().unwrap_or_default();
    first.to_ascii_lowercase()
}

/// `/etc/machine-id`, the root's own where it has one; empty when unknown.
#[must_use]
pub fn machine_id(root: &Root) -> String {
    first_line(&root.system_file(Path::new("/etc/machine-id")))
}

/// The kernel's boot id; empty when unknown.
#[must_use]
pub fn boot_id() -> String {
    first_line(Path::new("/proc/sys/kernel/random/boot_id"))
}

/// Reads a file that only its owner may read. `None` if it does not exist.
fn read_private(path: &Path) -> Result<Option<Zeroizing<String>>, KeyError> {
    let failed = |source| KeyError::Read {
        path: path.to_owned(),
        source,
    };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    fs::read_to_string(path)
        .map(|text| Some(Zeroizing::new(text)))
        .map_err(failed)
}

/// Writes a new key whole or not at all.
fn write_private(path: &Path, text: &str) -> Result<(), KeyError> {
    let write = || {
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let fresh = path.with_extension("new");
        write_synced(&fresh, text.as_bytes())?;
        fs::rename(&fresh, path)
    };
    write().map_err(|source| KeyError::Write {
        path: path.to_owned(),
        source,
    })
}

impl Coded for KeyError {
    fn problem(&self) -> Problem {
        let problem = |code| {
            Problem::new(code, self.to_string())
                .consequence("the role runs without the parts that need this key")
        };
        match self {
            Self::Read { path, source } => problem(Code::HostStateCorrupt)
                .object(path.display().to_string())
                .evidence(source.to_string())
                .fix(
                    Fix::text("give the file back to the user the role runs as")
                        .command(format!("ls -l {}", path.display())),
                ),
            Self::Write { path, source } => problem(Code::HostStateNotPersisted)
                .object(path.display().to_string())
                .evidence(source.to_string())
                .fix(
                    Fix::text("make room, or mount the file system read-write")
                        .command("df -h /var/lib/kedge; findmnt --target /var/lib/kedge"),
                ),
            Self::Exposed { path, mode } => problem(Code::HostStateCorrupt)
                .object(path.display().to_string())
                .evidence(format!("mode {mode:04o}, expected 0600"))
                .fix(
                    Fix::text("close the file, and enrol again if somebody may have read it")
                        .command(format!("chmod 0600 {}", path.display())),
                ),
            Self::Corrupt { path, .. } => problem(Code::HostStateCorrupt)
                .object(path.display().to_string())
                .fix(
                    Fix::text("restore the file from a backup, or remove it and enrol again")
                        .command(format!("rm {}", path.display())),
                ),
            Self::Random => problem(Code::SysUnexpected).fix(
                Fix::text("the kernel's random source does not work")
                    .command("head -c 16 /dev/urandom | od -x"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        (dir, root)
    }

    #[test]
    fn a_host_enrols_with_the_first_label_of_its_name() {
        for (hostname, expected) in [("Edge-A.example.org", "edge-a"), ("edge", "edge"), ("", "")] {
            assert_eq!(label(hostname), expected);
        }
    }

    #[test]
    fn keys_are_made_once_and_closed_to_others() {
        let (_dir, root) = root();
        let first = TunnelKey::load_or_create(&root, Role::Agent).unwrap();
        let again = TunnelKey::load_or_create(&root, Role::Agent).unwrap();
        assert_eq!(first.expose(), again.expose());
        let one = IdentityKey::load_or_create(&root, Role::Agent).unwrap();
        let two = IdentityKey::load_or_create(&root, Role::Agent).unwrap();
        assert_eq!(one.pair().public_key_raw(), two.pair().public_key_raw());
        for name in ["tunnel.key", "identity.key"] {
            let path = root.state_dir(Role::Agent).join(name);
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
        assert_eq!(
            format!("{first:?} {one:?}"),
            "TunnelKey(***) IdentityKey(***)"
        );
    }

    #[test]
    fn damaged_and_exposed_keys_are_refused_never_replaced() {
        let (_dir, root) = root();
        TunnelKey::load_or_create(&root, Role::Agent).unwrap();
        IdentityKey::load_or_create(&root, Role::Agent).unwrap();
        for name in ["tunnel.key", "identity.key"] {
            let path = root.state_dir(Role::Agent).join(name);
            let load = || match name {
                "tunnel.key" => TunnelKey::load_or_create(&root, Role::Agent).map(drop),
                _ => IdentityKey::load_or_create(&root, Role::Agent).map(drop),
            };
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(matches!(load(), Err(KeyError::Exposed { mode: 0o640, .. })));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            for damage in ["", "x", "AAAA\n", "-----BEGIN PRIVATE KEY-----\n"] {
                fs::write(&path, damage).unwrap();
                let error = load().unwrap_err();
                assert!(matches!(error, KeyError::Corrupt { .. }), "{damage:?}");
                assert_eq!(error.problem().code, Code::HostStateCorrupt);
            }
        }
    }

    #[test]
    fn the_root_may_carry_its_own_machine_id_and_name() {
        let (dir, root) = root();
        fs::create_dir_all(dir.path().join("etc")).unwrap();
        fs::write(dir.path().join("etc/machine-id"), "abc\n").unwrap();
        fs::write(dir.path().join("etc/hostname"), "edge-a\n").unwrap();
        let facts = facts(&root);
        assert_eq!(
            (facts.machine_id.as_str(), facts.hostname.as_str()),
            ("abc", "edge-a")
        );
        assert_eq!(facts.boot_id.len(), 36);
    }
}
