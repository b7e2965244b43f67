//! From one version to another: whether that may be, and whether the other one can run here.

use std::{path::Path, time::Duration};

use kedge_core::{Code, Fix, Problem};
use kedge_host::{
    Root,
    script::{Outcome, Script},
};
use semver::Version;

use crate::roles;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: that version is installed.
    Stay,
    /// The other version is installed.
    Go,
}

impl Step {
    /// From what is installed to what is offered.
    ///
    /// # Errors
    ///
    /// It is older, and nobody said that it may be: who can offer an old release must not bring back its faults.
    pub fn from(
        installed: &Version,
        offered: &Version,
        may_be_older: bool,
    ) -> Result<Self, Problem> {
        if offered == installed {
            return Ok(Self::Stay);
        }
        // What stands behind a plus makes no version older.
        if offered.cmp_precedence(installed).is_lt() && !may_be_older {
            return Err(Problem::new(Code::PkgOlder, Code::PkgOlder.title())
                .evidence(format!(
                    "{installed} is installed, and {offered} is offered"
                ))
                .consequence("nothing was changed")
                .fix(
                    Fix::text("if that is meant, say so")
                        .command("kedge upgrade RELEASE --allow-downgrade"),
                ));
        }
        Ok(Self::Go)
    }
}

/// Has an executable look at the agent's configuration.
///
/// # Errors
///
/// It does not run, or refuses it.
pub fn check(root: &Root, executable: &Path) -> Result<(), Problem> {
    let place = root.path().to_string_lossy();
    let arguments = ["--root", &place, "config", "check", "--role", "agent"];
    let arguments = arguments.map(str::to_owned).to_vec();
    let script = Script::own(executable.to_owned(), arguments, PATIENCE);
    let runtime = roles::calm_runtime().map_err(|failure| failure.problem)?;
    let why = match runtime.block_on(script.run()) {
        Outcome::Ended { status, .. } if status.success() => return Ok(()),
        Outcome::Ended { status, last } => format!("its check ended with {status}: {last}"),
        Outcome::Killed { after, last } => format!("its check took more than {after:?}: {last}"),
        Outcome::Refused(refused) => format!("it does not run: {refused}"),
    };
    Err(Problem::new(
        Code::PkgNotInstalled,
        "the new executable does not accept the configuration of this host",
    )
    .evidence(why)
    .consequence("nothing was changed")
    .fix(Fix::text("correct what it names").command("kedge config check --role agent")))
}

/// How long a check of the configuration may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_is_refused_unless_it_may_be_older() {
        let step = |from: &str, to: &str, may| {
            let step = Step::from(&from.parse().unwrap(), &to.parse().unwrap(), may);
            step.map_err(|problem| problem.code)
        };
        assert_eq!(step("0.9.0", "0.10.0", false), Ok(Step::Go));
        assert_eq!(step("1.0.0-rc.1", "1.0.0", false), Ok(Step::Go));
        assert_eq!(step("1.0.0", "1.0.0", false), Ok(Step::Stay));
        assert_eq!(step("1.0.0+1", "1.0.0+2", false), Ok(Step::Go));
        for older in ["0.9.9", "1.0.0-rc.1"] {
            assert_eq!(step("1.0.0", older, false), Err(Code::PkgOlder), "{older}");
            assert_eq!(step("1.0.0", older, true), Ok(Step::Go), "{older}");
        }
    }
}
