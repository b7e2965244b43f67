//! The configuration files of the roles.

use kedge_agent_daemon::AgentFile;
use kedge_control::local::ConfigInForce;
use kedge_gateway_hub::GatewayFile;
use kedge_host::{
    Role,
    layers::{ConfigError, RoleFile, Sources, load_from},
};
use schemars::Schema;
use serde_json::Value;

use crate::manager_file::ManagerFile;

/// Loads a role's configuration without running it.
///
/// # Errors
///
/// It does not hold.
pub fn load(role: Role, sources: &Sources) -> Result<ConfigInForce, ConfigError> {
    fn of<F: RoleFile>(sources: &Sources) -> Result<ConfigInForce, ConfigError> {
        load_from::<F>(sources).map(|loaded| loaded.in_force(0))
    }
    match role {
        Role::Agent => of::<AgentFile>(sources),
        Role::Gateway => of::<GatewayFile>(sources),
        Role::Manager => of::<ManagerFile>(sources),
    }
}

/// The JSON Schema of a role's file.
#[must_use]
pub fn schema(role: Role) -> Schema {
    match role {
        Role::Agent => schemars::schema_for!(AgentFile),
        Role::Gateway => schemars::schema_for!(GatewayFile),
        Role::Manager => schemars::schema_for!(ManagerFile),
    }
}

/// A role's file, given as YAML, with every default: what the reference is written from. `Null` when
/// it cannot be read.
#[must_use]
pub fn filled(role: Role, text: &str) -> Value {
    fn of<F: RoleFile>(text: &str) -> Value {
        let file: Option<F> = serde_saphyr::from_str(text).ok();
        let filled = file.map(|file| serde_json::to_value(file.filled()));
        filled.and_then(Result::ok).unwrap_or_default()
    }
    match role {
        Role::Agent => of::<AgentFile>(text),
        Role::Gateway => of::<GatewayFile>(text),
        Role::Manager => of::<ManagerFile>(text),
    }
}

/// A role's file with every default, as YAML.
#[must_use]
pub fn default(role: Role) -> String {
    fn of<F: RoleFile>() -> String {
        serde_saphyr::to_string(&F::default().filled()).unwrap_or_default()
    }
    let values = match role {
        Role::Agent => of::<AgentFile>(),
        Role::Gateway => of::<GatewayFile>(),
        Role::Manager => of::<ManagerFile>(),
    };
    format!("# yaml-language-server: $schema=/usr/share/kedge/schema/{role}.json\n{values}")
}
