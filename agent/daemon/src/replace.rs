//! The agent's executable takes the place of the agent that runs: what an upgrade does, without a VIP
//! that moves.
//!
//! The running agent stands aside, its guardian keeps the VIPs, and the same process goes on as the
//! new executable, which inherits them. An executable that does not run, or refuses the
//! configuration, is found before anything stops.

use std::path::{Path, PathBuf};

use kedge_control::local::{OrderRequest, Restart};
use kedge_core::{Code, Fix, Problem};
use kedge_host::{
    Root,
    script::{Outcome, Script},
    wall,
};

use crate::agent::Agent;

/// The program of this process, in two ways to name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// What runs, also when a package has replaced the file: the guardian is started from it.
    pub running: PathBuf,
    /// Where it was started from, and where its successor is.
    pub path: PathBuf,
}

/// How a run of the agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It left, for good or for the agent that the service manager starts next.
    Left,
    /// It stood aside: this executable is to take its place, with the same arguments, now.
    ReplacedBy(PathBuf),
}

/// What there is to check before an agent stands aside.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub executable: PathBuf,
    pub root: Root,
}

impl Agent {
    /// What would take its place.
    ///
    /// # Errors
    ///
    /// This agent was not started from an executable it can name.
    pub fn candidate(&self) -> Result<Candidate, Problem> {
        let executable = self.executable.as_ref().map(|it| it.path.clone());
        let executable = executable.ok_or_else(|| {
            Problem::new(Code::SysUnexpected, "this agent cannot name its executable")
                .consequence("nothing was done")
                .fix(Fix::text("restart its service"))
        })?;
        Ok(Candidate {
            executable,
            root: self.live.root().clone(),
        })
    }

    /// Stands aside for `executable` unless it is a dry run, and says what that does.
    pub fn replace(&mut self, executable: &Path, request: &OrderRequest) -> Restart {
        let guarded = self.speaker.guardian_problem().is_none();
        let vips = self.desired.vips.len();
        let mut plan = vec![format!(
            "the agent is replaced by {} in the same process",
            executable.display()
        )];
        plan.extend((vips > 0).then(|| match guarded {
            true => {
                "the guardian keeps the VIPs of this host until it goes on with them".to_owned()
            }
            false => "no guardian is running: the VIPs are handed over to other hosts".to_owned(),
        }));
        plan.extend(
            self.tunnel
                .is_some()
                .then(|| "the tunnel is opened again, which takes a handshake".to_owned()),
        );
        if !request.dry_run {
            self.replaced_by = Some(executable.to_owned());
        }
        Restart {
            given: !request.dry_run,
            executable: executable.display().to_string(),
            keeps_vips: guarded,
            plan,
            started: wall::rfc3339(self.started),
            outcome: None,
        }
    }
}

impl Candidate {
    /// Has the executable look at the configuration.
    ///
    /// # Errors
    ///
    /// It does not run, or refuses the configuration.
    pub async fn check(&self) -> Result<(), Problem> {
        let root = self.root.as_path().to_string_lossy();
        let arguments = ["--root", &root, "config", "check", "--role", "agent"];
        let arguments = arguments.map(str::to_owned).to_vec();
        let script = Script::own(self.executable.clone(), arguments, PATIENCE);
        let (what, evidence) = match script.run().await {
            Outcome::Ended { status, .. } if status.success() => return Ok(()),
            Outcome::Ended { status, last } => (
                "refuses the configuration",
                format!("its check ended with {status}: {last}"),
            ),
            Outcome::Killed { after, last } => (
                "does not answer",
                format!("its check of the configuration took more than {after:?}: {last}"),
            ),
            Outcome::Refused(refused) => ("does not run", refused.to_string()),
        };
        let executable = self.executable.display();
        Err(
            Problem::new(Code::HostReplacement, format!("{executable} {what}"))
                .evidence(evidence)
                .consequence("the agent that runs goes on, and nothing was changed")
                .fix(
                    Fix::text("see what it says")
                        .command(format!("{executable} config check --role agent")),
                ),
        )
    }
}

/// How long a check of the configuration may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
