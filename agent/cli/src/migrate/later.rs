//! Keys of a VIP that other tools have words for, and whether this Kedge understands them.

/// What a VIP may one day say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Later {
    /// `version`: 2 or 3.
    Version,
    /// `password_file`: a file with the password of version 2.
    PasswordFile,
    /// `auth`: keys of signed advertisements.
    Auth,
    /// `unicast_peers`: a list of addresses.
    UnicastPeers,
    /// `source`: an address.
    UnicastSource,
    /// `min_ttl`: 1 to 255.
    MinTtl,
    /// `preempt_delay`: a duration.
    PreemptDelay,
    /// `excluded_addresses`: addresses that are held and not advertised.
    ExcludedAddresses,
    /// `virtual_mac`: true or false.
    VirtualMac,
    /// `track`: what else lowers the priority, by name.
    Track,
    /// `sync_group`: the name VIPs that move together share.
    SyncGroup,
    /// `addresses` of IPv6.
    Ipv6,
}

/// What this Kedge understands. A key that stands in the agent's configuration file is turned on
/// here, and nowhere else.
const UNDERSTOOD: [(Later, &str, bool); 12] = [
    (Later::Version, "version", true),
    (Later::PasswordFile, "password_file", true),
    (Later::Auth, "auth", true),
    (Later::UnicastPeers, "unicast_peers", true),
    (Later::UnicastSource, "source", true),
    (Later::MinTtl, "min_ttl", true),
    (Later::PreemptDelay, "preempt_delay", true),
    (Later::ExcludedAddresses, "excluded_addresses", true),
    (Later::VirtualMac, "virtual_mac", true),
    (Later::Track, "track", true),
    (Later::SyncGroup, "sync_group", true),
    (Later::Ipv6, "addresses", true),
];

impl Later {
    /// The key, where this Kedge understands it.
    pub(super) fn key(self) -> Option<&'static str> {
        UNDERSTOOD
            .iter()
            .find(|(later, _, understood)| *later == self && *understood)
            .map(|(_, key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_turned_on_stands_in_the_configuration() {
        let schema = crate::files::schema(kedge_host::Role::Agent).to_value();
        let known = &schema["$defs"]["VipFile"]["properties"];
        assert!(known["priority"].is_object(), "the schema has another form");
        for (later, key, understood) in UNDERSTOOD {
            if understood {
                assert!(known[key].is_object(), "{later:?} is not known");
                let file = serde_json::json!({ key: example(later) });
                let read = serde_json::from_value::<kedge_agent_daemon::config::VipFile>(file);
                assert!(read.is_ok(), "{later:?} has another form: {read:?}");
            }
        }
    }

    /// The form in which each of them is written.
    fn example(later: Later) -> serde_json::Value {
        use serde_json::json;

        match later {
            Later::Version => json!(2),
            Later::PasswordFile => json!("/etc/kedge/a.password"),
            Later::Auth => json!({ "active_key": "1", "keys": { "1": "/etc/kedge/a-1.key" } }),
            Later::UnicastPeers | Later::ExcludedAddresses => json!(["10.0.0.1"]),
            Later::UnicastSource => json!("10.0.0.1"),
            Later::MinTtl => json!(254),
            Later::PreemptDelay => json!("30s"),
            Later::VirtualMac => json!(true),
            Later::Track => json!({
                "a": { "interface": "eth1", "weight": -20 },
                "b": { "script": ["/bin/check", "-a"], "interval": "5s", "timeout": "5s", "rise": 1, "fall": 2, "user": "x", "critical": true },
                "c": { "process": "haproxy", "critical": true },
            }),
            Later::SyncGroup => json!("gate"),
            Later::Ipv6 => json!(["2001:db8::1"]),
        }
    }
}
