//! The system bus: where it is, and one connection for all who use it.

use std::{
    env, fmt,
    path::Path,
    sync::{Arc, Weak},
};

use tokio::sync::Mutex;
use zbus::{Connection, DBusError as _, connection::Builder, fdo};

use crate::root::Root;

/// The system's bus. Nobody is connected to it while nobody uses it.
#[derive(Clone, Debug)]
pub struct Bus {
    address: Arc<str>,
    /// Its socket, where it is found by that.
    socket: Option<Arc<Path>>,
    of_the_system: bool,
    open: Arc<Mutex<Weak<Connection>>>,
}

impl Bus {
    /// The bus below a root. A root that is not the system's own has nothing to do with the system's.
    #[must_use]
    pub fn of(root: &Root) -> Self {
        let of_the_system = root.is_system();
        let named = env::var(ADDRESS).ok().filter(|_| of_the_system);
        if let Some(address) = named {
            return Self::at(&address, of_the_system);
        }
        let socket = root.path().join(SOCKET);
        Self {
            socket: Some(socket.as_path().into()),
            ..Self::at(&format!("unix:path={}", socket.display()), of_the_system)
        }
    }

    fn at(address: &str, of_the_system: bool) -> Self {
        Self {
            address: address.into(),
            socket: None,
            of_the_system,
            open: Arc::default(),
        }
    }

    /// Whether there is one. A host without is one to live with.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.socket.as_ref().is_none_or(|socket| socket.exists())
    }

    /// Whether people expect one: this is a system, not a folder of one.
    #[must_use]
    pub const fn is_expected(&self) -> bool {
        self.of_the_system
    }

    /// The connection that others use, or a new one.
    pub(crate) async fn connection(&self) -> zbus::Result<Arc<Connection>> {
        let mut open = self.open.lock().await;
        if let Some(connection) = open.upgrade().filter(|open| !open.is_closed()) {
            return Ok(connection);
        }
        let connection = Arc::new(Builder::address(&*self.address).build().await?);
        *open = Arc::downgrade(&connection);
        Ok(connection)
    }
}

/// Why a question over the bus was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// There is no bus, or not any more.
    NoBus,
    /// The service is not there.
    NoService,
    /// The service refuses.
    Denied,
    /// The service says something else.
    Failed,
}

impl From<&zbus::Error> for Unanswered {
    fn from(error: &zbus::Error) -> Self {
        let name = match error {
            zbus::Error::MethodError(name, ..) => name.to_string(),
            zbus::Error::FDO(error) => match &**error {
                fdo::Error::ZBus(error) => return Self::from(error),
                error => error.name().to_string(),
            },
            _ => return Self::NoBus,
        };
        Self::named(&name)
    }
}

impl Unanswered {
    fn named(name: &str) -> Self {
        match name.strip_prefix("org.freedesktop.").unwrap_or_default() {
            "DBus.Error.AccessDenied"
            | "DBus.Error.AuthFailed"
            | "DBus.Error.InteractiveAuthorizationRequired"
            | "PolicyKit1.Error.NotAuthorized" => Self::Denied,
            "DBus.Error.Disconnected" | "DBus.Error.NoReply" | "DBus.Error.NoServer" => Self::NoBus,
            // The fourth is a unit that is masked.
            "DBus.Error.ServiceUnknown"
            | "DBus.Error.NameHasNoOwner"
            | "DBus.Error.UnknownObject"
            | "DBus.Error.FileExists"
            | "DBus.Error.FileNotFound"
            | "systemd1.NoSuchUnit"
            | "systemd1.UnitMasked" => Self::NoService,
            name if name.starts_with("DBus.Error.Spawn") => Self::NoService,
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBus => "the bus cannot be reached",
            Self::NoService => "the service is not there",
            Self::Denied => "the service refuses (no polkit)",
            Self::Failed => "the service refuses",
        })
    }
}

impl std::error::Error for Unanswered {}

/// Where the socket of the bus is, below a root.
const SOCKET: &str = "run/dbus/system_bus_socket";
/// Who sets this wants another bus.
const ADDRESS: &str = "DBUS_SYSTEM_BUS_ADDRESS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_has_the_bus_that_is_below_it_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let bus = Bus::of(&Root::new(dir.path()));
        assert!(!bus.is_there() && !bus.is_expected());
        let socket = dir.path().join(SOCKET);
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let _bus = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(bus.is_there());
        assert_eq!(&*bus.address, format!("unix:path={}", socket.display()));
        assert!(Bus::of(&Root::default()).is_expected());
    }

    #[tokio::test]
    async fn a_bus_that_is_not_there_is_no_bus() {
        let dir = tempfile::tempdir().unwrap();
        let bus = Bus::of(&Root::new(dir.path()));
        let error = bus.connection().await.unwrap_err();
        assert_eq!(Unanswered::from(&error), Unanswered::NoBus);
    }

    #[test]
    fn who_refuses_is_told_from_who_is_not_there() {
        let failed = |error: fdo::Error| zbus::Error::FDO(Box::new(error));
        let text = String::new;
        for (error, why) in [
            (fdo::Error::AccessDenied(text()), Unanswered::Denied),
            (fdo::Error::ServiceUnknown(text()), Unanswered::NoService),
            (fdo::Error::FileExists(text()), Unanswered::NoService),
            (fdo::Error::SpawnFailed(text()), Unanswered::NoService),
            (fdo::Error::NoReply(text()), Unanswered::NoBus),
            (fdo::Error::LimitsExceeded(text()), Unanswered::Failed),
        ] {
            let inner = failed(error);
            assert_eq!(Unanswered::from(&inner), why, "{inner}");
        }
        assert_eq!(
            Unanswered::named("org.freedesktop.systemd1.NoSuchUnit"),
            Unanswered::NoService
        );
        assert_eq!(Unanswered::named("com.example.Odd"), Unanswered::Failed);
    }
}
