//! Files of wg-quick. What WireGuard itself knows of them becomes the agent's tunnel; commands, DNS and
//! policy routing are wg-quick's own.

mod lines;

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use ipnet::IpNet;
use kedge_agent_daemon::AgentFile;
use kedge_core::{Code, Fix, Name, Problem};
use serde_json::{Map, Value, json};

use self::lines::{Section, Setting};
use super::{
    draft,
    report::{Place, Report},
    source,
};

/// Reads a file.
///
/// # Errors
///
/// The file cannot be read, is no file of wg-quick, or the agent refuses the whole of it.
pub(super) fn read(path: &Path, report: &mut Report) -> Result<AgentFile, Problem> {
    let text = source::read(path)?;
    let sections = lines::sections(path, &text)?;
    if sections.is_empty() {
        return Err(nothing(&source::shown(path)));
    }
    let mut tunnel = Map::new();
    if let Some(name) = interface_of(path) {
        let place = sections.first().map(|section| section.place.clone());
        if let Some(place) = place {
            report.taken(&place, format!("interface {name}"), "tunnel.interface");
        }
        tunnel.insert("interface".to_owned(), json!(name));
    }
    let mut peers: BTreeMap<Name, (Map<String, Value>, Place)> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for section in &sections {
        if section.is_peer {
            draft::limit(peers.len() + 1, &section.place)?;
            if let Some((name, keys)) = peer(section, &mut names, report) {
                peers.insert(name, (keys, section.place.clone()));
            }
        } else {
            interface(section, &mut tunnel, report);
        }
    }
    steps(report, tunnel.get("interface").and_then(Value::as_str));
    assemble(&tunnel, peers, report)
}

fn interface(section: &Section, tunnel: &mut Map<String, Value>, report: &mut Report) {
    let mut addresses: Vec<String> = Vec::new();
    for setting in &section.settings {
        let (place, shown) = (&setting.place, setting.shown());
        match setting.word().as_str() {
            "address" => {
                for part in setting.parts() {
                    let what = format!("Address {part}");
                    match net(part) {
                        Some(net) => {
                            report.taken(place, what, "tunnel.addresses");
                            addresses.push(net.to_string());
                        }
                        None => report.missing(place, what, "not an address with a prefix"),
                    }
                }
            }
            "listenport" => match setting.value.parse::<u16>() {
                Ok(port) => {
                    tunnel.insert("listen_port".to_owned(), json!(port));
                    report.taken(place, shown, "tunnel.listen_port");
                }
                Err(_) => report.missing(place, shown, "not a port"),
            },
            "mtu" => match setting.value.parse::<u16>() {
                Ok(mtu) if (1280..=9000).contains(&mtu) => {
                    tunnel.insert("mtu".to_owned(), json!(mtu));
                    let consequence =
                        "it is fixed; left out, Kedge finds out what the way to each peer carries";
                    report.different(place, shown, "tunnel.mtu", consequence);
                }
                _ => report.missing(
                    place,
                    shown,
                    "Kedge takes 1280 to 9000, and finds it out where nothing is set",
                ),
            },
            "privatekey" => report.different(
                place,
                "PrivateKey",
                "",
                "the agent has a key of its own, which never leaves the host: give its public key to \
                 every peer",
            ),
            "table" if setting.value == "auto" => report.taken(place, shown, ""),
            "table" => report.missing(
                place,
                shown,
                "Kedge routes the prefixes of its peers in the main table, always",
            ),
            "fwmark" => report.missing(place, shown, "Kedge marks no packets"),
            "dns" => report.missing(
                place,
                shown,
                "Kedge does not set resolvers: configure them in systemd-resolved or NetworkManager",
            ),
            "saveconfig" if setting.value == "false" => report.taken(place, shown, ""),
            "saveconfig" => report.missing(
                place,
                shown,
                "Kedge never writes its configuration: what is there is what is in force",
            ),
            // The text of a command is nobody's business.
            "preup" | "postup" | "predown" | "postdown" => report.missing(
                place,
                setting.key.clone(),
                "Kedge runs no commands: rules of a firewall belong to nftables.service, routes to \
                 the peers' prefixes",
            ),
            _ => unknown(setting, report),
        }
    }
    if !addresses.is_empty() {
        tunnel.insert("addresses".to_owned(), json!(addresses));
    }
}

fn peer(
    section: &Section,
    names: &mut BTreeMap<Name, Place>,
    report: &mut Report,
) -> Option<(Name, Map<String, Value>)> {
    let name = draft::name(&called(section, names.len() + 1), names)?;
    names.insert(name.clone(), section.place.clone());
    let key = |key: &str| format!("tunnel.peers.{name}.{key}");
    let mut keys = Map::new();
    let mut prefixes: Vec<String> = Vec::new();
    for setting in &section.settings {
        let (place, shown) = (&setting.place, setting.shown());
        match setting.word().as_str() {
            "publickey" => {
                keys.insert("public_key".to_owned(), json!(setting.value));
                report.taken(place, shown, key("public_key"));
            }
            "endpoint" => {
                keys.insert("endpoint".to_owned(), json!(setting.value));
                report.taken(place, shown, key("endpoint"));
            }
            "allowedips" => {
                for part in setting.parts() {
                    let what = format!("AllowedIPs {part}");
                    match net(part) {
                        Some(net) if net.prefix_len() == 0 => report.missing(
                            place,
                            what,
                            "everything into the tunnel needs policy routing, which wg-quick makes and \
                             Kedge does not: stay with wg-quick, over `kedge wg` if you like",
                        ),
                        Some(net) => {
                            report.taken(place, what, key("allowed_ips"));
                            prefixes.push(net.trunc().to_string());
                        }
                        None => report.missing(place, what, "not a prefix"),
                    }
                }
            }
            "persistentkeepalive" => match setting.value.as_str() {
                "off" | "0" => report.taken(place, shown, key("keepalive")),
                text => match text.parse::<u16>() {
                    Ok(seconds) if seconds <= LONGEST => {
                        keys.insert("keepalive".to_owned(), json!(format!("{seconds}s")));
                        report.taken(place, shown, key("keepalive"));
                    }
                    _ => report.missing(place, shown, "Kedge takes 1 to 64800 seconds"),
                },
            },
            "presharedkey" => report.missing(
                place,
                "PresharedKey",
                "the agent has none, and handshakes with one fail: take it away at the peer, too",
            ),
            _ => unknown(setting, report),
        }
    }
    keys.insert("allowed_ips".to_owned(), json!(prefixes));
    Some((name, keys))
}

