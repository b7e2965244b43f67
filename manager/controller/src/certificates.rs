//! The certificates of sites: Secrets of tenants that HTTPLoadBalancers name.
//!
//! No other Secret is read, and nothing of one is told. On a directory they are documents like others;
//! of an API server they are asked for one by one, now and then, so that one that was renewed is
//! handed out without a restart.

mod read;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{StreamExt as _, stream};
use kedge_control::exposure::LARGEST_CERTIFICATE;
use serde_json::Value;
use tracing::{info, warn};

pub use self::read::{Read, Unfit};
use crate::store::{Name, Store};

/// What is known of a Secret that is to hold a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Missing,
    /// It holds one.
    Pair(Pair),
    /// It holds none.
    Unusable(&'static str),
    /// The API server does not let us; the rule that is missing.
    Forbidden(String),
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Pair {
    /// PEM, the site's own first.
    pub chain: String,
    /// PEM.
    pub key: String,
    /// What was read of them: every plan asks, and a key takes longer to check than the rest of a small plan.
    read: Arc<OnceLock<Result<Read, Unfit>>>,
}

impl Pair {
    /// Of a chain and a key in PEM.
    #[must_use]
    pub fn new(chain: String, key: String) -> Self {
        Self {
            chain,
            key,
            read: Arc::default(),
        }
    }

    /// What the certificate says of itself.
    ///
    /// # Errors
    ///
    /// A reason and why it cannot be served.
    pub fn read(&self) -> &Result<Read, Unfit> {
        self.read.get_or_init(|| read::read(self))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        (&self.chain, &self.key) == (&other.chain, &other.key)
    }
}

impl Eq for Pair {}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

impl Found {
    /// What a Secret holds.
    #[must_use]
    pub fn of(secret: &Value) -> Self {
        if secret.get("type").and_then(Value::as_str) != Some(TYPE) {
            return Self::Unusable("it is not of type kubernetes.io/tls");
        }
        let text = |name: &str| {
            // A name of a Secret's data holds a dot, which JSON pointers do not mind.
            let plain = secret.pointer(&format!("/stringData/{name}"));
            let plain = plain.and_then(Value::as_str).map(str::to_owned);
            plain.or_else(|| {
                let data = secret.pointer(&format!("/data/{name}"))?.as_str()?;
                String::from_utf8(STANDARD.decode(data).ok()?).ok()
            })
        };
        match (text("tls.crt"), text("tls.key")) {
            (Some(chain), Some(key)) if chain.len() + key.len() <= LARGEST_CERTIFICATE => {
                Self::Pair(Pair::new(chain, key))
            }
            (Some(_), Some(_)) => Self::Unusable("it holds more than 64 KiB"),
            _ => Self::Unusable("it has no text in tls.crt and tls.key"),
        }
    }
}

/// What is known of the Secrets.
#[derive(Debug, Default)]
pub struct Certificates {
    known: Mutex<BTreeMap<Name, (Found, Instant)>>,
}

impl Certificates {
    /// What was found last in a namespace.
    #[must_use]
    pub fn of_space(&self, space: &str) -> BTreeMap<Name, Found> {
        let known = self.lock();
        let own = known.iter().filter(|(name, _)| name.namespace == space);
        own.map(|(name, (found, _))| (name.clone(), found.clone()))
            .collect()
    }

    /// A Secret was written: it is read anew.
    pub fn forget(&self, name: &Name) {
        if let Some((_, at)) = self.lock().get_mut(name) {
            *at = at.checked_sub(PAUSE).unwrap_or(*at);
        }
    }

    /// Reads what is due; says in which namespaces anything differs.
    pub async fn look(&self, store: &Store, wanted: &BTreeSet<Name>) -> BTreeSet<String> {
        let due: Vec<Name> = {
            let mut known = self.lock();
            known.retain(|name, _| wanted.contains(name));
            let is_due = |name: &&Name| {
                let known = known.get(*name);
                known.is_none_or(|(_, at)| at.elapsed() >= PAUSE)
            };
            wanted.iter().filter(is_due).cloned().collect()
        };
        let each = due.into_iter().map(async |name| {
            let found = store.certificate(&name).await;
            found.map(|found| (name, found))
        });
        let mut read = stream::iter(each).buffer_unordered(AT_ONCE);
        let mut differ = BTreeSet::new();
        while let Some(read) = read.next().await {
            if let Some((name, found)) = read
                && self.keep(&name, found)
            {
                differ.insert(name.namespace);
            }
        }
        differ
    }

    fn keep(&self, name: &Name, found: Found) -> bool {
        let mut known = self.lock();
        if let Some((last, at)) = known.get_mut(name)
            && *last == found
        {
            *at = Instant::now();
            return false;
        }
        let last = known.get(name).map(|(found, _)| found);
        // A right that was lost takes no site its certificate; one that expires is told of.
        if let (Some(Found::Pair(_)), Found::Forbidden(rule)) = (last, &found) {
            warn!(secret = %name, rule, "the certificate of a site may be read no more");
            if let Some((_, at)) = known.get_mut(name) {
                *at = Instant::now();
            }
            return false;
        }
        match &found {
            Found::Pair(_) => info!(secret = %name, "the certificate of a site was read"),
            Found::Missing => info!(secret = %name, "the certificate of a site is not there"),
            Found::Unusable(why) => warn!(secret = %name, why, "a Secret is no certificate"),
            Found::Forbidden(rule) => {
                warn!(secret = %name, rule, "the certificate of a site may not be read");
            }
        }
        known.insert(name.clone(), (found, Instant::now()));
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, (Found, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The type of such Secrets.
pub const TYPE: &str = "kubernetes.io/tls";
/// How often a Secret is looked at.
const PAUSE: Duration = Duration::from_secs(15);
/// How many are at once.
const AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_a_certificate_by_its_type_and_its_data_and_never_shown() {
        let pair = Found::Pair(Pair::new("chain".to_owned(), "secret".to_owned()));
        let plain = json!({"type": TYPE, "stringData": {"tls.crt": "chain", "tls.key": "secret"}});
        assert_eq!(Found::of(&plain), pair);
        let data = json!({"type": TYPE, "data": {"tls.crt": STANDARD.encode("chain"),
            "tls.key": STANDARD.encode("secret")}});
        assert_eq!(Found::of(&data), pair);
        assert!(!format!("{pair:?}").contains("secret"));
        for bad in [
            json!({"type": "Opaque", "stringData": {"tls.crt": "chain", "tls.key": "secret"}}),
            json!({"type": TYPE, "stringData": {"tls.crt": "chain"}}),
            json!({"type": TYPE, "data": {"tls.crt": "!", "tls.key": "!"}}),
            json!({"type": TYPE, "stringData": {"tls.crt": "c".repeat(LARGEST_CERTIFICATE), "tls.key": "k"}}),
        ] {
            assert!(matches!(Found::of(&bad), Found::Unusable(_)), "{bad}");
        }
    }
}
