//! What this host is, whether its clock is right and who configures its links, as its services say.
//!
//! Asked for a person who looks, never by the agent: a service that nobody uses is started for it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Deserialize;
use tokio::time::timeout;
use zbus::{Connection, OwnedObjectPath, proxy, proxy::CacheProperties};

use crate::bus::{Bus, Unanswered};

/// What hostnamed says of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Machine {
    /// Its name.
    #[serde(deserialize_with = "text")]
    pub hostname: String,
    /// `server`, `vm`, `container`, `laptop`.
    #[serde(deserialize_with = "text")]
    pub chassis: String,
    /// `production`, as somebody set it.
    #[serde(deserialize_with = "text")]
    pub deployment: String,
    /// Where it stands, as somebody set it.
    #[serde(deserialize_with = "text")]
    pub location: String,
    /// The system, as it calls itself.
    #[serde(deserialize_with = "text")]
    pub operating_system_pretty_name: String,
    /// The kernel's version.
    #[serde(deserialize_with = "text")]
    pub kernel_release: String,
    /// Who made it.
    #[serde(deserialize_with = "text")]
    pub hardware_vendor: String,
    /// What they call it.
    #[serde(deserialize_with = "text")]
    pub hardware_model: String,
}

/// What timedated says of the clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Whether the kernel says that somebody keeps it right.
    pub synchronized: bool,
    /// Whether a service for that is enabled.
    pub enabled: bool,
}

/// Who configures a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manager {
    /// systemd-networkd.
    Networkd(Networkd),
    /// NetworkManager.
    NetworkManager,
    /// None of those two.
    Nobody,
}

/// How systemd-networkd configures a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networkd {
    /// The `.network` file.
    pub file: PathBuf,
    /// What of addresses that are not its own it keeps: `KeepConfiguration=`, where it is set.
    pub keeps: Option<String>,
}

/// What hostnamed says.
///
/// # Errors
///
/// It is not there, or nobody answers.
pub async fn machine(bus: &Bus) -> Result<Machine, Unanswered> {
    let asked = async {
        let connection = bus.connection().await?;
        let host = HostnameProxy::new(&connection).await?;
        host.describe().await
    };
    let described = soon(asked).await?;
    serde_json::from_str(&described).map_err(|_| Unanswered::Failed)
}

/// What timedated says.
///
/// # Errors
///
/// It is not there, or nobody answers.
pub async fn clock(bus: &Bus) -> Result<Clock, Unanswered> {
    soon(async {
        let connection = bus.connection().await?;
        let time = TimeProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        Ok(Clock {
            synchronized: time.ntp_synchronized().await?,
            enabled: time.ntp().await?,
        })
    })
    .await
}

/// Who configures a link. A service that does not run configures nothing, and is not started for this.
///
/// # Errors
///
/// Nobody answers.
pub async fn manager(bus: &Bus, link: &str) -> Result<Manager, Unanswered> {
    match soon(networkd(bus, link)).await {
        Ok(Some(file)) => {
            let keeps = keeps(&file);
            return Ok(Manager::Networkd(Networkd { file, keeps }));
        }
        Ok(None) | Err(Unanswered::NoService | Unanswered::Failed) => {}
        Err(error) => return Err(error),
    }
    match soon(network_manager(bus, link)).await {
        Ok(true) => Ok(Manager::NetworkManager),
        Ok(false) | Err(Unanswered::NoService | Unanswered::Failed) => Ok(Manager::Nobody),
        Err(error) => Err(error),
    }
}

async fn networkd(bus: &Bus, name: &str) -> zbus::Result<Option<PathBuf>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Described {
        network_file: Option<PathBuf>,
    }

    let connection = bus.connection().await?;
    let network = NetworkProxy::new(&connection).await?;
    let (_, path) = network.get_link_by_name(name).await?;
    let link = link(&connection, path).await?;
    if link.administrative_state().await? == "unmanaged" {
        return Ok(None);
    }
    let described = serde_json::from_str::<Described>(&link.describe().await?);
    Ok(described.ok().and_then(|link| link.network_file))
}

async fn link(connection: &Connection, path: OwnedObjectPath) -> zbus::Result<LinkProxy<'static>> {
    LinkProxy::builder(connection)
        .path(path)
        .cache_properties(CacheProperties::No)
        .build()
        .await
}

async fn network_manager(bus: &Bus, name: &str) -> zbus::Result<bool> {
    let connection = bus.connection().await?;
    let manager = NetworkManagerProxy::new(&connection).await?;
    let path = manager.get_device_by_ip_iface(name).await?;
    let device = DeviceProxy::builder(&connection)
        .path(path)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    device.managed().await
}

