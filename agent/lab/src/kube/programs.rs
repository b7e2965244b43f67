//! Where etcd and the API server are: a folder that somebody names, or where the tests' tool keeps
//! what it built.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use kedge_core::{Code, Fix, Problem};

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// The store.
    pub etcd: PathBuf,
    /// The API server.
    pub api_server: PathBuf,
}

impl Programs {
    /// Finds them.
    ///
    /// # Errors
    /// They are nowhere, and how to get them.
    pub fn find() -> Result<Self, Problem> {
        let (named, kept) = (named(), cache());
        Self::find_in(named.as_deref(), &kept).ok_or_else(|| {
            let mut problem = Problem::new(
                Code::LabToolMissing,
                format!("{ETCD} and {API_SERVER} are not there"),
            );
            if let Some(named) = named {
                let looked = format!("not both are in {} ({NAMED})", named.display());
                problem = problem.evidence(looked);
            }
            problem
                .evidence(format!("none were built into {}", kept.display()))
                .consequence("nothing was started")
                .fix(
                    Fix::text(format!(
                        "name a folder that holds both with {NAMED}, or build them from Go modules \
                         once"
                    ))
                    .command(BUILD),
                )
        })
    }

    fn find_in(named: Option<&Path>, kept: &Path) -> Option<Self> {
        if let Some(found) = named.and_then(Self::of) {
            return Some(found);
        }
        let folders = fs::read_dir(kept).into_iter().flatten().flatten();
        let found = folders.filter_map(|folder| {
            let programs = Self::of(&folder.path())?;
            let built = fs::metadata(&programs.api_server).and_then(|file| file.modified());
            Some((built.unwrap_or(SystemTime::UNIX_EPOCH), programs))
        });
        let newest = found.max_by_key(|(built, _)| *built);
        newest.map(|(_, programs)| programs)
    }

    fn of(folder: &Path) -> Option<Self> {
        let programs = Self {
            etcd: folder.join(ETCD),
            api_server: folder.join(API_SERVER),
        };
        (programs.etcd.is_file() && programs.api_server.is_file()).then_some(programs)
    }
}

/// A program in the folder that somebody names with `KUBEBUILDER_ASSETS`.
#[must_use]
pub fn given(file: &str) -> Option<PathBuf> {
    let path = named()?.join(file);
    path.exists().then_some(path)
}

/// Where the tests' tool keeps what it built.
#[must_use]
pub fn cache() -> PathBuf {
    let given = env::var_os("KEDGE_KUBE_CACHE").map(PathBuf::from);
    given.unwrap_or_else(|| {
        let home = env::var_os("HOME").unwrap_or_else(|| "/root".into());
        Path::new(&home).join(".cache/kedge-kube")
    })
}

fn named() -> Option<PathBuf> {
    let folder = env::var_os(NAMED).filter(|folder| !folder.is_empty())?;
    Some(folder.into())
}

const NAMED: &str = "KUBEBUILDER_ASSETS";
const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
const BUILD: &str = "cargo run -p kedge-tests-kube --bin kube-programs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_comes_before_what_was_built_and_half_is_nothing() {
        let root = tempfile::tempdir().unwrap();
        let make = |folder: &str, files: &[&str]| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for file in files {
                fs::write(folder.join(file), "").unwrap();
            }
            folder
        };
        let kept = root.path().join("cache");
        assert_eq!(Programs::find_in(None, &kept), None);
        make("cache/other-1", &["helm"]);
        make("cache/apiserver-1", &[ETCD]);
        assert_eq!(Programs::find_in(None, &kept), None, "half of it");
        let built = make("cache/apiserver-2", &[ETCD, API_SERVER]);
        let found = Programs::find_in(None, &kept).unwrap();
        assert_eq!(found.etcd, built.join(ETCD));
        let half = make("half", &[API_SERVER]);
        assert_eq!(Programs::find_in(Some(&half), &kept), Some(found));
        let named = make("named", &[ETCD, API_SERVER]);
        let found = Programs::find_in(Some(&named), &kept).unwrap();
        assert_eq!(found.api_server, named.join(API_SERVER));
    }
}
