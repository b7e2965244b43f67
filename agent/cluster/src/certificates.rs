//! The certificates that Ingresses name: each Secret is asked for by its name, and no other is seen.
//!
//! A watch would need the right to list, and so to read every Secret. What is asked for by name may be
//! allowed in one namespace and not in another, and is asked for again now and then.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kedge_control::exposure::{ExposedCertificate, LARGEST_CERTIFICATE};
use kube::{Api, Client};
use tokio::time::timeout;
use tracing::debug;

use crate::{names, snapshot::Key};

/// What is known of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// It holds a certificate.
    There(ExposedCertificate),
    /// There is none of that name.
    Missing,
    /// The agent may not read it.
    Forbidden,
    /// It holds none.
    Unfit(&'static str),
}

impl Certificate {
    /// What a Secret holds.
    #[must_use]
    pub fn of(secret: &Secret) -> Self {
        if secret.type_.as_deref() != Some(TYPE) {
            return Self::Unfit("its type is not kubernetes.io/tls");
        }
        let data = secret.data.as_ref();
        let text = |key: &str| {
            let ByteString(bytes) = data?.get(key)?;
            String::from_utf8(bytes.clone()).ok()
        };
        let chain = text("tls.crt").filter(|text| text.contains("-----BEGIN CERTIFICATE-----"));
        let key = text("tls.key").filter(|text| text.contains("PRIVATE KEY-----"));
        match (chain, key) {
            (Some(chain), Some(key)) if chain.len() + key.len() > LARGEST_CERTIFICATE => {
                Self::Unfit("it has more than 64 KiB")
            }
            (Some(chain), Some(key)) => Self::There(ExposedCertificate {
                name: names::certificate(&secret.metadata),
                chain,
                key,
            }),
            (None, _) => Self::Unfit("its tls.crt is no certificate in PEM"),
            (_, None) => Self::Unfit("its tls.key is no private key in PEM"),
        }
    }
}

/// The Secrets that were asked for.
#[derive(Debug, Default)]
pub struct Certificates {
    known: BTreeMap<Key, (Certificate, Instant)>,
}

impl Certificates {
    /// Asks for these Secrets, and for no others, where nothing is known of them or what is known is
    /// older than `every`; of those that hold no certificate sooner, since somebody may be waiting.
    pub async fn ask(&mut self, client: &Client, wanted: &BTreeSet<Key>, every: Duration) {
        self.known.retain(|key, _| wanted.contains(key));
        for key in wanted {
            let known = self.known.get(key);
            let is_fresh = |(known, since): &(Certificate, Instant)| match known {
                Certificate::There(_) => since.elapsed() < every,
                _ => since.elapsed() < every.min(LACKING),
            };
            if known.is_some_and(is_fresh) {
                continue;
            }
            let secrets: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
            let Ok(answer) = timeout(ANSWER, secrets.get_opt(&key.name)).await else {
                // A cluster that does not answer is not asked for each.
                break;
            };
            let found = match answer {
                Ok(Some(secret)) => Certificate::of(&secret),
                Ok(None) => Certificate::Missing,
                // A right that is gone for a moment takes no certificate away.
                Err(kube::Error::Api(status)) if status.code == 403 && !self.holds(key) => {
                    Certificate::Forbidden
                }
                Err(error) => {
                    // What is known stays so.
                    let error = &error as &dyn std::error::Error;
                    debug!(error, secret = %key, "a Secret is not told");
                    continue;
                }
            };
            self.known.insert(key.clone(), (found, Instant::now()));
        }
    }

    /// Whether a Secret that is named holds no certificate.
    #[must_use]
    pub fn lacks(&self) -> bool {
        let mut known = self.known.values();
        known.any(|(known, _)| !matches!(known, Certificate::There(_)))
    }

    fn holds(&self, key: &Key) -> bool {
        let known = self.known.get(key);
        known.is_some_and(|(known, _)| matches!(known, Certificate::There(_)))
    }

    /// What is known.
    #[must_use]
    pub fn known(&self) -> BTreeMap<Key, Certificate> {
        let known = self.known.iter();
        known
            .map(|(key, (certificate, _))| (key.clone(), certificate.clone()))
            .collect()
    }
}

/// The type of Secrets with certificates.
const TYPE: &str = "kubernetes.io/tls";
/// How often a Secret is asked for that holds no certificate.
pub const LACKING: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(kind: &str, chain: &str, key: &str) -> Secret {
        let bytes = |text: &str| serde_json::to_value(ByteString(text.into())).unwrap();
        serde_json::from_value(json!({"type": kind,
            "metadata": {"name": "web", "namespace": "shop", "uid": "12345678-9"},
            "data": {"tls.crt": bytes(chain), "tls.key": bytes(key)}}))
        .unwrap()
    }

    #[test]
    fn a_certificate_is_taken_with_its_key_and_never_shown() {
        let chain = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN EC PRIVATE KEY-----\nsecret\n-----END EC PRIVATE KEY-----\n";
        let good = Certificate::of(&secret(TYPE, chain, key));
        let Certificate::There(found) = &good else {
            panic!("{good:?}");
        };
        assert_eq!(found.name, "kedge-tls-web.shop.12345678");
        assert!(!format!("{good:?}").contains("secret"));
        for bad in [
            secret("Opaque", chain, key),
            secret(TYPE, "", key),
            secret(TYPE, chain, "x"),
            secret(
                TYPE,
                chain,
                &format!("{key}{}", " ".repeat(LARGEST_CERTIFICATE)),
            ),
        ] {
            let found = Certificate::of(&bad);
            assert!(matches!(found, Certificate::Unfit(_)), "{found:?}");
        }
    }
}
