//! Where Kedge's files are.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A role of the executable; its name is the stem of its files and of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The edge daemon.
    Agent,
    /// The tunnel hub and data plane.
    Gateway,
    /// The controllers and the agent API.
    Manager,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Gateway, Self::Manager];

    /// The role's name as it stands in file names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Gateway => "gateway",
            Self::Manager => "manager",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The folder all of Kedge's own folders are below: `/`, or `--root DIR`, so that many instances
/// run on one file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// A root.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// The root's own path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether this is the system's own root.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// `/usr/lib/kedge`: what the vendor ships.
    #[must_use]
    pub fn vendor_dir(&self) -> PathBuf {
        self.0.join("usr/lib/kedge")
    }

    /// `/etc/kedge`: what the administrator writes.
    #[must_use]
    pub fn config_dir(&self) -> PathBuf {
        self.0.join("etc/kedge")
    }

    /// `/var/lib/kedge/<role>`: what must survive a restart.
    #[must_use]
    pub fn state_dir(&self, role: Role) -> PathBuf {
        self.0.join("var/lib/kedge").join(role.as_str())
    }

    /// `/run/kedge`: sockets and locks.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.0.join("run/kedge")
    }

    /// The vendor's file of a role.
    #[must_use]
    pub fn vendor_file(&self, role: Role) -> PathBuf {
        self.vendor_dir().join(format!("{role}.yaml"))
    }

    /// The administrator's file of a role.
    #[must_use]
    pub fn config_file(&self, role: Role) -> PathBuf {
        self.config_dir().join(format!("{role}.yaml"))
    }

    /// The administrator's drop-ins of a role.
    #[must_use]
    pub fn drop_in_dir(&self, role: Role) -> PathBuf {
        self.config_dir().join(format!("{role}.yaml.d"))
    }

    /// The control socket of a role.
    #[must_use]
    pub fn socket(&self, role: Role) -> PathBuf {
        self.run_dir().join(format!("{role}.sock"))
    }

    /// The folder itself.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// A path as it stands in a configuration: below one of Kedge's own folders it is below the
    /// root, any other path is taken as it is.
    #[must_use]
    pub fn locate(&self, path: &Path) -> PathBuf {
        let own = OWN_DIRS.iter().any(|dir| path.starts_with(dir));
        match path.strip_prefix("/") {
            Ok(relative) if own => self.0.join(relative),
            _ => path.to_owned(),
        }
    }

    /// A file of the system, such as `/etc/machine-id`: the root's own where it has one.
    #[must_use]
    pub fn system_file(&self, path: &Path) -> PathBuf {
        let inside = self.0.join(path.strip_prefix("/").unwrap_or(path));
        if inside.exists() {
            inside
        } else {
            path.to_owned()
        }
    }
}

impl Default for Root {
    fn default() -> Self {
        Self::new("/")
    }
}

const OWN_DIRS: [&str; 4] = [
    "/usr/lib/kedge",
    "/etc/kedge",
    "/var/lib/kedge",
    "/run/kedge",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_own_folder_is_below_the_root() {
        let root = Root::new("/lab/a");
        assert_eq!(
            root.vendor_file(Role::Agent),
            Path::new("/lab/a/usr/lib/kedge/agent.yaml")
        );
        assert_eq!(
            root.drop_in_dir(Role::Gateway),
            Path::new("/lab/a/etc/kedge/gateway.yaml.d")
        );
        assert_eq!(
            root.state_dir(Role::Agent),
            Path::new("/lab/a/var/lib/kedge/agent")
        );
        assert_eq!(
            root.socket(Role::Manager),
            Path::new("/lab/a/run/kedge/manager.sock")
        );
        assert_eq!(
            Root::default().config_file(Role::Agent),
            Path::new("/etc/kedge/agent.yaml")
        );
    }

    #[test]
    fn only_own_paths_of_a_configuration_move_below_the_root() {
        let root = Root::new("/lab/a");
        assert_eq!(
            root.locate(Path::new("/etc/kedge/token")),
            Path::new("/lab/a/etc/kedge/token")
        );
        assert_eq!(
            root.locate(Path::new("/etc/kedgeX/token")),
            Path::new("/etc/kedgeX/token")
        );
        assert_eq!(
            root.locate(Path::new("/srv/token")),
            Path::new("/srv/token")
        );
        assert_eq!(
            Root::default().locate(Path::new("/etc/kedge/token")),
            Path::new("/etc/kedge/token")
        );
    }
}
