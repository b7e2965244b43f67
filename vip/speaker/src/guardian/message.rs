//! What the agent tells the guardian.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use kedge_core::{
    Name,
    vip::{AdvertInterval, Priority, Vrid},
};
use kedge_net::{Mac, channel::MAX_MESSAGE};
use kedge_vip_proto::{
    auth::{self, AntiReplay, Key, KeyId, Keys, Mode, Window},
    vrrp::{ChecksumPolicy, Members},
    wire::{Password, vrrp::Version},
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::mastership::Slot;
use crate::{Chosen, VipSpec, virtual_links::OwnLinks};

/// A message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// The first. Beside it: the page, and the end of the agent.
    Hello,
    /// An interface with VIPs. Beside it: the descriptors of `sockets`, in order.
    Interface {
        ifindex: u32,
        name: String,
        sockets: Vec<Opened>,
    },
    /// An interface that has none any more.
    InterfaceGone { ifindex: u32 },
    /// A VIP, or what is new about it.
    Ward(Box<Ward>),
    /// A VIP that is no more.
    WardGone { slot: Slot },
}

/// A socket of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Opened {
    /// VRRP over IPv4: four descriptors.
    VrrpV4,
    /// VRRP over IPv6: four descriptors.
    VrrpV6,
    /// ARP.
    Arp,
    /// Neighbor Discovery.
    Nd,
}

/// What must be known of a VIP to leave in its name, or to go on in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ward {
    pub(crate) slot: Slot,
    name: Name,
    addresses: Vec<IpAddr>,
    excluded: Vec<IpAddr>,
    two: bool,
    password: Option<Secret>,
    auth: Option<Auth>,
    unicast_peers: Vec<IpAddr>,
    min_ttl: u8,
    vrid: Vrid,
    owner: bool,
    /// What its router says, whatever is configured.
    pub(crate) priority: Priority,
    centis: u16,
    checksum: Checksum,
    pub(crate) both_checksums: bool,
    ifindex: u32,
    interface: String,
    virtual_mac: bool,
    own_links: OwnLinks,
    source: IpAddr,
    mac: Mac,
}

