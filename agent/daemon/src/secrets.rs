//! What VIPs share with the other members in secret: passwords of VRRP version 2 and the keys of
//! signed advertisements, read from the files the configuration names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use kedge_core::{Code, Fix, Problem};
use kedge_host::Root;
use kedge_vip_speaker::{
    Password,
    auth::{Key, Keys},
    bgp,
};
use zeroize::Zeroizing;

use crate::config::{AgentConfig, AuthConfig};

/// What each of those files holds, or why it holds no such thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Secrets {
    passwords: BTreeMap<PathBuf, Result<Password, Problem>>,
    keys: BTreeMap<PathBuf, Result<Key, Problem>>,
    sessions: BTreeMap<PathBuf, Result<bgp::Password, Problem>>,
    exposed: Vec<Problem>,
}

impl Secrets {
    /// Reads them.
    pub fn read(config: &AgentConfig, root: &Root) -> Self {
        let vips = config.vips.values();
        let passwords = vips.clone().filter_map(|vip| vip.password_file.as_ref());
        let auth = vips.filter_map(|vip| vip.auth.as_ref());
        let keys = auth.flat_map(|auth| auth.keys.values());
        let located = |file: &PathBuf| (file.clone(), root.locate(file));
        let password = |(file, at): (PathBuf, PathBuf)| (file, password(&at));
        let key = |(file, at): (PathBuf, PathBuf)| (file, key(&at));
        let link = config.peer_link.iter().map(|link| &link.key_file);
        let neighbors = config.bgp.iter().flat_map(|bgp| &bgp.neighbors);
        let sessions = neighbors.flat_map(|it| {
            let sealed = it.tcp_ao.as_ref().map(|ao| &ao.file);
            it.password_file.iter().chain(sealed)
        });
        let session = |(file, at): (PathBuf, PathBuf)| (file, session(&at));
        let of_vips = passwords.clone().chain(keys.clone());
        let all: BTreeSet<&PathBuf> = of_vips.chain(link).chain(sessions.clone()).collect();
        Self {
            exposed: all.into_iter().map(located).filter_map(exposed).collect(),
            passwords: passwords.map(located).map(password).collect(),
            keys: keys.map(located).map(key).collect(),
            sessions: sessions.map(located).map(session).collect(),
        }
    }

    /// The files that are no secret any more. They are used nevertheless: a VIP that is not served
    /// costs more than a key that has to be changed.
    pub fn exposed(&self) -> &[Problem] {
        &self.exposed
    }

    /// The password in `file`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds none.
    pub fn password(&self, file: &Path) -> Result<Password, Problem> {
        let known = self.passwords.get(file).cloned();
        known.unwrap_or_else(|| Err(unreadable(file, "it was not read".to_owned())))
    }

    /// The password of BGP sessions in `file`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds none.
    pub fn bgp_password(&self, file: &Path) -> Result<bgp::Password, Problem> {
        let known = self.sessions.get(file).cloned();
        known.unwrap_or_else(|| Err(no_password(file, "it was not read".to_owned())))
    }

    /// The keys of a VIP.
    ///
    /// # Errors
    ///
    /// One of the files cannot be read, or holds none.
    pub fn keys(&self, auth: &AuthConfig) -> Result<Keys, Problem> {
        let mut all = BTreeMap::new();
        for (id, file) in &auth.keys {
            let known = self.keys.get(file).cloned();
            let unread = || Err(unreadable(file, "it was not read".to_owned()));
            all.insert(*id, known.unwrap_or_else(unread)?);
        }
        Keys::new(auth.active_key, all)
            .map_err(|error| Problem::new(Code::ConfigRule, error.to_string()))
    }
}

fn password(file: &Path) -> Result<Password, Problem> {
    let text = line(file).map_err(|error| unreadable(file, error.to_string()))?;
    Password::new(&text).map_err(|error| unreadable(file, error.to_string()))
}

fn session(file: &Path) -> Result<bgp::Password, Problem> {
    let text = line(file).map_err(|error| no_password(file, error.to_string()))?;
    bgp::Password::new(text.as_bytes())
        .ok_or_else(|| no_password(file, "a password has 1 to 80 bytes".to_owned()))
}

fn no_password(file: &Path, evidence: String) -> Problem {
    let what = format!("no password can be read from {}", file.display());
    Problem::new(Code::ConfigFileUnreadable, what)
        .evidence(evidence)
        .consequence("the neighbour is not called, and its calls are not taken")
        .fix(Fix::text(
            "see that the file exists, that the agent may read it, and that it holds one line",
        ))
}

/// A key as keepalived's `file:` has it: `hex:` and digits, or the bytes themselves.
pub(crate) fn key(file: &Path) -> Result<Key, Problem> {
    let text = line(file).map_err(|error| unreadable(file, error.to_string()))?;
    let bytes = match text.strip_prefix("hex:") {
        None => Zeroizing::new(text.as_bytes().to_vec()),
        Some(digits) => bytes_of(digits).ok_or_else(|| {
            unreadable(
                file,
                "what follows `hex:` is no hexadecimal number".to_owned(),
            )
        })?,
    };
    Key::new(&bytes).map_err(|error| unreadable(file, error.to_string()))
}

