//! Who a certificate names: exactly one URI SAN
//! `spiffe://<trust domain>/ns/<namespace>/<edgehost|edgegateway>/<uid>`.

use std::{fmt, str::FromStr};

/// The trust domain when none is configured.
pub const DEFAULT_TRUST_DOMAIN: &str = "kedge.local";

/// The DNS name every manager certificate carries; clients verify it whatever the URL says.
pub const MANAGER_NAME: &str = "kedge-manager";

/// The role an identity was enrolled for.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub enum Role {
    /// An edge host.
    Host,
    /// One instance of a gateway.
    Gateway,
}

impl Role {
    const fn segment(self) -> &'static str {
        match self {
            Self::Host => "edgehost",
            Self::Gateway => "edgegateway",
        }
    }
}

/// The identity a certificate proves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpiffeId {
    /// The trust domain, such as `kedge.local`.
    pub trust_domain: String,
    /// The namespace of the record.
    pub namespace: String,
    /// The kind of record.
    pub role: Role,
    /// The record's `spec.identity.uid`, a UUID made at enrolment.
    pub uid: String,
}

/// A URI of another shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an identity of Kedge")]
pub struct BadIdentity;

impl FromStr for SpiffeId {
    type Err = BadIdentity;

    /// Parses strictly: any other shape, empty segment or odd character is refused.
    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let rest = text.strip_prefix("spiffe://").ok_or(BadIdentity)?;
        let mut parts = rest.split('/');
        let mut next = || parts.next().ok_or(BadIdentity);
        let (trust_domain, ns, namespace, kind, uid) =
            (next()?, next()?, next()?, next()?, next()?);
        let role = match kind {
            "edgehost" => Role::Host,
            "edgegateway" => Role::Gateway,
            _ => return Err(BadIdentity),
        };
        let plain = |text: &str, dots: bool| {
            !text.is_empty()
                && text.len() <= 253
                && text.bytes().all(|byte| {
                    byte.is_ascii_lowercase()
                        || byte.is_ascii_digit()
                        || byte == b'-'
                        || (dots && byte == b'.')
                })
        };
        let fits = ns == "ns"
            && parts.next().is_none()
            && plain(trust_domain, true)
            && plain(namespace, false)
            && plain(uid, false);
        if !fits {
            return Err(BadIdentity);
        }
        Ok(Self {
            trust_domain: trust_domain.to_owned(),
            namespace: namespace.to_owned(),
            role,
            uid: uid.to_owned(),
        })
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trust_domain,
            namespace,
            role,
            uid,
        } = self;
        write!(
            f,
            "spiffe://{trust_domain}/ns/{namespace}/{}/{uid}",
            role.segment()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_read_back_and_other_shapes_are_refused() {
        let text = "spiffe://kedge.local/ns/tenant-a/edgehost/0b0e-11";
        assert_eq!(text.parse::<SpiffeId>().unwrap().to_string(), text);
        for bad in [
            "",
            "spiffe://",
            "https://kedge.local/ns/a/edgehost/1",
            "spiffe://kedge.local/ns/a/edgehost",
            "spiffe://kedge.local/ns/a/edgehost/",
            "spiffe://kedge.local/ns/a/edgehost/1/",
            "spiffe://kedge.local/ns/a/edgehost/1/2",
            "spiffe://kedge.local/ns//edgehost/1",
            "spiffe://kedge.local/sn/a/edgehost/1",
            "spiffe://kedge.local/ns/a/node/1",
            "spiffe://kedge.local/ns/a/edgehost/1%2f2",
            "spiffe://Kedge.local/ns/a/edgehost/1",
        ] {
            assert!(bad.parse::<SpiffeId>().is_err(), "{bad}");
        }
    }
}
