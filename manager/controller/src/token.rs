//! Enrolment tokens: bounded, and kept without their secret.

pub mod bound;

use std::collections::BTreeMap;

use aws_lc_rs::{
    hkdf,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use kedge_control::{
    enrol::{HostRef, TOKEN_KEY_INFO},
    identity::Role,
    local::{Approval, BoundTo, TokenSummary},
    token::Token,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    clock::to_text,
    managers, pki,
    store::{Layer, Layers, Name, ObjectKey, Objects, Write},
};

/// The longest life of a token.
pub const MAX_TTL_SECONDS: u64 = 30 * 86_400;
/// The life of a token when nobody says.
pub const DEFAULT_TTL_SECONDS: u64 = 3600;

/// How long an expired token is still known, so that whoever brings it is told why it is refused.
pub const GRACE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What is kept of a token: enough to check a proof, not to make one. A record with a rule that
/// this version does not know admits nobody: left out, the rule would let everybody in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// The public id.
    pub id: String,
    /// Host or gateway.
    pub role: Role,
    /// The namespace of what it admits.
    pub namespace: String,
    /// The tenant or the EdgeGateway it admits to.
    pub scope: String,
    /// The host it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ref: Option<HostRef>,
    /// What a host must say of itself.
    #[serde(default, skip_serializing_if = "BoundTo::is_empty")]
    pub bound_to: BoundTo,
    /// Labels of the records it makes, above the tenant's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether a person approves each host; the tenant's rule when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// When it ends, RFC 3339.
    pub expires: String,
    /// How often it may be used.
    pub max_uses: u32,
    /// Who used it.
    #[serde(default)]
    pub used_by: Vec<Use>,
    /// The Ed25519 public key derived from the secret, base64url.
    pub verifier: String,
}

/// One use of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    /// The identity it gave.
    pub uid: String,
    /// The hash of the key that asked.
    pub key_hash: String,
}

/// The library refuses to make a token.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no token can be made")]
pub struct NoToken;

impl Record {
    /// Makes a token that admits to `scope`, and its record.
    ///
    /// # Errors
    ///
    /// The system gives no randomness.
    pub fn create(
        role: Role,
        (namespace, scope): (&str, &str),
        host_ref: Option<HostRef>,
        (expires, max_uses): (Timestamp, u32),
        pin: &str,
    ) -> Result<(Token, Self), NoToken> {
        let id = id(namespace).map_err(|_| NoToken)?;
        let secret = pki::random::<32>().map_err(|_| NoToken)?;
        let token = Token::new(&id, &URL_SAFE_NO_PAD.encode(secret), pin).map_err(|_| NoToken)?;
        let key = key(&id, &secret).ok_or(NoToken)?;
        let record = Self {
            id,
            role,
            namespace: namespace.to_owned(),
            scope: scope.to_owned(),
            host_ref,
            bound_to: BoundTo::default(),
            labels: BTreeMap::new(),
            approval: None,
            expires: to_text(expires),
            max_uses,
            used_by: Vec::new(),
            verifier: URL_SAFE_NO_PAD.encode(key.public_key().as_ref()),
        };
        Ok((token, record))
    }

    /// Whether the signature was made with the token's key.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(key) = URL_SAFE_NO_PAD.decode(&self.verifier) else {
            return false;
        };
        let key = UnparsedPublicKey::new(&ED25519, key);
        key.verify(message, signature).is_ok()
    }

    /// The use by this key, if it was used by it before.
    #[must_use]
    pub fn used_with(&self, key_hash: &str) -> Option<&Use> {
        self.used_by.iter().find(|used| used.key_hash == key_hash)
    }

    /// Whether its time is over; a record that does not say when is no pass for ever.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let expires = self.expires.parse();
        !expires.is_ok_and(|expires: Timestamp| now < expires)
    }

    /// Whether it expired so long ago that nobody asks any more. A record that does not say when
    /// stays for a person to look at.
    #[must_use]
    pub fn is_outdated(&self, now: Timestamp) -> bool {
        let expires = self.expires.parse();
        expires.is_ok_and(|expires: Timestamp| now.duration_since(expires) >= GRACE)
    }

    /// Whether it was used as often as it may be.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.used_by.len() >= self.max_uses as usize
    }

    /// What people see of it.
    #[must_use]
    pub fn summary(&self, now: Timestamp) -> TokenSummary {
        let state = if self.is_expired(now) {
            "expired"
        } else if self.is_used_up() {
            "used-up"
        } else {
            "usable"
        };
        TokenSummary {
            id: self.id.clone(),
            role: self.role,
            scope: self.scope.clone(),
            host_ref: self.host_ref.clone(),
            bound_to: self.bound_to.clone(),
            labels: self.labels.clone(),
            approval: self.approval,
            expires: self.expires.clone(),
            uses: u32::try_from(self.used_by.len()).unwrap_or(u32::MAX),
            max_uses: self.max_uses,
            state: state.to_owned(),
        }
    }

    /// The Secret it is kept in.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let name = Name::new(&self.namespace, secret_name(&self.id));
        ObjectKey::new("", "Secret", name)
    }

    /// The Secret's document.
    #[must_use]
    pub fn document(&self) -> Value {
        let key = self.key();
        let record = serde_json::to_string(self).unwrap_or_default();
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kedge.dev/enrollment-token",
            "metadata": {
                "name": key.name.name,
                "namespace": key.name.namespace,
                "labels": {"clusterctl.cluster.x-k8s.io/move": ""},
            },
            "stringData": {"record": record},
        })
    }

    /// The write that keeps it.
    #[must_use]
    pub fn write(&self) -> Write {
        Write {
            key: self.key(),
            layer: Layer::Owned(managers::TOKEN.to_owned()),
            content: Some(self.document()),
        }
    }
}

