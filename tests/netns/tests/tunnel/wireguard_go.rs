//! Debian's wireguard-go, as the other end; or another engine that `wg` configures, where it is installed.

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use kedge_net::netns::Namespace;

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

/// A program that is a WireGuard device, and how it stays in the foreground as root.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    pub program: &'static str,
    arguments: &'static [&'static str],
}

const DEBIANS: Engine = Engine {
    program: "wireguard-go",
    arguments: &["-f"],
};

/// Those that are installed; tests bring the first.
pub fn engines() -> Vec<Engine> {
    let rust = |program| Engine {
        program,
        arguments: &["-f", "--disable-drop-privileges"],
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |engine: &Engine| {
        let mut directories = std::env::split_paths(&path);
        directories.any(|directory| directory.join(engine.program).is_file())
    };
    let all = [DEBIANS, rust("boringtun-cli"), rust("gotatun")];
    all.into_iter().filter(installed).collect()
}

/// A wireguard-go process with its interface.
pub struct WireGuardGo {
    process: Child,
    pub name: String,
}

impl WireGuardGo {
    /// Its control socket is found by the interface's name whatever the namespace, so the name is
    /// unique.
    pub fn start(namespace: &Namespace, configuration: &str, addresses: &[&str]) -> Self {
        Self::start_engine(DEBIANS, namespace, configuration, addresses)
    }

    /// The same with another program.
    pub fn start_engine(
        engine: Engine,
        namespace: &Namespace,
        configuration: &str,
        addresses: &[&str],
    ) -> Self {
        let name = format!("wg-{}", &namespace.name()[6..10]);
        let process = namespace
            .run(|| {
                Command::new(engine.program)
                    .args(engine.arguments)
                    .arg(&name)
                    .env("WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD", "1")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .unwrap();
        let started = Self { process, name };
        let socket = format!("/var/run/wireguard/{}.sock", started.name);
        eventually("it listens", LIMIT, || Path::new(&socket).exists());
        let mut file = tempfile_with(configuration);
        run(namespace, "wg", &["setconf", &started.name, file.path()]);
        file.remove();
        for address in addresses {
            run(
                namespace,
                "ip",
                &["address", "add", address, "dev", &started.name, "nodad"],
            );
        }
        run(
            namespace,
            "ip",
            &["link", "set", &started.name, "mtu", "1420", "up"],
        );
        started
    }

    pub fn route(&self, namespace: &Namespace, prefixes: &[&str]) {
        for prefix in prefixes {
            run(
                namespace,
                "ip",
                &["route", "add", prefix, "dev", &self.name],
            );
        }
    }

    /// Where its only peer is, as `wg` tells.
    pub fn endpoint(&self, namespace: &Namespace) -> String {
        let told = run(namespace, "wg", &["show", &self.name, "endpoints"]);
        told.split_whitespace().last().unwrap().to_owned()
    }

    /// Handshake time, bytes received and sent, as `wg show` tells them.
    pub fn show(&self, namespace: &Namespace) -> (u64, u64, u64) {
        let dump = run(namespace, "wg", &["show", &self.name, "dump"]);
        let peer: Vec<&str> = dump.lines().nth(1).unwrap().split('\t').collect();
        let number = |at: usize| peer[at].parse().unwrap();
        (number(4), number(5), number(6))
    }
}

impl Drop for WireGuardGo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(format!("/var/run/wireguard/{}.sock", self.name));
    }
}

/// A file for `wg setconf`, readable by us alone.
struct KeyFile(String);

fn tempfile_with(text: &str) -> KeyFile {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = std::env::temp_dir().join(format!("kedge-wg-{}-{:p}", std::process::id(), text));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
    KeyFile(path.to_str().unwrap().to_owned())
}

impl KeyFile {
    fn path(&self) -> &str {
        &self.0
    }

    fn remove(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}
