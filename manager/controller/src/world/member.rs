//! Who is enrolled, and how it is kept in little memory.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kedge_crd::{
    EdgeGatewaySpec, EdgeHostSpec,
    host::{HostRef, Identity},
};
use serde::{Deserialize, Serialize};

use crate::{
    api::record::tunnel_key,
    pki::{Peer, request::key_hash},
    snapshot::{Snapshot, key},
    store::{Name, ObjectKey, packed::PackedValue},
};

/// Somebody enrolled.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Who.
    pub party: Party,
    /// The identity as it is kept.
    pub identity: Identity,
    /// Its WireGuard public keys: a gateway tells its peers apart by nothing else.
    pub tunnel_keys: Vec<String>,
    /// Whether it is served.
    pub active: bool,
    /// The tenant, for hosts.
    pub tenant: String,
    /// The machine it stands for.
    pub host_ref: Option<HostRef>,
}

/// A host or a gateway instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// An EdgeHost.
    Host(Name),
    /// An instance of an EdgeGateway.
    Instance(Name, String),
}

impl Member {
    /// Whether a certificate is for the identity's key.
    #[must_use]
    pub fn holds(&self, peer: &Peer) -> bool {
        key_hash(&self.identity.public_key).is_some_and(|own| own == peer.key_hash)
    }
}

impl Party {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Host(name) => &name.name,
            Self::Instance(_, name) => name,
        }
    }

    /// The key of the object the party is kept in.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Host(name) => key::<EdgeHostSpec>(name),
            Self::Instance(gateway, _) => key::<EdgeGatewaySpec>(gateway),
        }
    }

    /// The namespace it is in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Host(name) | Self::Instance(name, _) => &name.namespace,
        }
    }
}

/// The enrolled, by uid.
pub type Members = BTreeMap<Arc<str>, Arc<Kept>>;

/// Somebody enrolled, as it is kept: there are as many as hosts.
#[derive(Debug)]
pub struct Kept {
    party: Party,
    tunnel_keys: Box<[[u8; 32]]>,
    issued: Option<Timestamp>,
    rest: PackedValue,
}

/// What nobody looks at but for one member at a time. The uid is not in it: members are kept by it.
#[derive(Serialize, Deserialize)]
struct Rest {
    identity: Identity,
    /// Whether what every key has in PEM was left out of this one.
    is_bare: bool,
    active: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_ref: Option<HostRef>,
}

impl Kept {
    /// Keeps a member.
    #[must_use]
    pub fn new(member: Member) -> Self {
        let mut identity = member.identity;
        let issued = identity.issued.parse().ok();
        identity.uid = String::new();
        let key = bare(&identity.public_key).map(str::to_owned);
        let is_bare = key.is_some();
        if let Some(key) = key {
            identity.public_key = key;
        }
        let keys = member.tunnel_keys.iter();
        let rest = Rest {
            identity,
            is_bare,
            active: member.active,
            tenant: member.tenant,
            host_ref: member.host_ref,
        };
        Self {
            party: member.party,
            // What is no key is nobody's.
            tunnel_keys: keys.filter_map(|key| tunnel_key(key)).collect(),
            issued,
            rest: PackedValue::new(&rest),
        }
    }

    /// The member of that uid, as it was.
    #[must_use]
    pub fn open(&self, uid: &str) -> Option<Member> {
        let mut rest: Rest = self.rest.open()?;
        uid.clone_into(&mut rest.identity.uid);
        if rest.is_bare {
            let key = &rest.identity.public_key;
            rest.identity.public_key = format!("{BEFORE}{key}{AFTER}");
        }
        Some(Member {
            party: self.party.clone(),
            identity: rest.identity,
            tunnel_keys: self
                .tunnel_keys
                .iter()
                .map(|key| STANDARD.encode(key))
                .collect(),
            active: rest.active,
            tenant: rest.tenant,
            host_ref: rest.host_ref,
        })
    }

    /// Who it is.
    #[must_use]
    pub const fn party(&self) -> &Party {
        &self.party
    }

    /// The machine it stands for.
    #[must_use]
    pub fn host_ref(&self) -> Option<HostRef> {
        self.rest.open::<Rest>()?.host_ref
    }

    /// Its WireGuard public keys.
    #[must_use]
    pub const fn tunnel_keys(&self) -> &[[u8; 32]] {
        &self.tunnel_keys
    }

    /// When its certificate was issued, where that is a moment.
    #[must_use]
    pub const fn issued(&self) -> Option<Timestamp> {
        self.issued
    }
}

/// What is the key's own of an Ed25519 public key in PEM, as everybody writes it.
fn bare(pem: &str) -> Option<&str> {
    let key = pem.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
    (!key.contains('\n')).then_some(key)
}

/// The enrolled of a snapshot, by uid.
pub(super) fn members(snapshot: &Snapshot) -> Members {
    let hosts = snapshot.hosts.iter().filter_map(|(name, host)| {
        let identity = host.spec.identity.clone()?;
        Some(Member {
            party: Party::Host(name.clone()),
            tunnel_keys: host.spec.tunnel.public_keys.clone(),
            active: host.spec.is_active(),
            tenant: host.spec.tenant.clone(),
            host_ref: host.spec.host_ref.clone(),
            identity,
        })
    });
    let instances = snapshot.gateways.iter().flat_map(|(name, gateway)| {
        gateway.spec.instances.iter().map(move |instance| Member {
            party: Party::Instance(name.clone(), instance.name.clone()),
            tunnel_keys: instance.public_keys.clone(),
            active: true,
            tenant: String::new(),
            host_ref: None,
            identity: instance.identity.clone(),
        })
    });
    hosts
        .chain(instances)
        .filter(|member| !member.identity.uid.is_empty())
        .map(|member| {
            (
                member.identity.uid.as_str().into(),
                Arc::new(Kept::new(member)),
            )
        })
        .collect()
}

const BEFORE: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA";
const AFTER: &str = "\n-----END PUBLIC KEY-----\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_opened_as_it_was_kept() {
        let key = STANDARD.encode([7; 32]);
        let canonical = format!("{BEFORE}{key}{AFTER}");
        let odd = canonical.replace('\n', "\r\n");
        for (public_key, issued) in [
            (canonical.as_str(), "2026-11-22T08:00:00Z"),
            (&odd, "unknown"),
            ("", ""),
            (&format!("{BEFORE}two\nlines{AFTER}"), ""),
        ] {
            let member = Member {
                party: Party::Host(Name::new("ns", "edge")),
                identity: Identity {
                    uid: "u-1".to_owned(),
                    public_key: public_key.to_owned(),
                    generation: 3,
                    issued: issued.to_owned(),
                    ..Identity::default()
                },
                tunnel_keys: vec![key.clone()],
                active: true,
                tenant: "t".to_owned(),
                host_ref: None,
            };
            let kept = Kept::new(member.clone());
            assert_eq!(kept.open("u-1"), Some(member));
            assert_eq!(kept.issued().is_some(), issued.starts_with("2026"));
        }
    }
}
