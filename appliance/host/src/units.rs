//! Other units of the host, as systemd knows them: followed, asked for once, started and stopped.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use tokio::time::timeout;
use zbus::{
    Connection, MatchRule, MessageStream, OwnedObjectPath, message::Type, proxy,
    proxy::CacheProperties,
};

use crate::bus::{Bus, Unanswered};

/// What systemd says of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitState {
    /// Whether there is such a unit: `loaded`, `not-found`, `masked`.
    pub load: String,
    /// `active`, `activating`, `deactivating`, `inactive`, `failed`.
    pub active: String,
    /// More of it, by kind of unit: `running`, `exited`, `auto-restart`.
    pub sub: String,
}

impl UnitState {
    /// Whether there is such a unit.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.load != "not-found"
    }

    /// Whether it does what it is for. One that reads its configuration again does.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading" | "refreshing")
    }
}

impl fmt::Display for UnitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.exists() {
            return f.write_str("does not exist");
        }
        write!(f, "is {} ({})", self.active, self.sub)
    }
}

/// One unit that is followed.
#[derive(Debug)]
pub struct Followed {
    /// Kept open for as long as the unit is followed.
    _connection: Arc<Connection>,
    unit: UnitProxy<'static>,
    changes: MessageStream,
}

/// Begins to follow a unit, which need not exist yet.
///
/// # Errors
///
/// Nobody can be asked.
pub async fn follow(bus: &Bus, name: &str) -> Result<Followed, Unanswered> {
    let followed = async {
        let connection = bus.connection().await?;
        let manager = manager(&connection).await?;
        // Without it systemd tells nobody what becomes of units.
        manager.subscribe().await.or_else(subscribed)?;
        let path = manager.load_unit(name).await?;
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender(SYSTEMD)
            .path(path.clone())
            .interface("org.freedesktop.DBus.Properties")
            .member("PropertiesChanged")
            .build()?;
        // Before it is asked for the first time, so that nothing is missed.
        let changes = MessageStream::for_match_rule(rule, &connection, None).await?;
        let unit = unit(&connection, path).await?;
        zbus::Result::Ok(Followed {
            _connection: connection,
            unit,
            changes,
        })
    };
    followed.await.map_err(|error| Unanswered::from(&error))
}

impl Followed {
    /// What it is now.
    ///
    /// # Errors
    ///
    /// Nobody can be asked any more.
    pub async fn state(&self) -> Result<UnitState, Unanswered> {
        state(&self.unit)
            .await
            .map_err(|error| Unanswered::from(&error))
    }

    /// Waits until it may have changed.
    ///
    /// # Errors
    ///
    /// The bus is gone.
    pub async fn changed(&mut self) -> Result<(), Unanswered> {
        match self.changes.next().await {
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) | None => Err(Unanswered::NoBus),
        }
    }
}

/// Those of these units that exist, with their states.
///
/// # Errors
///
/// Nobody can be asked.
pub async fn existing(bus: &Bus, names: &[&str]) -> Result<Vec<(String, UnitState)>, Unanswered> {
    let found = async {
        let connection = bus.connection().await?;
        let manager = manager(&connection).await?;
        let mut found = Vec::new();
        for name in names {
            let path = manager.load_unit(name).await?;
            let state = state(&unit(&connection, path).await?).await?;
            if state.exists() {
                found.push(((*name).to_owned(), state));
            }
        }
        zbus::Result::Ok(found)
    };
    match timeout(PATIENCE, found).await {
        Ok(found) => found.map_err(|error| Unanswered::from(&error)),
        Err(_) => Err(Unanswered::NoBus),
    }
}

/// What is done with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is started.
    Start,
    /// It is stopped.
    Stop,
    /// It is stopped and started, also where it does not run.
    Restart,
}