fn bytes_of(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        u8::try_from(high? * 16 + low?).ok()
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty()).map(Zeroizing::new)
}

/// The one line of a file as short as a secret's is, without its end.
fn line(file: &Path) -> io::Result<Zeroizing<String>> {
    let metadata = fs::metadata(file)?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        let what = format!("not a file of at most {LONGEST} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let text = Zeroizing::new(fs::read_to_string(file)?);
    let line = text.trim_end_matches(['\r', '\n']);
    if line.contains('\n') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "more than one line",
        ));
    }
    Ok(Zeroizing::new(line.to_owned()))
}

fn unreadable(file: &Path, evidence: String) -> Problem {
    Problem::new(
        Code::ConfigFileUnreadable,
        format!("no secret of a VIP can be read from {}", file.display()),
    )
    .evidence(evidence)
    .consequence("the VIP is not served by this host: nobody would follow its advertisements")
    .fix(Fix::text(
        "see that the file exists, that the agent may read it, and that it holds what the other \
         members have",
    ))
}

/// A warning, if others than the owner of `file` and its group can read or change it.
fn exposed((file, at): (PathBuf, PathBuf)) -> Option<Problem> {
    let mode = fs::metadata(&at).ok()?.permissions().mode() & 0o777;
    if mode & 0o007 == 0 {
        return None;
    }
    let file = file.display();
    let what = format!("the secret in {file} is open to every user of this host");
    Some(
        Problem::warning(Code::ConfigSecretExposed, what)
            .object(file.to_string())
            .evidence(format!("the mode of the file is {mode:04o}"))
            .consequence("whoever has it can speak for the VIP as a member of its group; it is used nevertheless")
            .fix(Fix::text(format!(
                "chmod 600 {file}, and reload the agent; if somebody may have read it, give all members \
                 another one"
            ))),
    )
}

/// The longest key in digits, and what editors leave behind it.
const LONGEST: u64 = 144;

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T>(read: fn(&Path) -> T, content: Option<&str>) -> T {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        read(&file)
    }

    #[test]
    fn a_file_holds_one_password_and_perhaps_the_end_of_a_line() {
        let secret = Ok(Password::new("secret").unwrap());
        for content in ["secret", "secret\n", "secret\r\n"] {
            assert_eq!(of(password, Some(content)), secret);
        }
    }

    #[test]
    fn a_key_is_digits_or_the_bytes_themselves() {
        let key_of = |content: &str| of(key, Some(content)).unwrap();
        let bytes: Vec<u8> = (0..32).collect();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(
            key_of(&format!("hex:{digits}\n")),
            Key::new(&bytes).unwrap()
        );
        let text = "0123456789abcdef0123456789abcdef";
        assert_eq!(key_of(text), Key::new(text.as_bytes()).unwrap());
    }

    #[test]
    fn a_file_that_everybody_may_open_is_named_once_and_used() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("etc/kedge/key");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "0123456789abcdef0123456789abcdef").unwrap();
        let yaml = "peer_link: {key_file: /etc/kedge/key}\n\
                    vips:\n  \
                      a: {addresses: [192.0.2.1], auth: {active_key: 1, keys: {1: /etc/kedge/key}}}\n  \
                      b: {addresses: [192.0.2.2], auth: {active_key: 1, keys: {1: /etc/kedge/key}}}\n";
        let config = crate::config::tests::loaded(yaml);
        let read = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            Secrets::read(&config, &Root::new(root.path()))
        };
        for mode in [0o644, 0o604, 0o602] {
            let secrets = read(mode);
            let [problem] = secrets.exposed() else {
                panic!("{:?}", secrets.exposed());
            };
            assert_eq!(problem.code, Code::ConfigSecretExposed);
            assert_eq!(problem.object, "/etc/kedge/key");
            assert!(
                problem.evidence[0].ends_with(&format!("0{mode:o}")),
                "{problem:?}"
            );
            let auth = config
                .vips
                .values()
                .next()
                .and_then(|vip| vip.auth.as_ref());
            assert!(secrets.keys(auth.unwrap()).is_ok());
        }
        for mode in [0o600, 0o640, 0o400] {
            assert_eq!(read(mode).exposed(), []);
        }
    }

    #[test]
    fn what_is_no_secret_is_told_without_showing_it() {
        let long = "x".repeat(145);
        for content in [
            None,
            Some(""),
            Some("longer-than-eight"),
            Some("a\nb"),
            Some(&long),
        ] {
            let problem = of(password, content).unwrap_err();
            assert_eq!(problem.code, Code::ConfigFileUnreadable);
            assert!(!format!("{problem:?}").contains("longer-than"));
        }
        for content in ["too-short-a-key", "hex:00g0", "hex:000", &"y".repeat(65)] {
            let problem = of(key, Some(content)).unwrap_err();
            assert_eq!(problem.code, Code::ConfigFileUnreadable);
            let told = format!("{problem:?}");
            assert!(
                !told.contains("too-short") && !told.contains("yyy"),
                "{told}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(key(folder.path()).is_err());
    }
}
