//! Packages of the executable of these tests, or those that `KEDGE_DIST` names.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use kedge_dist::{
    Build, Form, Machine,
    sign::{self, Signer},
    sysext,
    tree::Tree,
    written::Program,
};
use rpm::{Dependency, PackageBuilder};
use tempfile::TempDir;

/// Two versions of the same executable, as packages.
#[derive(Debug)]
pub struct Packages {
    old: Build,
    signer: Signer,
    folder: TempDir,
}

impl Packages {
    /// Makes them of the executable that hosts get.
    #[must_use]
    pub fn of(kedge: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kedge");
        let from = shipped(kedge);
        // What a debugger reads is ten times the program.
        let mut strip = Command::new("strip");
        strip.arg("--strip-all").arg("-o").arg(&path).arg(from);
        assert!(strip.status().unwrap().success(), "{strip:?}");
        let program = Program {
            path: &path,
            runner: None,
        };
        let kedge = fs::read(&path).unwrap();
        let signer = Signer::ephemeral().unwrap();
        let old = Build {
            version: OLD.to_owned(),
            machine: Machine::of(&kedge).unwrap(),
            epoch: 1_700_000_000,
            level: 0,
            pages: program.pages().unwrap(),
            kedge,
            bill: ("{}\n".into(), String::new()),
            key: Some(signer.public().unwrap()),
        };
        Self {
            old,
            signer,
            folder,
        }
    }

    /// A package of that version.
    #[must_use]
    pub fn write(&self, form: Form, version: &str) -> PathBuf {
        let mut build = self.old.clone();
        version.clone_into(&mut build.version);
        build.write(form, self.folder.path()).unwrap()
    }

    /// A release of that version in a folder, signed by the key that all of these packages bring; with another
    /// executable, if there is one.
    pub fn release(&self, forms: &[Form], version: &str, kedge: Option<&str>, folder: &Path) {
        let mut build = self.old.clone();
        version.clone_into(&mut build.version);
        if let Some(kedge) = kedge {
            build.kedge = kedge.into();
        }
        for form in forms {
            build.write(*form, folder).unwrap();
        }
        sign::list(folder).unwrap();
        self.signer.sign(folder).unwrap();
    }

    /// A release whose packages nobody has: its list, signed.
    pub fn listed(&self, names: &[String], folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let lines = names
            .iter()
            .map(|name| format!("{}  {name}\n", "0".repeat(64)));
        fs::write(folder.join("SHA256SUMS"), lines.collect::<String>()).unwrap();
        self.signer.sign(folder).unwrap();
    }

    /// Signs a release with a key that nobody trusts.
    pub fn signed_by_a_stranger(folder: &Path) {
        Signer::ephemeral().unwrap().sign(folder).unwrap();
    }

    /// The files of the system extension of that version.
    #[must_use]
    pub fn extension(&self, version: &str) -> Tree {
        let mut build = self.old.clone();
        version.clone_into(&mut build.version);
        sysext::tree(&build).unwrap()
    }
}

/// What a package for rpm asks of a system, as a package for a database that has nothing of Debian's.
#[must_use]
pub fn system(folder: &Path) -> PathBuf {
    let what = "what packages need";
    let mut system = PackageBuilder::new("system", "1", "none", "noarch", what);
    system.provides(Dependency::any("/bin/sh"));
    let path = folder.join("system.rpm");
    system.build().unwrap().write_file(&path).unwrap();
    path
}

/// The executable that hosts get: that of the folder `KEDGE_DIST`, if it is set, and else this one.
#[must_use]
pub fn shipped(kedge: &str) -> PathBuf {
    let given = env::var_os("KEDGE_DIST").map(|it| Path::new(&it).join("kedge"));
    given.unwrap_or_else(|| kedge.into())
}

/// The version that is installed first.
pub const OLD: &str = "0.1.0";
/// The one after it.
pub const NEW: &str = "0.1.1";
