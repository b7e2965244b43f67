//! Layered configuration: vendor file < administrator's file < drop-ins < `KEDGE_SET_*` < flags.
//!
//! Every layer is parsed alone into the role's file type, so that an error names its file, line
//! and column (or its variable); then the layers are merged and the role's own rules are checked.
//! All or nothing: a configuration with an error anywhere is no configuration.

mod auto;
mod file;
mod live;
mod located;
mod merge;
mod origins;
mod section;
mod settings;
mod suggest;

use std::{
    fmt, fs, io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use kedge_control::local::ConfigInForce;
use kedge_core::{Code, Coded, Problem};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

pub use self::suggest::closest;
pub use self::{
    auto::Auto,
    live::{Change, Live},
    origins::Origins,
    settings::{ENV_PREFIX, Override},
};
use crate::{Role, Root, credential};

/// The file type of a role: every field optional and skipped when absent, unknown fields denied,
/// named collections as maps.
pub trait RoleFile: Clone + Default + DeserializeOwned + Serialize + JsonSchema {
    /// The role.
    const ROLE: Role;

    /// What the role runs with: bounded values, every default filled in.
    type Config;

    /// The same file with every default written out.
    #[must_use]
    fn filled(self) -> Self;

    /// Turns the merged file into what the role runs with, checking what no single value can
    /// show. `origins` says where a value comes from, for the evidence.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, not just the first.
    fn check(self, origins: &Origins) -> Result<Self::Config, Vec<Problem>>;
}

/// A configuration that holds.
#[derive(Debug)]
pub struct Loaded<F: RoleFile> {
    /// The merged file, without defaults.
    pub file: F,
    /// What the role runs with.
    pub config: F::Config,
    /// The files that were read, lowest layer first.
    pub files: Vec<PathBuf>,
    /// Who set what.
    pub origins: Origins,
}

/// Where to read from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The files, lowest layer first; those that do not exist are skipped.
    pub files: Vec<PathBuf>,
    /// Environment variables; only those that start with [`ENV_PREFIX`] count.
    pub environment: Vec<(String, String)>,
    /// Flags, the highest layer.
    pub overrides: Vec<Override>,
}

/// A configuration that does not hold: at least one problem.
#[derive(Clone, Debug)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

/// Loads a role's configuration from its files, this process's environment and flags.
///
/// # Errors
///
/// Any layer has an error, or the role's rules refuse the whole.
pub fn load<F: RoleFile>(root: &Root, overrides: &[Override]) -> Result<Loaded<F>, ConfigError> {
    let sources = Sources::of(F::ROLE, root)?.with_overrides(overrides);
    load_from(&sources)
}

/// Loads a configuration from explicit sources.
///
/// # Errors
///
/// As for [`load`].
pub fn load_from<F: RoleFile>(sources: &Sources) -> Result<Loaded<F>, ConfigError> {
    let mut problems = Vec::new();
    let mut files = Vec::new();
    let mut layers = Vec::new();
    for path in &sources.files {
        match file::read::<F>(path) {
            Ok(Some(layer)) => {
                files.push(path.clone());
                layers.push(layer);
            }
            Ok(None) => {}
            Err(problem) => problems.push(*problem),
        }
    }
    for setting in settings::of(&sources.environment, &sources.overrides) {
        match setting.layer::<F>() {
            Ok(layer) => layers.push(layer),
            Err(problem) => problems.push(*problem),
        }
    }
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let (file, origins) =
        merge::merge::<F>(layers).map_err(|problem| ConfigError::one(*problem))?;
    match file.clone().check(&origins) {
        Ok(config) => Ok(Loaded {
            file,
            config,
            files,
            origins,
        }),
        Err(problems) => {
            let whole = |problem| refused_whole(problem, &origins);
            let problems = problems.into_iter().map(whole).collect();
            Err(ConfigError { problems })
        }
    }
}

