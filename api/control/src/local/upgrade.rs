//! Another release in the place of the one that is installed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An upgrade, a downgrade or a way back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// Whether it was done; not on a dry run, and not where that version is installed already.
    pub given: bool,
    /// How Kedge is installed here.
    pub form: PackageForm,
    /// The version that was installed.
    pub from: String,
    /// The version that takes its place.
    pub to: String,
    /// What it does, as sentences.
    pub plan: Vec<String>,
    /// What came of it, if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<UpgradeOutcome>,
}

/// What came of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeOutcome {
    /// Whether an agent ran here, and goes on as the other version.
    pub restarted: bool,
    /// Seconds from the restart until it was ready; 0 where none ran.
    pub ready_seconds: f64,
    /// The version to go back to; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// How Kedge is installed on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PackageForm {
    /// Files of the archive, or the executable alone.
    Archive,
    /// A package of Debian's kind.
    Deb,
    /// A package of Fedora's and SUSE's kind.
    Rpm,
    /// An image that systemd-sysext lays over `/usr`.
    Sysext,
}