/// Every token, by id.
#[must_use]
pub fn all(objects: &Objects) -> BTreeMap<String, Record> {
    let secrets = objects.of_kind("", "Secret");
    let records = secrets.filter_map(|(_, layers)| read(layers));
    records.map(|record| (record.id.clone(), record)).collect()
}

/// The token of that id. Whoever connects may ask: no other token is read for it.
#[must_use]
pub fn find(objects: &Objects, id: &str) -> Option<Record> {
    let name = secret_name(id);
    let secrets = objects.of_kind("", "Secret");
    let mut named = secrets.filter(|(key, _)| key.name.name == name);
    named.find_map(|(_, layers)| read(layers).filter(|record| record.id == id))
}

/// The writes that remove the outdated ones.
#[must_use]
pub fn removals(objects: &Objects, now: Timestamp) -> Vec<Write> {
    let secrets = objects.of_kind("", "Secret");
    let outdated =
        secrets.filter(|(_, layers)| read(layers).is_some_and(|record| record.is_outdated(now)));
    outdated
        .map(|(key, _)| Write {
            key: key.clone(),
            layer: Layer::Owned(managers::TOKEN.to_owned()),
            content: None,
        })
        .collect()
}

/// The record a Secret holds.
#[must_use]
pub fn read(layers: &Layers) -> Option<Record> {
    let secret = layers.owned.get(managers::TOKEN)?;
    let text = secret
        .pointer("/stringData/record")
        .and_then(Value::as_str)?;
    serde_json::from_str(text).ok()
}

/// Whether a token of that id may be one of a namespace. An id begins with a mark of it, so that a
/// manager that has not heard of a token yet knows where to look, and nowhere else.
#[must_use]
pub fn may_be_in(namespace: &str, id: &str) -> bool {
    let is_digit = |digit: char| digit.is_ascii_digit() || digit.is_ascii_lowercase();
    id.len() == ID && id.chars().all(is_digit) && id.starts_with(&mark(namespace))
}

/// The name of a token's Secret.
#[must_use]
pub fn secret_name(id: &str) -> String {
    format!("kedge-token-{id}")
}

/// The key of a token: seed HKDF-SHA256(secret, salt = id).
fn key(id: &str, secret: &[u8]) -> Option<Ed25519KeyPair> {
    let mut seed = [0; 32];
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, id.as_bytes());
    let pseudorandom = salt.extract(secret);
    let output = pseudorandom
        .expand(&[TOKEN_KEY_INFO], hkdf::HKDF_SHA256)
        .ok()?;
    output.fill(&mut seed).ok()?;
    Ed25519KeyPair::from_seed_unchecked(&seed).ok()
}

fn id(namespace: &str) -> Result<String, pki::NoRandomness> {
    let number = u128::from_be_bytes(pki::random::<16>()?);
    let mark = mark(namespace);
    let random = digits(number, ID - mark.len());
    Ok(mark + &random)
}

/// What the ids of a namespace's tokens begin with: one of 1296, which tells nobody its name.
fn mark(namespace: &str) -> String {
    let bytes = namespace.bytes().map(u128::from);
    digits(bytes.fold(7, |sum, byte| (sum * 31 + byte) % 46_649), MARK)
}

fn digits(mut number: u128, how_many: usize) -> String {
    let mut text = String::new();
    for _ in 0..how_many {
        let digit = u32::try_from(number % 36).unwrap_or(0);
        text.push(char::from_digit(digit, 36).unwrap_or('0'));
        number /= 36;
    }
    text
}

/// The characters of an id, and how many of them are its namespace's mark.
const ID: usize = 10;
const MARK: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_checks_proofs_but_holds_no_secret() {
        let pin = URL_SAFE_NO_PAD.encode([0; 32]);
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let (token, mut record) =
            Record::create(Role::Host, ("ns", "t"), None, (later, 1), &pin).unwrap();
        assert_eq!(token.expose().parse::<Token>().unwrap(), token);
        let secret = URL_SAFE_NO_PAD.decode(token.secret()).unwrap();
        let signature = key(token.id(), &secret).unwrap().sign(b"message");
        assert!(record.verifies(b"message", signature.as_ref()));
        assert!(!record.verifies(b"massage", signature.as_ref()));
        assert!(!record.verifies(b"message", b"short"));
        let text = serde_json::to_string(&record.write().content).unwrap();
        assert!(!text.contains(token.secret()));

        assert!(may_be_in("ns", token.id()));
        let elsewhere = (0..200).filter(|at| may_be_in(&format!("ns-{at}"), token.id()));
        assert!(elsewhere.count() < 5, "it is looked for in few places");
        for id in ["", "../../..", &token.id()[1..], &token.id().to_uppercase()] {
            assert!(!may_be_in("ns", id), "{id}");
        }
        let mut objects = Objects::default();
        objects.apply(&record.write());
        assert_eq!(all(&objects).values().collect::<Vec<_>>(), [&record]);
        assert_eq!(find(&objects, &record.id).as_ref(), Some(&record));
        assert_eq!(find(&objects, "aaaaaaaaaa"), None);
        assert_eq!(record.summary(now).state, "usable");
        assert_eq!(record.summary(later).state, "expired");
        let unreadable = Record {
            expires: "never".to_owned(),
            ..record.clone()
        };
        assert_eq!(unreadable.summary(now).state, "expired");
        record.used_by.push(Use {
            uid: "u".to_owned(),
            key_hash: "k".to_owned(),
        });
        assert_eq!(record.summary(now).state, "used-up");
        assert!(record.used_with("k").is_some());
    }
}
