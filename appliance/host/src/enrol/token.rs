//! The file with the enrolment token.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use kedge_control::token::{BadToken, Token};
use kedge_core::{Code, Coded, Fix, Problem};

use crate::small_file;

/// There is no usable token. Never repeats it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// No file is configured.
    #[error("no token file is configured, and this host is not enrolled")]
    Missing,
    /// The file cannot be read.
    #[error("the token file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everybody can read the file.
    #[error("the token file {} can be read by everybody (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file holds no token.
    #[error("the token file {} holds no token", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BadToken,
    },
}

/// Reads the token.
pub(super) fn read(path: Option<&Path>) -> Result<Token, TokenError> {
    let path = path.ok_or(TokenError::Missing)?;
    let failed = |source| TokenError::Read {
        path: path.to_owned(),
        source,
    };
    let (file, metadata) = small_file::open(path).map_err(failed)?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(TokenError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let bytes = small_file::read(file, MAX_BYTES).map_err(failed)?;
    // What is no text is no token either, and is told as such.
    str::from_utf8(&bytes)
        .unwrap_or_default()
        .parse()
        .map_err(|source| TokenError::Malformed {
            path: path.to_owned(),
            source,
        })
}

/// Removes a used token, where it lies in our own state; a file the administrator wrote is left.
pub(super) fn forget(path: Option<&Path>, state: &Path) {
    if let Some(path) = path.filter(|path| path.starts_with(state))
        && let Err(error) = fs::remove_file(path)
    {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            path = %path.display(),
            "the used token could not be removed"
        );
    }
}

impl Coded for TokenError {
    fn problem(&self) -> Problem {
        let problem = |code| {
            Problem::new(code, self.to_string())
                .consequence("the host is not enrolled; what is configured locally runs without")
        };
        let create = || {
            Fix::text("make a token at the manager and write it to the token file")
                .command("kedge token create --tenant TENANT")
        };
        match self {
            Self::Missing => problem(Code::EnrolTokenUnreadable)
                .evidence("manager.token_file is not set")
                .fix(create()),
            Self::Read { path, source } => problem(Code::EnrolTokenUnreadable)
                .object(path.display().to_string())
                .evidence(source.to_string())
                .fix(create()),
            Self::Exposed { path, .. } => problem(Code::EnrolTokenUnreadable)
                .object(path.display().to_string())
                .fix(
                    Fix::text("close the file; make a new token if somebody may have read it")
                        .command(format!("chmod 0600 {}", path.display())),
                ),
            Self::Malformed { path, source } => problem(Code::EnrolTokenMalformed)
                .object(path.display().to_string())
                .evidence(source.to_string())
                .fix(create()),
        }
    }
}

/// Far more than a token has, and little enough to be read at once.
const MAX_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "kedge1.abcdefgh01.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn only_a_closed_file_with_a_token_is_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let code = |path: Option<&Path>| read(path).unwrap_err().problem().code;
        assert_eq!(code(None), Code::EnrolTokenUnreadable);
        assert_eq!(code(Some(&path)), Code::EnrolTokenUnreadable);
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write(TOKEN, 0o644);
        assert_eq!(code(Some(&path)), Code::EnrolTokenUnreadable);
        write("kedge1.secret.words", 0o600);
        let problem = read(Some(&path)).unwrap_err().problem();
        assert_eq!(problem.code, Code::EnrolTokenMalformed);
        assert!(!format!("{problem:?}").contains("secret.words"));
        write("", 0o600);
        assert_eq!(code(Some(&path)), Code::EnrolTokenMalformed);
        write(&format!("{TOKEN}\n{TOKEN}\n"), 0o600);
        assert_eq!(code(Some(&path)), Code::EnrolTokenMalformed);
        fs::write(&path, [0xff, 0, 0xfe]).unwrap();
        assert_eq!(code(Some(&path)), Code::EnrolTokenMalformed);
        fs::write(&path, [0xff, 0, 0xfe].repeat(100_000)).unwrap();
        let problem = read(Some(&path)).unwrap_err().problem();
        assert_eq!(problem.code, Code::EnrolTokenUnreadable);
        assert_eq!(problem.evidence, ["it has more than 4096 bytes"]);
        for no_file in [dir.path(), Path::new("/dev/zero")] {
            assert_eq!(code(Some(no_file)), Code::EnrolTokenUnreadable);
        }
        write(&format!("{TOKEN}\n"), 0o640);
        assert_eq!(read(Some(&path)).unwrap().id(), "abcdefgh01");
    }

    #[test]
    fn a_pipe_is_no_token_and_nobody_waits_for_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("token");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(read(Some(&pipe)).map(drop)));
        let read = told.recv_timeout(std::time::Duration::from_secs(5));
        let problem = read.expect("an answer").unwrap_err().problem();
        assert_eq!(problem.code, Code::EnrolTokenUnreadable);
        assert_eq!(problem.evidence, ["it is no file"]);
    }

    #[test]
    fn a_used_token_is_removed_from_our_own_state_only() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        fs::create_dir(&state).unwrap();
        let (own, theirs) = (state.join("token"), dir.path().join("token"));
        for path in [&own, &theirs] {
            fs::write(path, "x").unwrap();
            forget(Some(path), &state);
        }
        assert!(!own.exists());
        assert!(theirs.exists());
    }
}
