//! How an agent leaves: for good, or for one that takes its place, here or as another process.

use std::{error::Error as _, path::PathBuf, time::Duration};

use kedge_host::{
    notify::Notifier,
    unit::{self, Job, JobError},
};
use tracing::{info, warn};

use crate::{agent::Agent, replace::Ended};

/// Who speaks for the VIPs of this host after this agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    /// Nobody: other hosts do.
    Nobody,
    /// This executable, in this process.
    InPlace(PathBuf),
    /// The agent that the service manager is about to start.
    NextStart,
}

impl Successor {
    /// Who comes after an agent that was sent SIGTERM: asked of systemd, briefly. Whoever cannot
    /// know it leaves for good.
    pub(crate) async fn after_sigterm() -> Self {
        let answer = unit::own_job(PATIENCE).await;
        let successor = Self::of(&answer);
        let vips = match successor {
            Self::NextStart => "kept for the agent that systemd starts next",
            Self::Nobody | Self::InPlace(_) => "handed over",
        };
        match &answer {
            Ok(job) => info!(job = job.word(), vips, "systemd says what comes next"),
            Err(JobError::NotStarted) => {}
            Err(error) => info!(
                because = %error,
                source = error.source().map(tracing::field::display),
                vips,
                "nobody says what comes next"
            ),
        }
        successor
    }

    fn of(answer: &Result<Job, JobError>) -> Self {
        match answer {
            Ok(Job::Restart) => Self::NextStart,
            Ok(Job::Nothing | Job::Other(_)) | Err(_) => Self::Nobody,
        }
    }

    /// Leaves the VIPs to the guardian if somebody comes for them; returns how this agent ends.
    pub(crate) async fn prepare(self, agent: &Agent, notifier: Notifier) -> Ended {
        match self {
            Self::Nobody => {
                notifier.stopping("handing over the VIPs");
                Ended::Left
            }
            Self::InPlace(executable) => {
                notifier.reloading();
                stand_aside(agent).await;
                Ended::ReplacedBy(executable)
            }
            Self::NextStart => {
                notifier.stopping("the guardian keeps the VIPs for the next agent");
                stand_aside(agent).await;
                Ended::Left
            }
        }
    }
}

async fn stand_aside(agent: &Agent) {
    if !agent.speaker.stand_aside().await {
        warn!("nobody keeps the VIPs: they are handed over");
    }
}

/// How long systemd may take to answer: the VIPs are spoken for meanwhile.
const PATIENCE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_restart_that_systemd_confirms_keeps_the_vips() {
        assert_eq!(Successor::of(&Ok(Job::Restart)), Successor::NextStart);
        let others = [
            Ok(Job::Nothing),
            Ok(Job::Other("stop".to_owned())),
            Err(JobError::NotStarted),
            Err(JobError::Silent(PATIENCE)),
        ];
        for answer in others {
            assert_eq!(Successor::of(&answer), Successor::Nobody, "{answer:?}");
        }
    }
}
