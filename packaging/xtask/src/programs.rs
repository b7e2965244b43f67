//! The programs that cargo makes of the tests. All are built by one command: cargo chooses what its
//! dependencies can do for each command anew, and would compile half of them again for every tier.

use std::{
    collections::BTreeMap,
    io::BufReader,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use cargo_metadata::{Artifact, Message, Metadata, MetadataCommand, TargetKind};

use crate::{
    heard::{self, Heard},
    run,
};

/// What was built.
pub struct Built {
    /// The tests.
    pub tests: Vec<Program>,
    binaries: BTreeMap<String, PathBuf>,
}

impl Built {
    /// A program of the workspace that the tests need.
    pub fn binary(&self, name: &str) -> anyhow::Result<&Path> {
        let binary = self.binaries.get(name);
        binary
            .map(PathBuf::as_path)
            .with_context(|| format!("cargo built no {name}"))
    }
}

/// Tests of one package that are one program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// Its package.
    pub package: String,
    /// Its target.
    pub name: String,
    /// How cargo is told of it.
    select: String,
    executable: PathBuf,
    /// Which of its tests these are; all of them if empty.
    tests: Vec<String>,
    /// The folder of the package: where cargo runs it.
    folder: PathBuf,
}

impl Program {
    fn of(artifact: Artifact, metadata: &Metadata) -> Option<Self> {
        let packages = &metadata.packages;
        let package = packages.iter().find(|it| it.id == artifact.package_id)?;
        let name = artifact.target.name;
        let select = match artifact.target.kind.first()? {
            TargetKind::Test => format!("--test {name}"),
            TargetKind::Bin => format!("--bin {name}"),
            _ => "--lib".to_owned(),
        };
        Some(Self {
            package: package.name.to_string(),
            name,
            select,
            executable: artifact.executable?.into(),
            tests: Vec::new(),
            folder: package.manifest_path.parent()?.into(),
        })
    }

    /// Each of its modules as a program of its own: what one of them leaves behind in a process, no other sees.
    ///
    /// # Errors
    ///
    /// It cannot be asked which tests it has, or has one that is in no module.
    pub fn modules(&self) -> anyhow::Result<Vec<Self>> {
        let asked = self.command(&["--list", "--format", "terse"]).output();
        let asked = asked.with_context(|| self.missing())?;
        let list = String::from_utf8(asked.stdout)?;
        let mut modules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for test in list.lines().filter_map(|line| line.strip_suffix(": test")) {
            let within = test.split_once("::").map(|(module, _)| module);
            let module = within.with_context(|| format!("{test} is in no module"))?;
            modules.entry(module).or_default().push(test.to_owned());
        }
        if !asked.status.success() || modules.is_empty() {
            bail!("{} tells no tests: {}", self.name, asked.status);
        }
        let modules = modules.into_iter().map(|(module, tests)| Self {
            name: module.to_owned(),
            select: format!("{} {module}::", self.select),
            tests,
            ..self.clone()
        });
        Ok(modules.collect())
    }

    /// Modules of this program as one again, so that its threads have the tests of all: a long test of one
    /// module does not keep the others waiting.
    pub fn of_modules(&self, name: &str, modules: &[Self]) -> Self {
        let tests = modules.iter().flat_map(|module| module.tests.clone());
        self.of_tests(name, tests)
    }

    /// Some of its tests.
    pub fn of_tests(&self, name: &str, tests: impl IntoIterator<Item = String>) -> Self {
        Self {
            name: name.to_owned(),
            tests: tests.into_iter().collect(),
            ..self.clone()
        }
    }

    /// Those of its tests that it said at its end have failed; `None` where it did not come to say all of them.
    pub fn failed(&self, heard: &Heard) -> Option<Vec<String>> {
        let all = heard.last.iter();
        let listed = all.rev().take_while(|line| *line != "failures:");
        let mut listed: Vec<&str> = listed.map(|line| line.trim()).collect();
        listed.reverse();
        // Where none was asked for by name, each that is listed is one of its.
        let is_own = |line: &&&str| match self.tests.is_empty() {
            true => !line.is_empty() && !line.contains(' '),
            false => self.tests.iter().any(|test| test == **line),
        };
        let failed = listed.iter().filter(is_own).map(ToString::to_string);
        let failed: Vec<String> = failed.collect();
        let counted = format!("; {} failed;", failed.len());
        let says_all = |line: &&str| line.starts_with("test result: ") && line.contains(&counted);
        (listed.iter().any(says_all) && !failed.is_empty()).then_some(failed)
    }

