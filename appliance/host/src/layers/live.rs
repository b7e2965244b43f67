//! The configuration of a running role, and reading it again.

use std::mem;

use kedge_control::local::{ConfigInForce, Reloaded};
use kedge_core::{Code, Coded as _, Fix, Problem};
use tracing::{info, warn};

use super::{ConfigError, Loaded, Override, RoleFile, load};
use crate::{Role, Root, changes::changes};

/// The configuration a role runs with: the last good one.
pub struct Live<F: RoleFile> {
    root: Root,
    overrides: Vec<Override>,
    loaded: Loaded<F>,
    stale: Option<Problem>,
    generation: u64,
}

/// What a reload did.
#[derive(Debug)]
pub struct Change<C> {
    /// The configuration until then.
    pub before: C,
    /// What is told of it.
    pub told: Reloaded,
}

impl<F: RoleFile> Live<F> {
    /// Loads a role's configuration for the first time; `overrides` hold for every reload, too.
    ///
    /// # Errors
    ///
    /// As for [`load`].
    pub fn load(root: Root, overrides: Vec<Override>) -> Result<Self, ConfigError> {
        Ok(Self {
            loaded: load(&root, &overrides)?,
            root,
            overrides,
            stale: None,
            generation: 1,
        })
    }

    /// Where the role's files are.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// What the role runs with.
    pub const fn config(&self) -> &F::Config {
        &self.loaded.config
    }

    /// Counts the configurations that were in force, this one included.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Why the configuration on the disk is not in force, where it is not.
    pub const fn stale(&self) -> Option<&Problem> {
        self.stale.as_ref()
    }

    /// The configuration as `GET /v1/config` shows it.
    pub fn in_force(&self) -> ConfigInForce {
        self.loaded.in_force(self.generation)
    }

    /// Reads the configuration again. What does not hold leaves the last good one in force.
    ///
    /// # Errors
    ///
    /// The configuration on the disk has an error.
    pub fn reload(&mut self) -> Result<Change<F::Config>, Problem> {
        let fresh = match load::<F>(&self.root, &self.overrides) {
            Ok(fresh) => fresh,
            Err(error) => {
                let problem = stale(F::ROLE, error.problems());
                warn!(KEDGE_CODE = %problem.code, evidence = ?problem.evidence, "reload refused");
                self.stale = Some(problem);
                return Err(error.problem());
            }
        };
        self.stale = None;
        let changes = changes(&self.in_force().values, &fresh.in_force(0).values);
        let before = mem::replace(&mut self.loaded, fresh).config;
        self.generation += 1;
        let generation = self.generation;
        info!(generation, ?changes, "configuration loaded");
        Ok(Change {
            before,
            told: Reloaded {
                generation,
                changes,
            },
        })
    }
}

fn stale(role: Role, problems: &[Problem]) -> Problem {
    let check = match role {
        Role::Agent => "kedge config check".to_owned(),
        other => format!("kedge config check --role {other}"),
    };
    let mut stale = Problem::warning(
        Code::ConfigStale,
        "the configuration on the disk has an error and is not in force",
    )
    .consequence("the last good configuration keeps running; a restart would fail")
    .fix(Fix::text("correct it and reload").command(check));
    for problem in problems {
        stale = stale.evidence(problem.to_string());
        stale.evidence.extend(problem.evidence.iter().cloned());
    }
    stale
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::sample::SampleFile, *};

    fn configured(yaml: &str) -> (tempfile::TempDir, Live<SampleFile>) {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, yaml);
        let set = Override::set("hostname=edge-a").unwrap();
        let live = Live::load(Root::new(dir.path()), vec![set]).unwrap();
        (dir, live)
    }

    fn write(dir: &tempfile::TempDir, yaml: &str) {
        let file = Root::new(dir.path()).config_file(Role::Agent);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, yaml).unwrap();
    }

    #[test]
    fn a_reload_is_counted_and_tells_what_changed() {
        let (dir, mut live) = configured("vips: {api: {vrid: 7}}");
        assert_eq!((live.generation(), live.in_force().generation), (1, 1));
        write(&dir, "vips: {api: {vrid: 8}}");
        let change = live.reload().unwrap();
        assert_eq!(change.before.first().unwrap().1.get(), 7);
        assert_eq!(live.config().first().unwrap().1.get(), 8);
        assert_eq!(change.told.changes, ["vips.api.vrid: 8 instead of 7"]);
        assert_eq!(change.told.generation, 2);
        assert_eq!((live.generation(), live.in_force().generation), (2, 2));
        assert!(live.reload().unwrap().told.changes.is_empty());
        assert_eq!(live.generation(), 3);
    }

    #[test]
    fn what_does_not_hold_is_remembered_and_the_last_good_one_stays_in_force() {
        let (dir, mut live) = configured("vips: {api: {vrid: 7}}");
        write(&dir, "vips: {api: {vrid: 256}}");
        assert_eq!(live.reload().unwrap_err().code, Code::ConfigOutOfRange);
        let stale = live.stale().unwrap();
        assert_eq!(stale.code, Code::ConfigStale);
        assert!(
            stale.evidence.iter().any(|line| line.contains("vrid")),
            "{stale:?}"
        );
        assert_eq!(live.config().first().unwrap().1.get(), 7);
        assert_eq!((live.generation(), live.in_force().generation), (1, 1));

        write(&dir, "vips: {api: {vrid: 9}}");
        assert_eq!(live.reload().unwrap().told.generation, 2);
        assert!(live.stale().is_none());
        assert_eq!(live.config().first().unwrap().1.get(), 9);
    }

    #[test]
    fn flags_hold_after_a_reload_as_well() {
        let (dir, mut live) = configured("hostname: other");
        write(&dir, "hostname: another");
        assert!(live.reload().unwrap().told.changes.is_empty());
        assert_eq!(live.in_force().values["hostname"], "edge-a");
    }

    #[test]
    fn the_command_that_checks_names_every_role_but_the_agent() {
        let command = |role| stale(role, &[]).fix.unwrap().command;
        assert_eq!(command(Role::Agent).unwrap(), "kedge config check");
        let of_gateway = command(Role::Gateway).unwrap();
        assert_eq!(of_gateway, "kedge config check --role gateway");
    }
}
