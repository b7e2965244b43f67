//! The systems that tests start from: Debian with systemd, built once.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use rustix::fs::{FlockOperation, flock};

/// The folder in which trees stand.
pub fn cache() -> PathBuf {
    let given = env::var_os("KEDGE_BOOT_CACHE").map(PathBuf::from);
    given.unwrap_or_else(|| {
        let home = env::var_os("HOME").unwrap_or_else(|| "/root".into());
        Path::new(&home).join(".cache/kedge-boot")
    })
}

/// A recipe for one.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Another name when the recipe changes: what was built before is not taken for it.
    name: &'static str,
    release: &'static str,
    packages: &'static str,
}

/// What nodes start from.
pub const NODES: Recipe = Recipe {
    name: "bookworm-4",
    release: "bookworm",
    packages: "systemd,systemd-sysv,systemd-resolved,dbus,iproute2,nftables,network-manager,rpm",
};

/// What a later system has that the nodes' has not: systemd-sysupdate, which Debian 12 leaves out.
pub const LATER: Recipe = Recipe {
    name: "trixie-1",
    release: "trixie",
    packages: "systemd-container,gpg",
};

impl Recipe {
    /// Where it is, if it is there.
    pub fn path(self) -> Option<PathBuf> {
        Some(cache().join(self.name)).filter(|path| path.is_dir())
    }

    /// Where it is; builds it first where it is not.
    pub fn ready(self) -> PathBuf {
        let place = cache().join(self.name);
        fs::create_dir_all(cache()).unwrap();
        // Tests run in several processes; one of them builds.
        let lock = fs::File::create(cache().join("lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        if place.is_dir() {
            return place;
        }
        let begun = Instant::now();
        let partial = cache().join("partial");
        _ = fs::remove_dir_all(&partial);
        let mut bootstrap = Command::new("mmdebstrap");
        bootstrap.args(["--mode=root", "--variant=essential", "--format=directory"]);
        bootstrap.arg(format!("--include={}", self.packages));
        for excluded in ["man", "doc", "locale", "info"] {
            bootstrap.arg(format!("--dpkgopt=path-exclude=/usr/share/{excluded}/*"));
        }
        bootstrap.arg("--aptopt=Apt::Install-Recommends \"false\"");
        let output = bootstrap.arg(self.release).arg(&partial).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} cannot be built: {said}");
        for unwanted in UNWANTED {
            let mask = partial.join("etc/systemd/system").join(unwanted);
            std::os::unix::fs::symlink("/dev/null", mask).unwrap();
        }
        for unasked in UNASKED {
            _ = fs::remove_file(partial.join("etc/systemd/system").join(unasked));
        }
        fs::rename(&partial, &place).unwrap();
        println!("{} was built in {:?}", self.name, begun.elapsed());
        place
    }
}

/// What its package enables, and only some nodes run.
const UNASKED: &[&str] = &[
    "multi-user.target.wants/NetworkManager.service",
    "network-online.target.wants/NetworkManager-wait-online.service",
    "dbus-org.freedesktop.nm-dispatcher.service",
    "dbus-org.freedesktop.resolve1.service",
    "sysinit.target.wants/systemd-resolved.service",
];
/// What would be busy while a test measures.
const UNWANTED: &[&str] = &[
    "dpkg-db-backup.timer",
    "fstrim.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "systemd-networkd-wait-online.service",
];
