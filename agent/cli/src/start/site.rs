//! What a site's hosts are told, made by the agent's own types and its own check: nothing comes out
//! that `kedge config check` refuses.

use std::{fs, net::IpAddr, path::Path};

use kedge_agent_daemon::AgentFile;
use kedge_core::{Code, Problem};
use kedge_host::{
    Role,
    layers::{ConfigError, Sources},
};
use serde_json::{Map, Value, json};

use crate::{
    App,
    args::{InitArgs, SiteArgs},
    client::Failure,
    files,
};

/// A configuration that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// As it stands in the file.
    pub(super) text: String,
    /// The addresses of its VIPs, each once, in the order of the file.
    pub(super) vips: Vec<IpAddr>,
}

impl Site {
    /// A file that somebody wrote, as it is.
    pub(super) fn read(app: &App, path: &Path) -> Result<Self, Failure> {
        let unreadable = |error| app.refused(ConfigError::unreadable(path, &error));
        let text = fs::read_to_string(path).map_err(unreadable)?;
        let checked = files::load(Role::Agent, &Sources::file(path));
        let checked = checked.map_err(|error| app.refused(error))?;
        let text = if text.ends_with('\n') {
            text
        } else {
            text + "\n"
        };
        Ok(Self {
            text,
            vips: addresses(&checked.values),
        })
    }

    /// What flags say.
    pub(super) fn of(site: &SiteArgs, init: &InitArgs) -> Result<Self, Failure> {
        let mut values = vip(site);
        if let Some(url) = &init.manager {
            let mut manager = json!({ "url": url });
            if let Some(file) = &init.token_file {
                set(&mut manager, "token_file", json!(file));
            }
            if let Some(pin) = &init.ca_pin {
                set(&mut manager, "ca_pin", json!(pin));
            }
            set(&mut values, "manager", manager);
        }
        Self::checked(&values, "kedge init")
    }

    /// One VIP.
    pub(super) fn of_vip(site: &SiteArgs) -> Result<Self, Failure> {
        Self::checked(&vip(site), "kedge up")
    }

    fn checked(values: &Value, maker: &str) -> Result<Self, Failure> {
        let file: AgentFile = serde_json::from_value(values.clone()).map_err(|error| {
            Problem::new(Code::SysUsage, error.to_string()).consequence("nothing was written")
        })?;
        if let Err(problems) = file.clone().checked() {
            let unexpected =
                || Problem::new(Code::SysUnexpected, "the configuration does not hold");
            let first = problems.into_iter().next().unwrap_or_else(unexpected);
            return Err(first.consequence("nothing was written").into());
        }
        let yaml = serde_saphyr::to_string(&file).map_err(|error| {
            Problem::new(Code::SysUnexpected, "the configuration cannot be written")
                .caused_by(&error)
        })?;
        Ok(Self {
            text: format!(
                "# yaml-language-server: $schema=/usr/share/kedge/schema/agent.json\n\
                 # Made by `{maker}`; every key: kedge config default.\n{yaml}"
            ),
            vips: addresses(values),
        })
    }
}

fn vip(site: &SiteArgs) -> Value {
    let mut values = json!({ "version": 1 });
    if site.vips.is_empty() {
        return values;
    }
    let mut vip = json!({ "addresses": site.vips });
    if let Some(health) = site.health {
        set(&mut vip, "health", json!(health.as_str()));
    }
    if let Some(interface) = &site.interface {
        set(&mut vip, "interface", json!(interface));
    }
    let mut vips = Map::new();
    vips.insert(site.name.to_string(), vip);
    set(&mut values, "vips", Value::Object(vips));
    values
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

fn addresses(values: &Value) -> Vec<IpAddr> {
    let vips = values.get("vips").and_then(Value::as_object);
    let all = vips.into_iter().flat_map(Map::values);
    let all = all.filter_map(|vip| vip.get("addresses")?.as_array());
    let mut found = Vec::new();
    for address in all.flatten().filter_map(|it| it.as_str()?.parse().ok()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}
