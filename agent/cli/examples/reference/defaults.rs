//! What a setting is where nobody sets it: asked of the program, not written down twice.

use kedge_cli::files;
use kedge_host::Role;
use serde_json::Value;

/// The defaults of a role's file.
pub(super) struct Defaults {
    /// Files with only what it takes to have an entry in every map, and the same filled.
    files: Vec<(Value, Value)>,
}

impl Defaults {
    /// Those of a role.
    pub(super) fn of(role: Role) -> Self {
        let texts: &[&str] = match role {
            Role::Agent => &[
                "vips: {name: {}}\ntunnel: {peers: {name: {}}}\nbfd: {sessions: {name: {}}}\n\
                 bgp: {neighbors: {name: {}}}\n",
                "vips: {name: {health: {url: 'https://127.0.0.1:6443/readyz'}, auth: {}}}\n\
                 bfd: {sessions: {name: {multihop: true}}}\nbgp: {mode: route_table_only}\n",
            ],
            Role::Gateway | Role::Manager => &["{}\n"],
        };
        let pair = |text: &&str| {
            let given = serde_saphyr::from_str(text).unwrap_or_default();
            (given, files::filled(role, text))
        };
        Self {
            files: texts.iter().map(pair).collect(),
        }
    }

    /// The default of a key such as `vips.NAME.vrid`; empty where there is none.
    pub(super) fn get(&self, key: &str) -> String {
        let path = format!("/{}", key.replace("NAME", "name").replace('.', "/"));
        let mut known = self
            .files
            .iter()
            .filter(|(given, _)| given.pointer(&path).is_none());
        match known.find_map(|(_, filled)| filled.pointer(&path)) {
            None | Some(Value::Object(_) | Value::Null) => String::new(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(Value::Array(items)) => {
                let items: Vec<_> = items
                    .iter()
                    .map(|item| item.as_str().unwrap_or_default())
                    .collect();
                format!("`[{}]`", items.join(", "))
            }
            Some(other) => format!("`{other}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_come_from_the_program_and_not_from_what_was_given() {
        let agent = Defaults::of(Role::Agent);
        assert_eq!(agent.get("vips.NAME.advert_interval"), "`100ms`");
        assert_eq!(agent.get("vips.NAME.health"), "`auto`");
        assert_eq!(agent.get("vips.NAME.health.fall"), "`3`");
        assert_eq!(agent.get("vips.NAME.health.url"), "");
        assert_eq!(agent.get("vips.NAME.addresses"), "");
        assert_eq!(agent.get("bfd.sessions.NAME.min_ttl"), "`254`");
        assert_eq!(agent.get("bgp.neighbors.NAME.port"), "`179`");
        assert_eq!(agent.get("bgp.defaults.hold_time"), "`9s`");
        assert_eq!(agent.get("bgp.table"), "`107`");
        assert_eq!(
            agent.get("tunnel.allowed"),
            "`[fd6b:6564:6765::/48, 198.18.0.0/16]`"
        );
        assert_eq!(
            Defaults::of(Role::Manager).get("listen"),
            "`127.0.0.1:9443`"
        );
        assert_eq!(
            Defaults::of(Role::Gateway).get("tunnel.listen_port"),
            "`51820`"
        );
    }
}
