//! The unit this process belongs to, as systemd knows it: asked over D-Bus, briefly, and only by a
//! process that systemd started.

use std::time::Duration;

use tokio::time::timeout;
use zbus::{Connection, OwnedObjectPath, connection::Builder, proxy, proxy::CacheProperties};

/// What systemd is doing with a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Nothing: a signal came from somebody else.
    Nothing,
    /// It ends the unit and starts it again.
    Restart,
    /// Something else, in systemd's own word for it: `stop`, `start`, `reload`.
    Other(String),
}

/// Why it is not known what systemd is doing.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// This process was not started by systemd.
    #[error("systemd has not started this process")]
    NotStarted,
    /// Nobody is there to be asked, or the answer is none.
    #[error("systemd cannot be asked")]
    Bus(#[from] zbus::Error),
    /// It took too long.
    #[error("systemd has not answered within {0:?}")]
    Silent(Duration),
}

/// What systemd is doing with the unit of this process. Takes at most `limit`.
///
/// # Errors
///
/// See [`JobError`]: a host without systemd or without a bus is one to live with.
pub async fn own_job(limit: Duration) -> Result<Job, JobError> {
    if std::env::var_os(STARTED_BY_SYSTEMD).is_none() {
        return Err(JobError::NotStarted);
    }
    ask(Builder::system(), limit).await
}

async fn ask(bus: Builder<'_>, limit: Duration) -> Result<Job, JobError> {
    let asked = timeout(limit, async {
        let connection = bus.build().await?;
        job(&connection).await
    });
    match asked.await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(JobError::Silent(limit)),
    }
}

async fn job(bus: &Connection) -> zbus::Result<Job> {
    let manager = ManagerProxy::builder(bus)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let unit = UnitProxy::builder(bus)
        .path(manager.get_unit_by_pid(std::process::id()).await?)
        // What was true a moment ago is no answer.
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let (number, path) = unit.job().await?;
    if number == 0 {
        return Ok(Job::Nothing);
    }
    let job = JobObjectProxy::builder(bus)
        .path(path)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    Ok(Job::called(job.job_type().await?))
}

impl Job {
    fn called(word: String) -> Self {
        match word.as_str() {
            "restart" | "try-restart" => Self::Restart,
            _ => Self::Other(word),
        }
    }

    /// systemd's word for it.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Nothing => "none",
            Self::Restart => "restart",
            Self::Other(word) => word,
        }
    }
}

#[proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Manager {
    #[zbus(name = "GetUnitByPID")]
    fn get_unit_by_pid(&self, pid: u32) -> zbus::Result<OwnedObjectPath>;
}

#[proxy(
    interface = "org.freedesktop.systemd1.Unit",
    default_service = "org.freedesktop.systemd1"
)]
trait Unit {
    /// Number and object of its job; 0 without one.
    #[zbus(property)]
    fn job(&self) -> zbus::Result<(u32, OwnedObjectPath)>;
}

#[proxy(
    interface = "org.freedesktop.systemd1.Job",
    default_service = "org.freedesktop.systemd1"
)]
trait JobObject {
    #[zbus(property)]
    fn job_type(&self) -> zbus::Result<String>;
}

/// Names this run of the unit in the environment of each process of it.
const STARTED_BY_SYSTEMD: &str = "INVOCATION_ID";

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, time::Instant};

    use super::*;

    #[test]
    fn only_what_starts_again_is_a_restart() {
        for word in ["restart", "try-restart"] {
            assert_eq!(Job::called(word.to_owned()), Job::Restart);
        }
        for word in ["stop", "start", "reload", "reload-or-start", "", "Restart"] {
            let job = Job::called(word.to_owned());
            assert_eq!(job, Job::Other(word.to_owned()));
            assert_eq!(job.word(), word);
        }
    }

    #[tokio::test]
    async fn a_bus_that_says_nothing_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bus");
        // Whoever connects waits for a greeting.
        let _silent = UnixListener::bind(&path).unwrap();
        let address = format!("unix:path={}", path.display());
        let begun = Instant::now();
        let answer = ask(Builder::address(address.as_str()), LIMIT).await;
        assert!(matches!(answer, Err(JobError::Silent(LIMIT))), "{answer:?}");
        assert!(begun.elapsed() >= LIMIT && begun.elapsed() < LIMIT * 20);
    }

    #[tokio::test]
    async fn without_a_bus_it_is_told_so() {
        let bus = Builder::address("unix:path=/nonexistent/bus");
        let answer = ask(bus, LIMIT).await;
        assert!(matches!(answer, Err(JobError::Bus(_))), "{answer:?}");
    }

    const LIMIT: Duration = Duration::from_millis(50);
}
