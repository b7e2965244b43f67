//! The passwords of VRRP version 2, read from the files the configuration names.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use kedge_core::{Code, Fix, Problem};
use kedge_host::Root;
use kedge_vip_speaker::Password;

use crate::config::AgentConfig;

/// What each of those files holds, or why it holds no password.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Passwords(BTreeMap<PathBuf, Result<Password, Problem>>);

impl Passwords {
    /// Reads them.
    pub fn read(config: &AgentConfig, root: &Root) -> Self {
        let files = config
            .vips
            .values()
            .filter_map(|vip| vip.password_file.as_ref());
        let read = files.map(|file| (file.clone(), read(&root.locate(file))));
        Self(read.collect())
    }

    /// The password in `file`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds none.
    pub fn get(&self, file: &Path) -> Result<Password, Problem> {
        let known = self.0.get(file).cloned();
        known.unwrap_or_else(|| Err(unreadable(file, "it was not read".to_owned())))
    }
}

fn read(file: &Path) -> Result<Password, Problem> {
    let text = text(file).map_err(|error| unreadable(file, error.to_string()))?;
    Password::new(text.trim_end_matches(['\r', '\n'])).map_err(|error| {
        unreadable(file, error.to_string())
            .fix(Fix::text("put the one that the other routers have there"))
    })
}

/// The text of a file as short as a password's is.
fn text(file: &Path) -> io::Result<String> {
    let metadata = fs::metadata(file)?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        let what = format!("not a file of at most {LONGEST} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    fs::read_to_string(file)
}

fn unreadable(file: &Path, evidence: String) -> Problem {
    Problem::new(
        Code::ConfigFileUnreadable,
        format!("no VRRP password can be read from {}", file.display()),
    )
    .evidence(evidence)
    .consequence("the VIP is not served by this host: nobody would follow its advertisements")
    .fix(Fix::text(
        "see that the file exists and the agent may read it",
    ))
}

/// A password, and what editors leave behind it.
const LONGEST: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: Option<&str>) -> Result<Password, Problem> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        read(&file)
    }

    #[test]
    fn a_file_holds_one_password_and_perhaps_the_end_of_a_line() {
        assert_eq!(of(Some("secret\n")), Ok(Password::new("secret").unwrap()));
        assert_eq!(of(Some("secret")), of(Some("secret\r\n")));
    }

    #[test]
    fn what_is_no_password_is_told_without_showing_it() {
        for content in [
            None,
            Some(""),
            Some("longer-than-eight"),
            Some("a\nb\nc\nd\ne\n"),
        ] {
            let problem = of(content).unwrap_err();
            assert_eq!(problem.code, Code::ConfigFileUnreadable);
            let told = format!("{problem:?}");
            assert!(!told.contains("longer-than"), "{told}");
        }
        let long = "x".repeat(65);
        assert!(format!("{:?}", of(Some(&long))).contains("at most 64 bytes"));
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).is_err());
    }
}