/// What `KeepConfiguration=` says in a `.network` file and its drop-ins, wherever those may lie.
fn keeps(file: &std::path::Path) -> Option<String> {
    let name = file.file_name()?;
    let folder = format!("{}.d", name.to_string_lossy());
    let mut drop_ins = BTreeMap::new();
    // Of drop-ins of one name the first of these folders has the word.
    for base in FOLDERS.iter().rev() {
        let entries = std::fs::read_dir(std::path::Path::new(base).join(&folder));
        for entry in entries.into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|it| it == "conf") {
                drop_ins.insert(entry.file_name(), entry.path());
            }
        }
    }
    let texts = std::iter::once(file.to_owned()).chain(drop_ins.into_values());
    let texts = texts.filter_map(|path| std::fs::read_to_string(path).ok());
    texts.filter_map(|text| setting(&text)).next_back()
}

/// What a file says of it; the last word counts.
fn setting(text: &str) -> Option<String> {
    let mut inside = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[Network]";
        } else if inside
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "KeepConfiguration"
        {
            found = Some(value.trim().to_owned());
        }
    }
    found
}

async fn soon<T>(asked: impl Future<Output = zbus::Result<T>>) -> Result<T, Unanswered> {
    match timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error| Unanswered::from(&error)),
        Err(_) => Err(Unanswered::Failed),
    }
}

/// hostnamed writes `null` for what it does not know.
fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[proxy(
    interface = "org.freedesktop.hostname1",
    default_service = "org.freedesktop.hostname1",
    default_path = "/org/freedesktop/hostname1"
)]
trait Hostname {
    fn describe(&self) -> zbus::Result<String>;
}

#[proxy(
    interface = "org.freedesktop.timedate1",
    default_service = "org.freedesktop.timedate1",
    default_path = "/org/freedesktop/timedate1"
)]
trait Time {
    #[zbus(property, name = "NTPSynchronized")]
    fn ntp_synchronized(&self) -> zbus::Result<bool>;
    #[zbus(property, name = "NTP")]
    fn ntp(&self) -> zbus::Result<bool>;
}

#[proxy(
    interface = "org.freedesktop.network1.Manager",
    default_service = "org.freedesktop.network1",
    default_path = "/org/freedesktop/network1"
)]
trait Network {
    #[zbus(no_autostart)]
    fn get_link_by_name(&self, name: &str) -> zbus::Result<(i32, OwnedObjectPath)>;
}

#[proxy(
    interface = "org.freedesktop.network1.Link",
    default_service = "org.freedesktop.network1"
)]
trait Link {
    fn describe(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn administrative_state(&self) -> zbus::Result<String>;
}

#[proxy(
    interface = "org.freedesktop.NetworkManager",
    default_service = "org.freedesktop.NetworkManager",
    default_path = "/org/freedesktop/NetworkManager"
)]
trait NetworkManager {
    #[zbus(no_autostart)]
    fn get_device_by_ip_iface(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
}

#[proxy(
    interface = "org.freedesktop.NetworkManager.Device",
    default_service = "org.freedesktop.NetworkManager"
)]
trait Device {
    #[zbus(property)]
    fn managed(&self) -> zbus::Result<bool>;
}

const FOLDERS: [&str; 3] = [
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/lib/systemd/network",
];
/// Activating a service takes half a second on a small host.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hostnamed_does_not_know_is_empty() {
        let described = r#"{"Hostname":"edge-a","Chassis":"vm","Deployment":null,
            "OperatingSystemPrettyName":"Debian GNU/Linux 12 (bookworm)","Another":[1]}"#;
        let machine: Machine = serde_json::from_str(described).unwrap();
        assert_eq!(
            (machine.hostname.as_str(), machine.chassis.as_str()),
            ("edge-a", "vm")
        );
        assert_eq!(
            (machine.deployment.as_str(), machine.location.as_str()),
            ("", "")
        );
    }

    #[test]
    fn the_last_word_of_the_section_counts() {
        let text = "[Match]\nKeepConfiguration=no\n[Network]\n# KeepConfiguration=no\n\
                    KeepConfiguration=static\nKeepConfiguration = yes\n[Link]\n";
        assert_eq!(setting(text).as_deref(), Some("yes"));
        assert_eq!(setting("[Network]\nAddress=10.20.14.11/24\n"), None);
    }
}