    /// Runs it as cargo does. Its lines begin with its name where others speak beside it.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn run(&self, arguments: &[&str], beside_others: bool) -> anyhow::Result<Heard> {
        let mut command = self.command(arguments);
        if !self.tests.is_empty() {
            command.arg("--exact").args(&self.tests);
        }
        let begin = if beside_others {
            format!("{}: ", self.name)
        } else {
            String::new()
        };
        heard::run(command, begin).with_context(|| self.missing())
    }

    /// What a report says of its failure.
    pub fn failure(&self, heard: &Heard) -> String {
        let Self {
            package, select, ..
        } = self;
        let (status, last) = (heard.status, heard.last.join("\n  "));
        format!("`cargo test -p {package} {select}` ended with {status}, and said last:\n  {last}")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package);
        command
    }

    fn missing(&self) -> String {
        format!("cannot start {}", self.executable.display())
    }
}

/// Builds all tests.
pub fn build() -> anyhow::Result<Built> {
    let metadata = MetadataCommand::new()
        .current_dir(run::root()?)
        .no_deps()
        .exec()?;
    let mut command = run::cargo(&["test", "--workspace", "--no-run"])?;
    let (mut tests, mut binaries) = (Vec::new(), BTreeMap::new());
    for artifact in artifacts("all tests are built", &mut command)? {
        if artifact.profile.test {
            tests.extend(Program::of(artifact, &metadata));
        } else if let Some(executable) = artifact.executable {
            binaries.insert(artifact.target.name, executable.into());
        }
    }
    tests.sort();
    Ok(Built { tests, binaries })
}

/// Builds one example; says where it lies.
pub fn example(name: &str) -> anyhow::Result<PathBuf> {
    // With what the whole workspace asks of the dependencies, so that nothing is compiled twice.
    let mut command = run::cargo(&["build", "--quiet", "--workspace", "--example", name])?;
    let built = artifacts(&format!("{name} is built"), &mut command)?;
    let example = built
        .into_iter()
        .filter(|it| it.target.name == name && it.target.kind.contains(&TargetKind::Example))
        .find_map(|it| it.executable);
    let example = example.with_context(|| format!("there is no example {name}"))?;
    Ok(example.into())
}

/// Builds something, and returns what cargo made.
fn artifacts(what: &str, command: &mut Command) -> anyhow::Result<Vec<Artifact>> {
    command
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped());
    run::step_read(what, command, |process| {
        let output = process.stdout.take().context("cargo says nothing")?;
        let mut artifacts = Vec::new();
        for message in Message::parse_stream(BufReader::new(output)) {
            if let Message::CompilerArtifact(artifact) = message? {
                artifacts.push(artifact);
            }
        }
        Ok(artifacts)
    })
}

#[cfg(test)]
impl Program {
    /// A program with tests of these names.
    pub fn sample(executable: &Path, tests: &[&str]) -> Self {
        Self {
            package: "p".to_owned(),
            name: "sample".to_owned(),
            select: "--test p".to_owned(),
            executable: executable.to_owned(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            folder: PathBuf::from("/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn the_tests_that_failed_are_those_of_the_list_at_the_end() {
        let tests = ["a::one", "a::one_more", "b::two", "b::three"];
        let program = Program::sample(Path::new(""), &tests);
        let heard = |said: &str| Heard {
            status: std::process::ExitStatus::from_raw(101 << 8),
            last: said.lines().map(str::to_owned).collect(),
        };
        let said = "a::one_more\n\nfailures:\n\n---- b::three stdout ----\nb::three\n\n\
                    failures:\n    a::one\n    b::two\n\n\
                    test result: FAILED. 2 passed; 2 failed; 0 ignored";
        let failed = program.failed(&heard(said)).unwrap();
        assert_eq!(failed, ["a::one", "b::two"]);
        // More than were kept, or none: it crashed, or failed otherwise.
        let more = said.replace("2 failed", "22 failed");
        assert_eq!(program.failed(&heard(&more)), None);
        assert_eq!(program.failed(&heard("a::one\nkilled")), None);
    }
}
