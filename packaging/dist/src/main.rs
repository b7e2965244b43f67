//! `cargo xtask dist`: builds the executable and every package of it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer tool talks to its developer"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, bail, ensure};
use clap::{Parser, ValueEnum};
use kedge_dist::{
    Build, Form, Machine,
    again::Again,
    appliance::{self, System},
    compile::{self, Edition},
    oci::{self, Image, Role},
    sbom,
    sign::{self, Signer},
    verity,
    written::Program,
};

#[derive(Parser)]
#[command(name = "cargo xtask dist", about = "Builds the packages for hosts")]
struct Arguments {
    /// The machine they are for
    #[arg(long, visible_alias = "arch", value_enum, default_value_t = Cpu::X86_64)]
    machine: Cpu,
    /// Packages this executable instead of building one
    #[arg(long, value_name = "FILE")]
    kedge: Option<PathBuf>,
    /// The profile it is built with
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The version of the packages; left out it is the executable's
    #[arg(long)]
    version: Option<String>,
    /// What runs the executable where this machine does not; qemu-aarch64-static for aarch64
    #[arg(long, value_name = "PROGRAM")]
    runner: Option<String>,
    /// How hard xz tries, 0 to 9
    #[arg(long, default_value_t = 9)]
    level: u32,
    /// Where packages go; `target/packages` without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Writes images of containers as well, as OCI layouts
    #[arg(long)]
    images: bool,
    /// The executable of the manager's image, instead of building one
    #[arg(long, value_name = "FILE")]
    whole: Option<PathBuf>,
    /// Signs the list of checksums with this secret key of minisign's, and has hosts trust it
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Signs the image of the extension with this key (PEM) as well, so that each block of it is proven
    #[arg(long, value_name = "FILE", requires = "verity_certificate")]
    verity_key: Option<PathBuf>,
    /// The certificate of that key (PEM)
    #[arg(long, value_name = "FILE", requires = "verity_key")]
    verity_certificate: Option<PathBuf>,
    /// Writes the bootable appliance as well: a Debian with the extension laid over it, for QEMU
    #[arg(long)]
    appliance: bool,
    /// Builds the same again from a clone, everything below this folder, and fails unless packages are the same to the
    /// byte
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kedge", "sign"])]
    again: Option<PathBuf>,
    /// Asks lintian and rpmlint, and fails at an error or a warning
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Cpu {
    #[value(name = "x86_64", alias = "amd64")]
    X86_64,
    #[value(alias = "arm64")]
    Aarch64,
}

impl Arguments {
    const fn machine(&self) -> Machine {
        match self.machine {
            Cpu::X86_64 => Machine::X86,
            Cpu::Aarch64 => Machine::Arm,
        }
    }
}

fn main() -> ExitCode {
    match dist(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dist: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dist(arguments: &Arguments) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| target.join("packages"));
    fs::create_dir_all(&out)?;
    let build = built(arguments, &root)?;
    let mut written = Vec::new();
    for form in Form::ALL {
        let path = build.write(form, &out)?;
        let length = tell(&path)?;
        // An image is read where it lies: it is packed less, so that it is read faster.
        let at_most = match form {
            Form::Sysext => IMAGE_AT_MOST,
            Form::Deb | Form::Rpm | Form::Tarball => PACKAGE_AT_MOST,
        };
        let name = path.display();
        ensure!(length <= at_most, "{name} is larger than it may be");
        written.push(path);
    }
    if let (Some(key), Some(certificate)) = (&arguments.verity_key, &arguments.verity_certificate) {
        let image = extension(&written)?;
        let to = image.with_extension("verity.raw");
        verity::sign(image, verity::Signer { key, certificate }, &to)?;
        tell(&to)?;
    }
    sign::list(&out)?;
    println!("  {}", out.display());
    if let Some(signer) = signer(arguments)? {
        println!("  {}", signer.sign(&out)?.display());
    }
    if arguments.check {
        for path in &written {
            check(&root, path)?;
        }
    }
    if let Some(folder) = &arguments.again {
        once_more(arguments, folder, &root, &out)?;
    }
    if arguments.appliance {
        bootable(&build, extension(&written)?, &target, &out)?;
    }
    if arguments.images {
        images(arguments, &root, &build, &out)?;
    }
    Ok(())
}

/// Builds packages at another place, and compares them with these.
fn once_more(arguments: &Arguments, folder: &Path, root: &Path, out: &Path) -> anyhow::Result<()> {
    let again = Again::within(&env::current_dir()?.join(folder), root)?;
    let level = arguments.level.to_string();
    let machine = arguments.machine().kernel();
    let mut told = vec!["--machine", machine, "--level", &level];
    told.extend(["--profile", &arguments.profile]);
    let more = [
        ("--version", &arguments.version),
        ("--runner", &arguments.runner),
    ];
    for (option, value) in more {
        told.extend(value.iter().flat_map(|value| [option, value]));
    }
    again.build(&told)?;
    let count = again.compare(out)?;
    println!("  {count} packages are the same to the byte, built at another place");
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// The executable and what is known of it.
fn built(arguments: &Arguments, root: &Path) -> anyhow::Result<Build> {
    let machine = arguments.machine();
    let path = match &arguments.kedge {
        Some(path) => path.clone(),
        None => compile::kedge(root, machine, Edition::Hosts, &arguments.profile)?,
    };
    let kedge = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let of = Machine::of(&kedge);
    ensure!(
        of == Some(machine),
        "{} is for another machine",
        path.display()
    );
    let program = Program {
        path: &path,
        runner: arguments.runner.as_deref().or(machine.runner()),
    };
    let version = match &arguments.version {
        Some(version) => version.clone(),
        None => program.version()?,
    };
    let epoch = epoch(root)?;
    let components = sbom::components(root, machine.target(), Edition::Hosts)?;
    let (on, large, parts) = (machine.kernel(), size(kedge.len()), components.len());
    println!("kedge {version} for {on}: {large}, {parts} crates");
    ensure!(
        kedge.len() <= EXECUTABLE_AT_MOST,
        "it is larger than it may be"
    );
    let bill = sbom::cyclonedx(&components, &version, epoch);
    Ok(Build {
        bill: (bill, sbom::licences(&components)?),
        key: signer(arguments)?.map(|it| it.public()).transpose()?,
        pages: program.pages()?,
        version,
        machine,
        epoch,
        level: arguments.level,
        kedge,
    })
}

fn signer(arguments: &Arguments) -> anyhow::Result<Option<Signer>> {
    arguments.sign.as_deref().map(Signer::of).transpose()
}

/// The image of the system extension among what was written.
fn extension(written: &[PathBuf]) -> anyhow::Result<&Path> {
    let mut images = written
        .iter()
        .filter(|it| it.extension().is_some_and(|it| it == "raw"));
    images
        .next()
        .map(PathBuf::as_path)
        .context("no image of the extension")
}

/// The appliance: a folder that `images/appliance/run` starts.
fn bootable(build: &Build, image: &Path, target: &Path, out: &Path) -> anyhow::Result<()> {
    ensure!(build.machine == Machine::X86, "the appliance is for x86_64");
    let name = format!("appliance-{}-{}", build.version, build.machine.systemd());
    let folder = out.join("images").join(&name);
    fs::create_dir_all(&folder)?;
    let system = System::ready(&target.join("appliance"))?;
    system.with_extension(image, &folder.join("disk.img"))?;
    for part in ["vmlinux", "initrd"] {
        fs::copy(system.folder().join(part), folder.join(part))?;
    }
    fs::copy(appliance::runner(), folder.join("run"))?;
    println!("  images/{name}: boots in QEMU");
    Ok(())
}

/// Images of containers: the build for hosts as agent, everything as manager and as gateway, beside which an Envoy may be.
fn images(arguments: &Arguments, root: &Path, build: &Build, out: &Path) -> anyhow::Result<()> {
    let path = match &arguments.whole {
        Some(path) => path.clone(),
        None => compile::kedge(root, build.machine, Edition::Whole, &arguments.profile)?,
    };
    let whole = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let parts = sbom::components(root, build.machine.target(), Edition::Whole)?;
    let bill = sbom::cyclonedx(&parts, &build.version, build.epoch);
    for role in Role::ALL {
        let (kedge, sbom) = match role {
            Role::Agent => (&build.kedge, &build.bill.0),
            Role::Gateway | Role::Manager => (&whole, &bill),
        };
        let image = Image {
            role,
            version: &build.version,
            machine: build.machine,
            epoch: build.epoch,
            kedge,
            sbom,
        };
        let name = format!("{}-{}", role.name(), build.machine.debian());
        let folder = out.join("images").join(&name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        image.write(&folder)?;
        println!(
            "  images/{name}: an OCI layout, {} unpacked",
            size(kedge.len())
        );
        for_all_machines(role, &build.version, &out.join("images"))?;
    }
    Ok(())
}

/// The image of a role for every machine that there is one for in this folder, of this version.
fn for_all_machines(role: Role, version: &str, images: &Path) -> anyhow::Result<()> {
    let name = role.name();
    let made = Machine::ALL.map(|machine| images.join(format!("{name}-{}", machine.debian())));
    let made = made.into_iter().filter(|it| oci::is_of(it, version));
    let made: Vec<_> = made.collect();
    let folder = images.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    oci::join(&made, version, &folder)?;
    println!("  images/{name}: the same for {} machines", made.len());
    Ok(())
}

/// What checkers of packages say.
fn check(root: &Path, package: &Path) -> anyhow::Result<()> {
    let mut command = match package.extension().and_then(|it| it.to_str()) {
        Some("deb") => {
            let mut lintian = Command::new("lintian");
            lintian.args([
                "--fail-on",
                "error,warning",
                "--tag-display-limit",
                "0",
                "--allow-root",
            ]);
            lintian
        }
        Some("rpm") => {
            let mut rpmlint = Command::new("rpmlint");
            rpmlint
                .arg("--strict")
                .arg("--config")
                .arg(root.join("packaging/host/rpm/rpmlint.toml"));
            rpmlint
        }
        _ => return Ok(()),
    };
    let output = command
        .arg(package)
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let aloud = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{command:?} ended with {}:\n{said}{aloud}", output.status);
    }
    println!("  {} finds nothing", command.get_program().display());
    Ok(())
}

/// The age of files: of the last commit, unless `SOURCE_DATE_EPOCH` says another.
fn epoch(root: &Path) -> anyhow::Result<u64> {
    if let Ok(epoch) = env::var("SOURCE_DATE_EPOCH") {
        return epoch.parse().context("SOURCE_DATE_EPOCH is not a number");
    }
    let output = Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(root)
        .output();
    let said = output
        .map(|it| String::from_utf8_lossy(&it.stdout).into_owned())
        .unwrap_or_default();
    Ok(said.trim().parse().unwrap_or(0))
}

/// Says what was written, and how large it is in bytes.
fn tell(path: &Path) -> anyhow::Result<usize> {
    let length = fs::read(path)?.len();
    let name = path.file_name().unwrap_or_default();
    println!("  {}: {}", name.display(), size(length));
    Ok(length)
}

fn size(bytes: usize) -> String {
    let tenths = bytes.saturating_mul(10) / (1024 * 1024);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

// What it is to take at most (docs/adr/0059).
const EXECUTABLE_AT_MOST: usize = 15 * 1024 * 1024;
const PACKAGE_AT_MOST: usize = 10 * 1024 * 1024;
const IMAGE_AT_MOST: usize = 12 * 1024 * 1024;