/// What people call a peer: its comment, else where it is.
fn called(section: &Section, number: usize) -> String {
    let endpoint = section.settings.iter().find(|it| it.word() == "endpoint");
    let host = endpoint.map(|it| it.value.rsplit_once(':').map_or("", |(host, _)| host));
    let comment = section.comment.as_deref().map(|comment| {
        let name = comment.split_once('=').map_or(comment, |(_, name)| name);
        name.trim()
    });
    let text = comment.or(host).unwrap_or_default();
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        text.to_owned()
    } else if text.is_empty() {
        format!("peer-{number}")
    } else {
        format!("peer-{text}")
    }
}

/// The agent's file. A peer that its check refuses is left out and told.
fn assemble(
    tunnel: &Map<String, Value>,
    mut peers: BTreeMap<Name, (Map<String, Value>, Place)>,
    report: &mut Report,
) -> Result<AgentFile, Problem> {
    loop {
        let named: Map<String, Value> = peers
            .iter()
            .map(|(name, (keys, _))| (name.to_string(), Value::Object(keys.clone())))
            .collect();
        let mut all = tunnel.clone();
        all.insert("peers".to_owned(), Value::Object(named));
        let file = json!({ "version": 1, "tunnel": all });
        let refused: Vec<(Option<Name>, String)> = match serde_json::from_value::<AgentFile>(file) {
            Ok(file) => match file.checked() {
                Ok(_) => return Ok(file),
                Err(problems) => problems
                    .into_iter()
                    .map(|problem| (peer_of(&problem.object, &peers), problem.what))
                    .collect(),
            },
            // A value no key can have: whose it is, is found by trying.
            Err(error) => vec![(unreadable(&peers), error.to_string())],
        };
        let mut left = false;
        for (name, because) in &refused {
            let removed = name.as_ref().and_then(|name| peers.remove_entry(name));
            if let Some((name, (_, place))) = removed {
                left = true;
                let path = format!("tunnel.peers.{name}.");
                report.items.retain(|item| !item.key.starts_with(&path));
                let consequence = format!("left out, because Kedge would refuse it: {because}");
                report.missing(&place, format!("peer {name}"), consequence);
            }
        }
        if !left {
            let because = refused.into_iter().next().map(|(_, because)| because);
            let because = because.unwrap_or_default();
            return Err(Problem::new(
                Code::ConfigRule,
                "the tunnel of this file is none that Kedge takes",
            )
            .evidence(because)
            .consequence("nothing was migrated")
            .fix(Fix::text(
                "correct the [Interface] section, or write the agent's file by hand",
            )));
        }
    }
}

fn peer_of(object: &str, peers: &BTreeMap<Name, (Map<String, Value>, Place)>) -> Option<Name> {
    let name = object.strip_prefix("tunnel.peers.")?.split('.').next()?;
    peers.keys().find(|known| known.as_str() == name).cloned()
}

/// The first peer that cannot be read by itself.
fn unreadable(peers: &BTreeMap<Name, (Map<String, Value>, Place)>) -> Option<Name> {
    let alone = |name: &Name, keys: &Map<String, Value>| json!({ "version": 1, "tunnel": { "peers": { name.as_str(): keys } } });
    let bad = peers
        .iter()
        .find(|(name, (keys, _))| serde_json::from_value::<AgentFile>(alone(name, keys)).is_err());
    bad.map(|(name, _)| name.clone())
}

fn unknown(setting: &Setting, report: &mut Report) {
    let consequence = "not a word Kedge knows of wg-quick here: nothing was done about it";
    report.missing(&setting.place, setting.key.clone(), consequence);
}

/// A prefix; a bare address is one of its own.
fn net(text: &str) -> Option<IpNet> {
    let single = |address: IpAddr| IpNet::from(address);
    text.parse().ok().or_else(|| text.parse().ok().map(single))
}

/// The interface that wg-quick makes of a file: what the file is called.
fn interface_of(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_suffix(".conf")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_=+.-".contains(&byte);
    (name.len() <= 15 && !name.is_empty() && name.bytes().all(plain)).then_some(name)
}

fn steps(report: &mut Report, interface: Option<&str>) {
    let interface = interface.unwrap_or("INTERFACE");
    report.step(format!(
        "take wg-quick down before the agent starts: `systemctl disable --now wg-quick@{interface}`"
    ));
    report.step(
        "give this host's new public key to every peer: `kedge tunnel list` shows it once the agent runs; \
         until then no handshake is answered",
    );
}

fn nothing(place: &str) -> Problem {
    source::refused(
        Code::ConfigRule,
        place,
        "no [Interface] and no [Peer]",
        "check that this is a file of wg-quick, such as /etc/wireguard/wg0.conf",
    )
}

/// 18 hours, in seconds.
const LONGEST: u16 = 64_800;
