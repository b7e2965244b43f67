//! Ports that were given back and rest, as they are noted at the object that had them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU16,
};

use jiff::Timestamp;
use kedge_crd::traffic::Transport;
use serde::{Deserialize, Serialize};

use super::read::{Found, drain};
use crate::{plan::ports::Seat, snapshot::Snapshot, store::Name};

/// A port that was given back, and until when it rests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rest {
    /// `NAMESPACE/NAME`.
    pub gateway: String,
    pub address: Option<IpAddr>,
    pub protocol: Transport,
    pub port: NonZeroU16,
    /// RFC 3339.
    pub until: String,
}

impl Rest {
    pub const fn seat(&self) -> Seat {
        Seat {
            at: self.address,
            protocol: self.protocol,
            port: self.port,
        }
    }

    fn ends(&self) -> Option<Timestamp> {
        self.until.parse().ok()
    }

    pub fn is_over(&self, now: &str) -> bool {
        let over = |now: Timestamp| Some(self.until.parse::<Timestamp>().ok()? <= now);
        // What cannot be read is long ago.
        now.parse().ok().and_then(over).unwrap_or(true)
    }
}

/// What rests of a load balancer.
pub struct Rests {
    pub rests: Vec<Rest>,
    /// Whether it gives back nothing with this plan: the note would be longer than an API server takes.
    /// What it no longer has in use is nobody else's until there is room again.
    pub waits: bool,
}

/// What rests of it: what did already, and what it gives back with this plan.
pub fn rests(snapshot: &Snapshot, found: &Found) -> Rests {
    let rests = found.kept.rests.iter();
    let before: Vec<Rest> = rests
        .filter(|rest| !rest.is_over(&snapshot.now))
        .cloned()
        .collect();
    let mut rests = before.clone();
    if let Some(gateway) = &found.kept.gateway {
        rests.extend(given_back(snapshot, found, gateway));
    }
    rests.sort();
    rests.dedup_by(|one, other| {
        let same = one.seat() == other.seat() && one.gateway == other.gateway;
        // It had the port again in between: its last clients are those of the last time.
        if same && one.ends() > other.ends() {
            other.until.clone_from(&one.until);
        }
        same
    });
    // Where nothing rests yet there is nothing to wait for. What the schema lets one object have
    // fits then; a directory takes any length.
    let waits = !before.is_empty() && !fits(&rests);
    match waits {
        true => Rests {
            rests: before,
            waits,
        },
        false => Rests { rests, waits },
    }
}

/// What it gives back with this plan.
fn given_back(snapshot: &Snapshot, found: &Found, gateway: &Name) -> Vec<Rest> {
    let now: Option<Timestamp> = snapshot.now.parse().ok();
    let until = now.and_then(|now| now.checked_add(drain(snapshot, gateway)).ok());
    let Some(until) = until else {
        return Vec::new();
    };
    let seats = found.gives_back().into_iter();
    let rests = seats.map(|seat| Rest {
        gateway: gateway.to_string(),
        address: seat.at,
        protocol: seat.protocol,
        port: seat.port,
        until: until.to_string(),
    });
    rests.collect()
}

/// Ports that were given back together: the words they share are written once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Together {
    gateway: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    protocol: Transport,
    until: String,
}

#[derive(Serialize, Deserialize)]
struct Noted {
    #[serde(flatten)]
    together: Together,
    ports: BTreeSet<NonZeroU16>,
}

/// The note.
pub fn note(rests: &[Rest]) -> String {
    let mut groups: BTreeMap<Together, BTreeSet<NonZeroU16>> = BTreeMap::new();
    for rest in rests {
        let together = Together {
            gateway: rest.gateway.clone(),
            address: rest.address,
            protocol: rest.protocol,
            until: rest.until.clone(),
        };
        groups.entry(together).or_default().insert(rest.port);
    }
    let groups = groups.into_iter();
    let noted: Vec<Noted> = groups
        .map(|(together, ports)| Noted { together, ports })
        .collect();
    serde_json::to_string(&noted).unwrap_or_default()
}

/// What a note says; nothing where it cannot be read.
pub fn read(note: &str) -> Vec<Rest> {
    let noted: Vec<Noted> = serde_json::from_str(note).unwrap_or_default();
    let mut rests = Vec::new();
    for Noted { together, ports } in noted {
        for port in ports {
            rests.push(Rest {
                gateway: together.gateway.clone(),
                address: together.address,
                protocol: together.protocol,
                port,
                until: together.until.clone(),
            });
        }
    }
    rests.sort();
    rests
}

/// Whether an API server takes the note.
pub fn fits(rests: &[Rest]) -> bool {
    note(rests).chars().count() <= LONGEST
}

/// Characters of an annotation that the chart's admission policy lets through.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(gateway: &str, address: Option<IpAddr>, protocol: Transport, port: u16) -> Rest {
        Rest {
            gateway: gateway.to_owned(),
            address,
            protocol,
            port: port.try_into().unwrap(),
            until: "2026-01-01T00:01:00.123456789Z".to_owned(),
        }
    }

    #[test]
    fn a_note_says_what_was_noted() {
        let address = "2001:db8::7".parse().ok();
        let mut rests = vec![
            rest("ns/gw", None, Transport::Tcp, 443),
            rest("ns/gw", None, Transport::Tcp, 80),
            rest("ns/gw", address, Transport::Tcp, 80),
            rest("ns/gw", None, Transport::Udp, 80),
            rest("ns/other", None, Transport::Tcp, 80),
        ];
        rests[1].until = "2026-01-01T00:02:00Z".to_owned();
        rests.sort();
        assert_eq!(read(&note(&rests)), rests);
        assert_eq!(read(&note(&[])), []);
        assert_eq!(read("[{"), []);
    }

    #[test]
    fn whatever_an_object_gives_back_at_once_fits() {
        // Names as long as they may be, and every port the schema lets an object have.
        let gateway = format!("{}/{}", "n".repeat(63), "g".repeat(253));
        let address = "2001:db8:1111:2222:3333:4444:5555:6666".parse().ok();
        let ports = (0..32).map(|port| {
            let protocol = [Transport::Tcp, Transport::Udp][usize::from(port % 2)];
            rest(&gateway, address, protocol, 60_000 + port)
        });
        let ports: Vec<Rest> = ports.collect();
        assert!(fits(&ports), "{}", note(&ports).len());
        let many: Vec<Rest> = (60_000..61_000)
            .map(|port| rest(&gateway, address, Transport::Tcp, port))
            .collect();
        assert!(!fits(&many));
    }
}
