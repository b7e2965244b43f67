//! Reading what is to be migrated: bounded, text only, and told with its place when it is not.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use kedge_core::{Code, Fix, Problem};
use kedge_host::layers::ConfigError;

/// The name that stands for stdin.
pub(super) const STDIN: &str = "-";

/// Reads a file that was named, or stdin.
///
/// # Errors
///
/// It cannot be opened, is too large or is no text.
pub(super) fn read(path: &Path) -> Result<String, Problem> {
    let bytes = if path.as_os_str() == STDIN {
        bounded(io::stdin().lock())
    } else {
        File::open(path).and_then(bounded)
    };
    match bytes {
        Ok(bytes) => text(&shown(path), bytes),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Reads a file that another one names: a plain file, because reading a pipe or a device may wait
/// for ever.
///
/// # Errors
///
/// As for [`read`].
pub(super) fn read_included(path: &Path) -> Result<String, Problem> {
    let bytes = File::open(path).and_then(|file| {
        if file.metadata()?.is_file() {
            bounded(file)
        } else {
            Err(io::Error::other("it is not a plain file"))
        }
    });
    match bytes {
        Ok(bytes) => text(&shown(path), bytes),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// How a file is called in reports.
pub(super) fn shown(path: &Path) -> String {
    if path.as_os_str() == STDIN {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    }
}

/// A file that is not what it should be, at a place in it.
pub(super) fn refused(code: Code, place: &str, what: &str, fix: &str) -> Problem {
    Problem::new(code, format!("{place}: {what}"))
        .consequence("nothing was migrated")
        .fix(Fix::text(fix))
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let whole = ConfigError::unreadable(path, error);
    Problem {
        consequence: "nothing was migrated".to_owned(),
        ..kedge_core::Coded::problem(&whole)
    }
}

fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(name: &str, bytes: Vec<u8>) -> Result<String, Problem> {
    let fix = "check that this is the file you mean: a short text";
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        let what = "larger than 1 MiB";
        return Err(refused(Code::ConfigTooLarge, name, what, fix));
    }
    let bad = |bytes: &[u8], at: usize, what: &str| {
        let before = bytes.get(..at).unwrap_or(bytes);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        refused(
            Code::ConfigTooLarge,
            &format!("{name}:{line}:{column}"),
            what,
            fix,
        )
    };
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(bad(&bytes, at, "a NUL byte"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        bad(error.as_bytes(), at, "not UTF-8")
    })
}

/// No configuration of a person's is longer.
const MAX_BYTES: u64 = 1 << 20;
