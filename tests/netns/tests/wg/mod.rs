//! WireGuard devices that `wg` and `wg-quick` configure: `kedge wg`, or wireguard-go.

pub mod train;

use std::{
    fs,
    os::unix::fs::{OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use kedge_net::netns::Namespace;
use kedge_tunnel_proto::keys::PrivateKey;

use crate::tunnel::{eventually, text};

pub const LIMIT: Duration = Duration::from_secs(10);

/// Who makes a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Kedge,
    /// The same with two workers.
    KedgeCrew,
    WireGuardGo,
    /// boringtun-cli, where it is installed.
    Boringtun,
    /// gotatun-cli, where it is installed.
    Gotatun,
}

impl Maker {
    /// The program, as the path knows it.
    pub fn program(self) -> &'static str {
        match self {
            Self::Kedge | Self::KedgeCrew => "kedge-wg",
            Self::WireGuardGo => "wireguard-go",
            Self::Boringtun => "boringtun-cli",
            Self::Gotatun => "gotatun",
        }
    }

    pub fn is_installed(self) -> bool {
        let path = std::env::var_os("PATH").unwrap();
        std::env::split_paths(&path).any(|folder| folder.join(self.program()).is_file())
    }
}

/// A device in a namespace.
pub struct Wg<'a> {
    pub namespace: &'a Namespace,
    pub name: String,
    folder: tempfile::TempDir,
}

impl<'a> Wg<'a> {
    /// Makes a device, which is there when the call returns.
    pub fn make(namespace: &'a Namespace, maker: Maker) -> Self {
        let device = Self::named(namespace);
        match maker {
            Maker::Kedge => {
                device.run("kedge-wg", &[&device.name]);
            }
            Maker::KedgeCrew => {
                device.run("kedge-wg", &["--workers", "2", &device.name]);
            }
            Maker::WireGuardGo => {
                device.run("wireguard-go", &[&device.name]);
                eventually("wireguard-go listens", LIMIT, || device.socket().exists());
            }
            Maker::Boringtun | Maker::Gotatun => {
                let log = device.folder.path().join("log");
                let arguments = ["--disable-drop-privileges", "-l", log.to_str().unwrap()];
                let arguments = [&arguments[..], &[&device.name]].concat();
                device.run(maker.program(), &arguments);
                eventually("it listens", LIMIT, || device.socket().exists());
            }
        }
        assert!(device.socket().exists(), "it returns when tools can come");
        device
    }

    /// A name for a device, and all that tools need to make it. Sockets are found by name whatever
    /// the namespace, so it is nobody else's.
    pub fn named(namespace: &'a Namespace) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::tempdir().unwrap();
        let kedge = env!("CARGO_BIN_EXE_kedge-under-test");
        symlink(kedge, folder.path().join("kedge-wg")).unwrap();
        Self {
            namespace,
            name: format!("w{}-{count}", &namespace.name()[6..10]),
            folder,
        }
    }

    /// With the configuration of a file, addresses, and up.
    pub fn up(self, configuration: &str, addresses: &[&str]) -> Self {
        self.configure("setconf", configuration);
        for address in addresses {
            let arguments = ["address", "add", address, "dev", &self.name, "nodad"];
            self.run("ip", &arguments);
        }
        self.run("ip", &["link", "set", &self.name, "mtu", "1420", "up"]);
        self
    }

    /// `wg setconf`, `addconf` or `syncconf` with a file.
    pub fn configure(&self, how: &str, configuration: &str) {
        let output = self.try_configure(how, configuration);
        text(how, Ok(output));
    }

    pub fn try_configure(&self, how: &str, configuration: &str) -> Output {
        let file = self.file("given.conf", configuration);
        let file = file.to_str().unwrap();
        self.try_run("wg", &[how, &self.name, file])
    }

    /// A file that is readable by us alone.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        use std::io::Write as _;
        let path = self.folder.path().join(name);
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        path
    }

    /// `wg set` with these words.
    pub fn set(&self, words: &str) {
        text(words, Ok(self.try_set(words)));
    }

    pub fn try_set(&self, words: &str) -> Output {
        let mut arguments = vec!["set", &self.name];
        arguments.extend(words.split_whitespace());
        self.try_run("wg", &arguments)
    }

    /// `wg show` with this word.
    pub fn show(&self, what: &str) -> String {
        self.run("wg", &["show", &self.name, what])
    }

    /// What `wg show` says of a peer in a column: `endpoints`, `transfer` and so on.
    pub fn of_peer(&self, what: &str, key: &PrivateKey) -> Option<String> {
        let start = format!("{}\t", key.public());
        let all = self.show(what);
        let line = all.lines().find_map(|line| line.strip_prefix(&start));
        line.map(str::to_owned)
    }

    /// Seconds since 1970 of the last handshake with a peer, 0 when there was none.
    pub fn handshake(&self, key: &PrivateKey) -> u64 {
        let told = self.of_peer("latest-handshakes", key);
        told.map_or(0, |told| told.parse().unwrap())
    }

    pub fn socket(&self) -> PathBuf {
        Path::new("/var/run/wireguard").join(format!("{}.sock", self.name))
    }

    /// Whether there is such an interface.
    pub fn exists(&self) -> bool {
        let output = self.try_run("ip", &["link", "show", &self.name]);
        output.status.success()
    }

    /// Runs a program in the device's namespace.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.try_run(program, arguments);
        text((program, arguments), Ok(output))
    }

    pub fn try_run(&self, program: &str, arguments: &[&str]) -> Output {
        self.namespace
            .run(|| self.command(program, arguments).output().unwrap())
            .unwrap()
    }

    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let path = format!(
            "{}:{}",
            self.folder.path().display(),
            std::env::var("PATH").unwrap()
        );
        let core = std::env::var("KEDGE_TEST_NOISE_CORE").unwrap_or("boringtun".into());
        let workers = std::env::var("KEDGE_TEST_WORKERS").unwrap_or("1".into());
        // As a shell finds it: in the path of the child.
        let link = self.folder.path().join(program);
        let program = if link.exists() {
            link.into_os_string()
        } else {
            program.into()
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("PATH", path)
            .env("KEDGE_SET_TUNNEL__NOISE_CORE", core)
            .env("KEDGE_SET_TUNNEL__WORKERS", workers)
            .env("WG_QUICK_USERSPACE_IMPLEMENTATION", "kedge-wg")
            .env("WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD", "1")
            .env_remove("LOG_LEVEL");
        command
    }
}

impl Drop for Wg<'_> {
    fn drop(&mut self) {
        // Whatever serves it ends with its socket, or with its interface.
        let _ = self.try_run("ip", &["link", "delete", &self.name]);
        let _ = fs::remove_file(self.socket());
    }
}

/// A preshared key of one byte, as `wg` reads it.
pub fn preshared(number: u8) -> String {
    PrivateKey::from_bytes([number; 32])
        .unwrap()
        .to_base64()
        .to_string()
}
