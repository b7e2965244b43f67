//! Whether this host's kernel has WireGuard, without asking it to load the module.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
};

/// How the kernel stands to WireGuard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// It knows it already.
    Loaded,
    /// It would load it when asked.
    Loadable,
    /// Neither, as far as its files tell.
    Absent,
}

/// How the running kernel stands to WireGuard, below `root` (`/`).
#[must_use]
pub fn standing(root: &Path) -> Module {
    if root.join("sys/module/wireguard").is_dir() {
        return Module::Loaded;
    }
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let modules = root.join("lib/modules").join(release);
    if lists(&modules.join("modules.builtin")) {
        Module::Loaded
    } else if lists(&modules.join("modules.dep")) {
        Module::Loadable
    } else {
        Module::Absent
    }
}

/// Whether a list of modules names it at the beginning of a line, as `modules.dep` names what a line
/// is about.
fn lists(file: &Path) -> bool {
    let Ok(file) = fs::File::open(file) else {
        return false;
    };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.any(|line| {
        let path = line.split(':').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        name.strip_prefix("wireguard.ko")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_lists_tell() {
        let dir = std::env::temp_dir().join(format!("kedge-module-{}", std::process::id()));
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        let modules = dir.join("lib/modules").join(release);
        fs::create_dir_all(&modules).unwrap();
        assert_eq!(standing(&dir), Module::Absent);
        let write = |name: &str, text: &str| fs::write(modules.join(name), text).unwrap();
        write(
            "modules.dep",
            "kernel/net/x.ko: kernel/drivers/net/wireguard/wireguard.ko\n",
        );
        assert_eq!(standing(&dir), Module::Absent, "needed by another");
        write(
            "modules.dep",
            "a.ko:\nkernel/drivers/net/wireguard/wireguard.ko.zst: kernel/lib/b.ko\n",
        );
        assert_eq!(standing(&dir), Module::Loadable);
        write(
            "modules.builtin",
            "kernel/drivers/net/wireguard/wireguard.ko\n",
        );
        assert_eq!(standing(&dir), Module::Loaded);
        fs::remove_dir_all(&dir).unwrap();
    }
}
