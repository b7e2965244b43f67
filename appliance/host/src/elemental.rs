//! The key a host registered with at Elemental: a proof of who it is, for hosts without a token.
//!
//! Elemental's agent keeps its configuration in one of two places, by image, and its key as
//! `private.key` in the folder that stands there.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use kedge_core::{Code, Coded, Fix, Problem};
use rcgen::PublicKeyData as _;
use serde::Deserialize;

use crate::{Root, small_file};

/// The key of an Elemental host, and where the host's record lies.
pub struct ElementalKey {
    pair: rcgen::KeyPair,
    namespace: String,
}

/// The key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ElementalError {
    /// No agent of Elemental's is configured.
    #[error("no Elemental agent is configured on this host")]
    Absent,
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everybody can read the key.
    #[error("{} can be read by everybody (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file holds something else.
    #[error("{} holds no {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What should be there.
        what: &'static str,
    },
}

/// What of the agent's configuration is needed.
#[derive(Debug, Default, Deserialize)]
struct AgentConfig {
    #[serde(default)]
    registration: Registration,
    #[serde(default)]
    agent: Agent,
}

#[derive(Debug, Default, Deserialize)]
struct Registration {
    #[serde(default)]
    uri: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    #[serde(default)]
    work_dir: Option<PathBuf>,
}

impl ElementalKey {
    /// Finds the key.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be used.
    pub fn find(root: &Root) -> Result<Self, ElementalError> {
        let mut configured = CONFIGS.iter().map(|path| root.system_file(Path::new(path)));
        let file = configured
            .find(|path| path.exists())
            .ok_or(ElementalError::Absent)?;
        let text = read(&file)?;
        let malformed = |what| ElementalError::Malformed {
            path: file.clone(),
            what,
        };
        let config: AgentConfig = str::from_utf8(&text)
            .ok()
            .and_then(|text| serde_saphyr::from_str(text).ok())
            .ok_or_else(|| malformed("configuration of Elemental's agent"))?;
        let namespace = namespace(&config.registration.uri)
            .ok_or_else(|| malformed("registration with a namespace"))?;
        let folder = config.agent.work_dir.unwrap_or_else(|| WORK_DIR.into());
        let path = root.system_file(&folder.join("private.key"));
        let text = read(&path)?;
        let mode = std::fs::metadata(&path).map(|metadata| metadata.permissions().mode() & 0o777);
        if let Ok(mode) = mode
            && mode & 0o007 != 0
        {
            return Err(ElementalError::Exposed { path, mode });
        }
        let what = "Ed25519 key (PKCS#8, PEM)";
        let pair = str::from_utf8(&text)
            .ok()
            .and_then(|text| rcgen::KeyPair::from_pem(text).ok())
            .filter(|pair| *pair.algorithm() == rcgen::PKCS_ED25519);
        let pair = pair.ok_or(ElementalError::Malformed { path, what })?;
        Ok(Self { pair, namespace })
    }

    /// What the manager finds the host's record by.
    #[must_use]
    pub fn id(&self, hostname: &str) -> String {
        format!("{}/{hostname}", self.namespace)
    }

    /// The key as rcgen takes it.
    pub(crate) const fn pair(&self) -> &rcgen::KeyPair {
        &self.pair
    }

    /// The public key, to tell one from another.
    pub(crate) fn public(&self) -> Vec<u8> {
        self.pair.subject_public_key_info()
    }
}

impl std::fmt::Debug for ElementalKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ElementalKey")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Coded for ElementalError {
    fn problem(&self) -> Problem {
        let problem = Problem::new(Code::EnrolElementalKey, self.to_string())
            .consequence("the host is not enrolled; what is configured locally runs without");
        let problem = match self {
            Self::Read { source, .. } => problem.caused_by(source),
            _ => problem,
        };
        problem.fix(
            Fix::text("see that the host is registered at Elemental, or give it a token")
                .command("kedge token create --tenant TENANT"),
        )
    }
}

fn read(path: &Path) -> Result<zeroize::Zeroizing<Vec<u8>>, ElementalError> {
    let failed = |source| ElementalError::Read {
        path: path.to_owned(),
        source,
    };
    let (file, _) = small_file::open(path).map_err(failed)?;
    small_file::read(file, MAX_BYTES).map_err(failed)
}

/// The namespace in `…/namespaces/<namespace>/registrations/<registration>`.
fn namespace(uri: &str) -> Option<String> {
    let mut parts = uri
        .split('/')
        .skip_while(|part| *part != "namespaces")
        .skip(1);
    let namespace = parts.next()?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = !namespace.is_empty() && namespace.len() <= 63 && namespace.bytes().all(plain);
    (is_label && parts.next() == Some("registrations")).then(|| namespace.to_owned())
}

const CONFIGS: [&str; 2] = [
    "/etc/elemental/agent/config.yaml",
    "/oem/elemental/agent/config.yaml",
];
const WORK_DIR: &str = "/var/lib/elemental/agent";
const MAX_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_key_is_found_where_elementals_agent_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let code = || ElementalKey::find(&root).unwrap_err().problem();
        assert!(code().what.contains("no Elemental agent"));
        let oem = dir.path().join("oem/elemental/agent");
        fs::create_dir_all(&oem).unwrap();
        let uri = "https://m:9090/elemental/v1/namespaces/edge/registrations/r";
        let config = format!(
            "registration: {{uri: '{uri}', caCert: x, token: t}}\nagent: {{workDir: /oem/elemental/agent, debug: true}}\n"
        );
        fs::write(oem.join("config.yaml"), &config).unwrap();
        assert!(code().what.contains("private.key"), "{}", code().what);
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let path = oem.join("private.key");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write(&key.serialize_pem(), 0o644);
        assert!(code().what.contains("by everybody"));
        write(&rcgen::KeyPair::generate().unwrap().serialize_pem(), 0o640);
        assert!(code().what.contains("no Ed25519 key"));
        write(&key.serialize_pem(), 0o640);
        let found = ElementalKey::find(&root).unwrap();
        assert_eq!(found.id("host-a"), "edge/host-a");
        assert_eq!(found.public(), key.subject_public_key_info());
        assert!(!format!("{found:?}").contains("BEGIN"));
        for bad in [
            "registration: {uri: 'https://m/x'}",
            "[",
            "registration: {uri: 'x/namespaces/A b/registrations/r'}",
        ] {
            fs::write(oem.join("config.yaml"), bad).unwrap();
            assert_eq!(code().code, Code::EnrolElementalKey, "{bad}");
        }
    }
}
