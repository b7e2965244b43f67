//! What is installed here, and how: what every package says of itself in `/usr/lib/kedge/release.json`.

use std::{fs, io, path::Path};

use kedge_control::local::PackageForm;
use kedge_core::{Code, Fix, Problem};
use kedge_host::Root;
use semver::Version;
use serde::{Deserialize, Serialize};

/// What a package says of itself. Fields that a later version adds are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Its version.
    pub version: Version,
    /// Its form.
    pub form: PackageForm,
    /// Its files below `/usr`, without a slash at their begin.
    pub files: Vec<String>,
}

impl Installed {
    /// What is installed below this root. An executable that somebody put there by hand counts as the archive's.
    ///
    /// # Errors
    ///
    /// Nothing is, or what it says cannot be read.
    pub fn at(root: &Root) -> Result<Self, Problem> {
        let path = root.path().join(MARKER);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map_err(|error| odd(&path, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::by_hand(root),
            Err(error) => Err(odd(&path, &error)),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// It is none, or names what no package of ours may.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let it: Self = serde_json::from_str(text)?;
        match it.files.iter().find(|path| !is_ours(path)) {
            Some(path) => Err(serde::de::Error::custom(format!("it has {path}"))),
            None => Ok(it),
        }
    }

    fn by_hand(root: &Root) -> Result<Self, Problem> {
        if !root.path().join(EXECUTABLE).exists() {
            let what = format!("there is no /{EXECUTABLE} to take the place of");
            return Err(Problem::new(Code::PkgNotInstalled, what)
                .consequence("nothing was changed")
                .fix(Fix::text("install a package of Kedge first")));
        }
        // The command that is given is the one that is installed.
        let version = env!("CARGO_PKG_VERSION")
            .parse()
            .map_err(|error| odd(Path::new(EXECUTABLE), &error))?;
        Ok(Self {
            version,
            form: PackageForm::Archive,
            files: vec![EXECUTABLE.to_owned()],
        })
    }
}

/// Whether a path is one that a package may bring: below `/usr`, and leading nowhere else.
pub fn is_ours(path: &str) -> bool {
    path.starts_with("usr/") && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn odd(path: &Path, error: &dyn std::error::Error) -> Problem {
    Problem::new(
        Code::PkgNotInstalled,
        "what is installed here cannot be told",
    )
    .object(path.display().to_string())
    .caused_by(error)
    .consequence("nothing was changed")
    .fix(Fix::text("install a package of Kedge anew"))
}

/// The executable.
pub const EXECUTABLE: &str = "usr/bin/kedge";
/// What a package says of itself.
pub const MARKER: &str = "usr/lib/kedge/release.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_version_adds_is_passed_over_and_what_leads_elsewhere_is_refused() {
        let text = r#"{"version": "1.2.3", "form": "deb", "machine": "x86_64", "later": 1, "files": ["usr/bin/kedge"]}"#;
        let it = Installed::parse(text).unwrap();
        assert_eq!(
            (it.version.to_string(), it.form),
            ("1.2.3".into(), PackageForm::Deb)
        );
        for path in [
            "etc/shadow",
            "usr/../etc/shadow",
            "/usr/bin/kedge",
            "usr//bin",
            "usr/./x",
        ] {
            let text = text.replace("usr/bin/kedge", path);
            assert!(Installed::parse(&text).is_err(), "{path}");
        }
    }
}
