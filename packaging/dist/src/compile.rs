//! Builds the executable that is packaged: linked statically, without a path of this machine in it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

use crate::Machine;

/// What is in the executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// What hosts carry: no manager, no lab (docs/adr/0021).
    Hosts,
    /// Everything.
    Whole,
}

impl Edition {
    /// What cargo is told.
    pub(crate) const fn features(self) -> &'static [&'static str] {
        match self {
            Self::Hosts => &["--no-default-features"],
            Self::Whole => &[],
        }
    }

    /// What a panic does: a host's agent dies of it, and its guardian hands over; of the manager, which serves
    /// many, one request does (docs/adr/0059).
    const fn panic(self) -> &'static str {
        match self {
            Self::Hosts => "abort",
            Self::Whole => "unwind",
        }
    }

    /// What the last step is told, from the root.
    const fn linked(self) -> &'static [&'static str] {
        match self {
            Self::Hosts => &["-Clink-arg=-Wl,-T,packaging/dist/src/no-unwinding.ld"],
            Self::Whole => &[],
        }
    }

    /// What the compilers of Rust and C are told: without unwinding, nobody reads the tables it takes.
    const fn flags(self) -> (&'static str, &'static str) {
        match self {
            Self::Hosts => (
                " -Cforce-unwind-tables=no",
                " -fno-unwind-tables -fno-asynchronous-unwind-tables",
            ),
            Self::Whole => ("", ""),
        }
    }
}

/// Builds it with this profile, and says where it is.
///
/// # Errors
///
/// It does not build.
pub fn kedge(
    root: &Path,
    machine: Machine,
    edition: Edition,
    profile: &str,
) -> anyhow::Result<PathBuf> {
    let target = machine.target();
    let folder = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    // Compilers know it by its whole path.
    let folder = root.join(folder);
    let program = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let home = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => Path::new(&env::var_os("HOME").context("no home")?).join(".cargo"),
    };
    // Of those that fit the last replaces: the folder of the target may be inside the root, or not.
    let places = [
        (root, "/kedge"),
        (home.as_path(), "/cargo"),
        (folder.as_path(), "/target"),
    ];
    let (rust, c) = edition.flags();
    let (mut rust, mut c) = (format!("{LINKED}{rust}"), c.to_owned());
    if let Some(lld) = lld()? {
        rust.push_str(&format!(" -Clink-arg=-B{}", lld.display()));
    }
    for (from, to) in places {
        let from = from.display();
        rust.push_str(&format!(" --remap-path-prefix={from}={to}"));
        c.push_str(&format!(" -ffile-prefix-map={from}={to}"));
    }
    let mut build = Command::new(program);
    // Without AES for AVX-512 and large tables of curves that TLS alone needs (0.9 MiB); a gateway's tunnel uses neither.
    if edition == Edition::Hosts && env::var_os(SMALL_TLS).is_none() {
        build.env(SMALL_TLS, "1");
    }
    for (name, tool) in machine.cross_tools() {
        if env::var_os(name).is_none() {
            build.env(name, tool);
        }
    }
    let status = build
        .args([
            "rustc",
            "--locked",
            "--package",
            "kedge-agent-cli",
            "--bin",
            "kedge",
        ])
        .args(["--profile", profile, "--target", target])
        .args(edition.features())
        .arg("--config")
        .arg(format!("profile.{profile}.panic={:?}", edition.panic()))
        .arg("--")
        .args(edition.linked())
        .env("RUSTFLAGS", rust)
        .env("CFLAGS", c)
        // It would be asked before the former.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the executable does not build");
    let place = if profile == "dev" { "debug" } else { profile };
    let built = folder.join(target).join(place).join("kedge");
    ensure!(fs::exists(&built)?, "{} is not there", built.display());
    Ok(built)
}

/// Where the toolchain keeps the linker it brings along, if it does: compilers look for another on the `PATH`. GNU's
/// knows short relocations for few machines.
fn lld() -> anyhow::Result<Option<PathBuf>> {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let asked = Command::new(rustc)
        .args(["--print", "target-libdir"])
        .output()?;
    ensure!(asked.status.success(), "rustc does not say where it is");
    let libraries = PathBuf::from(String::from_utf8(asked.stdout)?.trim());
    let place = libraries.with_file_name("bin").join("gcc-ld");
    Ok(fs::exists(&place)?.then_some(place))
}

/// What aws-lc-sys is asked to be small by.
const SMALL_TLS: &str = "AWS_LC_SYS_SMALL";
/// Static; relocations in their short form, which the linked C library reads itself; of functions that are the same,
/// one.
const LINKED: &str = "-Ctarget-feature=+crt-static -Clink-arg=-fuse-ld=lld \
                      -Clink-arg=-Wl,-z,pack-relative-relocs -Clink-arg=-Wl,--icf=all";