/// What a role's rules refuse is refused like everything else: told where it stands, and that
/// nothing of it is used.
fn refused_whole(problem: Problem, origins: &Origins) -> Problem {
    let place = origins
        .nearest(&problem.object)
        .filter(|place| !problem.evidence.iter().any(|known| known.contains(place)))
        .map(str::to_owned);
    let problem = match place {
        Some(place) => problem.evidence(place),
        None => problem,
    };
    if problem.consequence.is_empty() {
        problem.consequence(file::NOT_USED)
    } else {
        problem
    }
}

impl Sources {
    /// A role's own files and this process's environment.
    ///
    /// # Errors
    ///
    /// The folder of drop-ins exists and cannot be listed.
    pub fn of(role: Role, root: &Root) -> Result<Self, ConfigError> {
        let mut files = vec![root.vendor_file(role), root.config_file(role)];
        files.extend(drop_ins(&root.drop_in_dir(role))?);
        files = with_credential(files, credential::file(role));
        // Reading a pipe waits for a writer, and the role with it. Whoever names one may have it.
        let pipe =
            |path: &&PathBuf| fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
        if let Some(path) = files.iter().find(pipe) {
            return Err(ConfigError::unreadable(
                path,
                &io::Error::other("it is a pipe"),
            ));
        }
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| {
                let name = name.into_string().ok()?;
                let own = name.starts_with(ENV_PREFIX);
                own.then(|| (name, value.to_string_lossy().into_owned()))
            })
            .collect();
        Ok(Self {
            files,
            environment,
            overrides: Vec::new(),
        })
    }

    /// One file alone, nothing else.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self {
            files: vec![path.to_owned()],
            environment: Vec::new(),
            overrides: Vec::new(),
        }
    }

    /// Adds flags.
    #[must_use]
    pub fn with_overrides(mut self, overrides: &[Override]) -> Self {
        self.overrides.extend_from_slice(overrides);
        self
    }
}

/// A credential stands among the drop-ins as if it were called [`CREDENTIAL`].
fn with_credential(mut files: Vec<PathBuf>, credential: Option<PathBuf>) -> Vec<PathBuf> {
    let Some(credential) = credential else {
        return files;
    };
    // Before them are the vendor's file and the administrator's.
    let before = |path: &&PathBuf| path.file_name().is_some_and(|name| name < CREDENTIAL);
    let own = files.len().min(2);
    let drop_ins = files.iter().skip(own);
    let at = own + drop_ins.take_while(before).count();
    files.insert(at, credential);
    files
}

/// The drop-ins of a folder in lexical order: `*.yaml`, nothing hidden.
fn drop_ins(dir: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let failed = |error: &io::Error| ConfigError::unreadable(dir, error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(&error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".yaml") && !name.starts_with('.') {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

impl<F: RoleFile> Loaded<F> {
    /// The configuration as `GET /v1/config` shows it: defaults filled in, each value with its
    /// origin.
    #[must_use]
    pub fn in_force(&self, generation: u64) -> ConfigInForce {
        let values = serde_json::to_value(self.file.clone().filled()).unwrap_or_default();
        ConfigInForce {
            generation,
            files: self
                .files
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            origins: self.origins.of_every_leaf(&values),
            values,
        }
    }
}

impl ConfigError {
    /// An error of one problem.
    #[must_use]
    pub fn one(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }

    /// A file that was named and cannot be opened.
    #[must_use]
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::one(file::unreadable(path, error))
    }

    /// Every problem, at least one.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Every problem, at least one.
    #[must_use]
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}

impl Coded for ConfigError {
    /// The first problem; how many more there are stands in its evidence.
    fn problem(&self) -> Problem {
        match self.problems.as_slice() {
            [] => Problem::new(Code::ConfigSyntax, "the configuration is not usable"),
            [only] => only.clone(),
            [first, rest @ ..] => first
                .clone()
                .evidence(format!("and {} more like this", rest.len())),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [] => f.write_str("the configuration is not usable"),
            [only] => only.fmt(f),
            [first, rest @ ..] => write!(f, "{first}, and {} more", rest.len()),
        }
    }
}

impl std::error::Error for ConfigError {}

const CREDENTIAL: &str = "50-credential.yaml";

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod typos;