/// How a VIP's router advertises at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) priority: Priority,
    pub(crate) interval: AdvertInterval,
    pub(crate) both_checksums: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Checksum {
    Auto,
    Message,
    PseudoHeader,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Auth {
    active: u8,
    keys: BTreeMap<u8, Secret>,
    mode: AuthMode,
    /// Seconds of the time window; without one sequences alone count.
    window: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum AuthMode {
    ReceiveOnly,
    Permissive,
    Enforce,
}

/// Bytes nobody prints.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Secret(Zeroizing<Vec<u8>>);

impl Message {
    /// The bytes, unless they are too many for one message.
    pub(super) fn emit(&self) -> Option<Zeroizing<Vec<u8>>> {
        let text = Zeroizing::new(serde_json::to_vec(self).ok()?);
        (text.len() <= MAX_MESSAGE).then_some(text)
    }

    /// # Errors
    ///
    /// It is none.
    pub(super) fn parse(bytes: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes)
    }
}

impl Ward {
    /// What must be known of a VIP, and of its router what it says: that need not be what is
    /// configured.
    pub(crate) fn new(slot: Slot, spec: &VipSpec, chosen: &Chosen, said: Said) -> Self {
        let (two, password) = match spec.version {
            Version::Three => (false, None),
            Version::Two { password } => (true, password.map(|it| Secret::of(&it.field()))),
        };
        Self {
            slot,
            name: spec.name.clone(),
            addresses: spec.addresses.clone(),
            excluded: spec.excluded.clone(),
            two,
            password,
            auth: spec.auth.as_ref().map(Auth::of),
            unicast_peers: spec.unicast_peers.clone(),
            min_ttl: spec.min_ttl,
            vrid: spec.vrid,
            owner: spec.owner,
            priority: said.priority,
            centis: said.interval.centis(),
            checksum: match spec.checksum {
                ChecksumPolicy::Auto => Checksum::Auto,
                ChecksumPolicy::Message => Checksum::Message,
                ChecksumPolicy::PseudoHeader => Checksum::PseudoHeader,
            },
            both_checksums: said.both_checksums,
            ifindex: chosen.ifindex,
            interface: chosen.name.clone(),
            virtual_mac: spec.virtual_mac,
            own_links: chosen.own_links,
            source: chosen.address,
            mac: chosen.mac,
        }
    }

    /// Whether its addresses stand on links of their own.
    pub(crate) const fn has_links(&self) -> bool {
        self.virtual_mac
    }

    /// The VIP again, as far as its adverts need it, and where it is. Its priority is the highest: what
    /// it says is in `priority`.
    ///
    /// # Errors
    ///
    /// A value is out of its range.
    pub(crate) fn restore(&self) -> Result<(VipSpec, Chosen), BadWard> {
        let priority = match self.owner {
            true => Priority::OWNER,
            false => Priority::new(HIGHEST).map_err(|_| BadWard)?,
        };
        let password = self.password.as_ref().map(Secret::password).transpose()?;
        let lowest = Priority::new(1).map_err(|_| BadWard)?;
        let spec = VipSpec {
            excluded: self.excluded.clone(),
            version: match self.two {
                true => Version::Two { password },
                false => Version::Three,
            },
            auth: self.auth.as_ref().map(Auth::restore).transpose()?,
            unicast_peers: self.unicast_peers.clone(),
            min_ttl: self.min_ttl,
            source: Some(self.source),
            owner: self.owner,
            interval: AdvertInterval::from_centis(self.centis).map_err(|_| BadWard)?,
            interface: Some(self.interface.clone()),
            members: Members::Mixed { unhealthy: lowest },
            virtual_mac: self.virtual_mac,
            checksum: match self.checksum {
                Checksum::Auto => ChecksumPolicy::Auto,
                Checksum::Message => ChecksumPolicy::Message,
                Checksum::PseudoHeader => ChecksumPolicy::PseudoHeader,
            },
            ..VipSpec::new(
                self.name.clone(),
                self.addresses.clone(),
                self.vrid,
                priority,
            )
        };
        let chosen = Chosen {
            ifindex: self.ifindex,
            name: self.interface.clone(),
            address: self.source,
            prefix_len: if self.source.is_ipv6() { 128 } else { 32 },
            prefixes: Vec::new(),
            mac: self.mac,
            running: true,
            because: "the agent had chosen it".to_owned(),
            own_links: self.own_links,
            rejected: Vec::new(),
        };
        Ok((spec, chosen))
    }
}

/// A ward that no VIP can have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a VIP is not what a VIP can be")]
pub(crate) struct BadWard;

impl Auth {
    fn of(config: &auth::Config) -> Self {
        let secret = |(id, key): (KeyId, &Key)| (id.get(), Secret::of(key.expose()));
        Self {
            active: config.keys.active().0.get(),
            keys: config.keys.iter().map(secret).collect(),
            mode: match config.mode {
                Mode::ReceiveOnly => AuthMode::ReceiveOnly,
                Mode::Permissive => AuthMode::Permissive,
                Mode::Enforce => AuthMode::Enforce,
            },
            window: match config.anti_replay {
                AntiReplay::Time { window } => Some(window.seconds()),
                AntiReplay::Monotonic { .. } => None,
            },
        }
    }

    fn restore(&self) -> Result<auth::Config, BadWard> {
        let mut keys = BTreeMap::new();
        for (id, secret) in &self.keys {
            let id = KeyId::new(*id).map_err(|_| BadWard)?;
            keys.insert(id, Key::new(&secret.0).map_err(|_| BadWard)?);
        }
        let active = KeyId::new(self.active).map_err(|_| BadWard)?;
        Ok(auth::Config {
            keys: Keys::new(active, keys).map_err(|_| BadWard)?,
            mode: match self.mode {
                AuthMode::ReceiveOnly => Mode::ReceiveOnly,
                AuthMode::Permissive => Mode::Permissive,
                AuthMode::Enforce => Mode::Enforce,
            },
            anti_replay: match self.window {
                Some(seconds) => AntiReplay::Time {
                    window: Window::new(seconds).map_err(|_| BadWard)?,
                },
                None => AntiReplay::MONOTONIC,
            },
        })
    }
}

impl Secret {
    fn of(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    fn password(&self) -> Result<Password, BadWard> {
        let field = self.0.as_slice().try_into().map_err(|_| BadWard)?;
        Ok(Password::from_field(field))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The base of one whose priority is told beside it.
const HIGHEST: u8 = 254;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::spec;

    fn chosen() -> Chosen {
        Chosen {
            ifindex: 7,
            name: "eth0".to_owned(),
            address: "10.20.14.11".parse().unwrap(),
            prefix_len: 24,
            prefixes: Vec::new(),
            mac: [2, 0, 0, 0, 0, 11],
            running: true,
            because: String::new(),
            own_links: OwnLinks {
                v4: Some(12),
                v6: None,
            },
            rejected: Vec::new(),
        }
    }

    fn there_and_back(spec: &VipSpec) -> (VipSpec, Chosen) {
        restored(spec, spec.interval)
    }

    fn restored(spec: &VipSpec, interval: AdvertInterval) -> (VipSpec, Chosen) {
        let slot = Slot::free([].into_iter()).unwrap();
        let said = Said {
            priority: spec.priority,
            interval,
            both_checksums: true,
        };
        let ward = Ward::new(slot, spec, &chosen(), said);
        let message = Message::Ward(Box::new(ward));
        let Message::Ward(ward) = Message::parse(&message.emit().unwrap()).unwrap() else {
            panic!("another message");
        };
        ward.restore().unwrap()
    }

    #[test]
    fn what_a_goodbye_needs_arrives() {
        let mut signed = spec("api", "10.20.14.10");
        signed.excluded = vec!["fd00::10".parse().unwrap()];
        signed.unicast_peers = vec!["10.20.14.12".parse().unwrap()];
        signed.min_ttl = 254;
        signed.virtual_mac = true;
        signed.checksum = ChecksumPolicy::Message;
        let id = KeyId::new(3).unwrap();
        let key = Key::new(&[7; 32]).unwrap();
        let keys = Keys::new(id, BTreeMap::from([(id, key)])).unwrap();
        signed.auth = Some(auth::Config {
            anti_replay: AntiReplay::Time {
                window: Window::new(9).unwrap(),
            },
            ..auth::Config::new(keys)
        });
        let (back, place) = there_and_back(&signed);
        assert_eq!(back.auth, signed.auth);
        assert_eq!(
            back.held().collect::<Vec<_>>(),
            signed.held().collect::<Vec<_>>()
        );
        assert_eq!(back.unicast_peers, signed.unicast_peers);
        assert_eq!((back.vrid, back.interval), (signed.vrid, signed.interval));
        assert_eq!(
            (back.min_ttl, back.checksum),
            (254, ChecksumPolicy::Message)
        );
        assert_eq!(back.check(), Ok(()));
        assert_eq!((place.ifindex, place.address), (7, chosen().address));
        assert!(back.virtual_mac);
        assert_eq!(place.own_links, chosen().own_links);

        let mut two = spec("old", "10.20.14.20");
        let password = Some(Password::new("secret").unwrap());
        two.version = Version::Two { password };
        two.interval = AdvertInterval::from_centis(100).unwrap();
        let (back, _) = there_and_back(&two);
        assert_eq!(back.version, two.version);
        let mut own = spec("own", "10.20.14.11");
        own.owner = true;
        own.priority = Priority::OWNER;
        assert_eq!(there_and_back(&own).0.priority, Priority::OWNER);
    }

    #[test]
    fn the_interval_that_runs_decides_how_long_silence_may_last() {
        let mut fast = spec("api", "10.20.14.10");
        fast.interval = AdvertInterval::FAST;
        let (back, _) = restored(&fast, AdvertInterval::DEFAULT);
        assert_eq!(back.interval, AdvertInterval::DEFAULT);
    }

    #[test]
    fn secrets_are_not_printed_and_nonsense_is_no_message() {
        let secret = format!("{:?}", Secret::of(&[42; 32]));
        assert_eq!(secret, "***");
        assert!(Message::parse(b"{").is_err());
        assert!(Message::parse(br#"{"Ward":{}}"#).is_err());
    }
}