/// Tells systemd to start, stop or restart a unit, and waits for nothing of it.
///
/// # Errors
///
/// Nobody can be asked, or systemd refuses.
pub async fn order(bus: &Bus, name: &str, verb: Verb) -> Result<(), Unanswered> {
    let ordered = async {
        let connection = bus.connection().await?;
        let manager = manager(&connection).await?;
        match verb {
            Verb::Start => manager.start_unit(name, "replace").await?,
            Verb::Stop => manager.stop_unit(name, "replace").await?,
            Verb::Restart => manager.restart_unit(name, "replace").await?,
        };
        zbus::Result::Ok(())
    };
    match timeout(PATIENCE, ordered).await {
        Ok(done) => done.map_err(|error| Unanswered::from(&error)),
        Err(_) => Err(Unanswered::NoBus),
    }
}

/// Has a unit started at each boot.
///
/// # Errors
///
/// Nobody can be asked, or systemd refuses.
pub async fn enable(bus: &Bus, name: &str) -> Result<(), Unanswered> {
    let enabled = async {
        let connection = bus.connection().await?;
        let manager = manager(&connection).await?;
        manager.enable_unit_files(&[name], false, false).await?;
        manager.reload().await
    };
    match timeout(PATIENCE, enabled).await {
        Ok(done) => done.map_err(|error| Unanswered::from(&error)),
        Err(_) => Err(Unanswered::NoBus),
    }
}

/// Has systemd read the files of units again.
///
/// # Errors
///
/// Nobody can be asked, or systemd refuses.
pub async fn reload(bus: &Bus) -> Result<(), Unanswered> {
    let reloaded = async {
        let connection = bus.connection().await?;
        manager(&connection).await?.reload().await
    };
    match timeout(RELOAD, reloaded).await {
        Ok(done) => done.map_err(|error| Unanswered::from(&error)),
        Err(_) => Err(Unanswered::NoBus),
    }
}

async fn manager(connection: &Connection) -> zbus::Result<ManagerProxy<'static>> {
    ManagerProxy::builder(connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

async fn unit(connection: &Connection, path: OwnedObjectPath) -> zbus::Result<UnitProxy<'static>> {
    UnitProxy::builder(connection)
        .path(path)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

async fn state(unit: &UnitProxy<'_>) -> zbus::Result<UnitState> {
    Ok(UnitState {
        load: unit.load_state().await?,
        active: unit.active_state().await?,
        sub: unit.sub_state().await?,
    })
}

/// Twice is once.
fn subscribed(error: zbus::Error) -> zbus::Result<()> {
    match &error {
        zbus::Error::MethodError(name, ..) if name.as_str() == ALREADY => Ok(()),
        _ => Err(error),
    }
}

#[proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Manager {
    fn subscribe(&self) -> zbus::Result<()>;
    fn load_unit(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
    fn start_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn enable_unit_files(
        &self,
        files: &[&str],
        runtime: bool,
        force: bool,
    ) -> zbus::Result<(bool, Vec<(String, String, String)>)>;
    fn reload(&self) -> zbus::Result<()>;
    fn stop_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    fn restart_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
}

#[proxy(
    interface = "org.freedesktop.systemd1.Unit",
    default_service = "org.freedesktop.systemd1"
)]
trait Unit {
    #[zbus(property)]
    fn load_state(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn active_state(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn sub_state(&self) -> zbus::Result<String>;
}

const SYSTEMD: &str = "org.freedesktop.systemd1";
const ALREADY: &str = "org.freedesktop.systemd1.AlreadySubscribed";
/// How long systemd may take to answer what people wait for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Generators run with it, and there may be many units.
const RELOAD: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn state(load: &str, active: &str) -> UnitState {
        UnitState {
            load: load.to_owned(),
            active: active.to_owned(),
            sub: "dead".to_owned(),
        }
    }

    #[test]
    fn only_a_unit_that_runs_is_active_and_systemd_makes_up_units_that_are_not_there() {
        for word in ["active", "reloading", "refreshing"] {
            assert!(state("loaded", word).is_active(), "{word}");
        }
        for word in [
            "activating",
            "deactivating",
            "inactive",
            "failed",
            "maintenance",
            "",
        ] {
            assert!(!state("loaded", word).is_active(), "{word}");
        }
        let absent = state("not-found", "inactive");
        assert!(!absent.exists());
        assert_eq!(absent.to_string(), "does not exist");
        assert_eq!(state("loaded", "failed").to_string(), "is failed (dead)");
    }
}
