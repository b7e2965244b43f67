//! The programs that are a WireGuard device.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// A program that makes a WireGuard interface and takes its configuration from `wg`.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

impl Engine {
    /// How many of [`all`](Self::all) are Kedge's.
    pub(super) const OURS: usize = 2;

    /// Kedge on each of its Noise cores, and every other engine that is installed.
    pub(super) fn all(kedge: &Path) -> Vec<Self> {
        let ours = [
            ("kedge", &["wg", "-f", "--noise-core", "boringtun"] as &[_]),
            ("kedge-own", &["wg", "-f", "--noise-core", "own"]),
        ];
        let ours = ours.map(|(name, arguments)| Self {
            name,
            program: kedge.to_owned(),
            arguments,
        });
        let others = OTHERS.into_iter().filter_map(|(name, program, arguments)| {
            Some(Self {
                name,
                program: installed(program)?,
                arguments,
            })
        });
        ours.into_iter().chain(others).collect()
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether peers can be changed while it runs: boringtun's worker panics (boringtun#40).
    pub(super) fn changes_peers(&self) -> bool {
        self.name != "boringtun-cli"
    }

    /// The command that stays in the foreground and is the device `ifname`.
    pub(super) fn command(&self, ifname: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.arguments).arg(ifname);
        command
    }

    /// What it says its version is.
    pub(super) fn version(&self) -> String {
        let output = Command::new(&self.program).arg("--version").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let word = text
            .lines()
            .next()
            .and_then(|line| line.split_whitespace().find(|word| word.contains('.')));
        match word {
            Some(version) => format!("{} {version}", self.name),
            None => self.name.to_owned(),
        }
    }
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// By the names of their packages: the programs, and how they stay in the foreground as root.
const OTHERS: [(&str, &str, &[&str]); 3] = [
    ("wireguard-go", "wireguard-go", &["-f"]),
    (
        "boringtun-cli",
        "boringtun-cli",
        &["-f", "--disable-drop-privileges"],
    ),
    ("gotatun", "gotatun", &["-f", "--disable-drop-privileges"]),
];
