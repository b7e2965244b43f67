//! The certificate authority: made once, kept in a Secret, shown to everybody who connects, and
//! replaced by the next one without anybody being locked out ([`trust`]).

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use kedge_control::identity::{MANAGER_NAME, SpiffeId};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::meta::SYSTEM_NAMESPACE;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::{crypto::aws_lc_rs, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tracing::info;

use super::{
    SigningRequest, serial,
    trust::{self, BACKDATED, NAME, Trust, params},
};
use crate::{
    api::relay::Seal,
    clock::Clock,
    managers,
    store::{Layer, Name, ObjectKey, Store, Write},
};

/// How long the last authority is trusted beside the next one. Whoever it let in has come back by
/// then or never will: a token lives 30 days, and so long an expired certificate is recovered.
pub const OVERLAP: Duration = Duration::from_secs(31 * 86_400);

/// The certificate authority.
pub struct Authority {
    trust: RwLock<Arc<Trust>>,
    clock: Clock,
}

/// What a rotation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The pin of the authority that was in force.
    pub from: String,
    /// The pin of the one that is.
    pub to: String,
    /// Until when both are trusted.
    pub until: SystemTime,
}

impl Authority {
    /// Reads the authority, or makes it: of two managers that start at once one writes, and both
    /// use what is there afterwards.
    ///
    /// # Errors
    ///
    /// The Secret cannot be written or is corrupt. It is never replaced: every host trusts it.
    pub async fn load_or_create(store: &Store, clock: &Clock) -> Result<Self, Problem> {
        let kept = store.owned(&key(), managers::CA);
        let secret = match kept {
            Some(secret) => secret,
            None => {
                store
                    .create(key(), managers::CA, trust::first(clock.now())?)
                    .await?
            }
        };
        let trust = Trust::read(&secret)?;
        // It was made with a clock: no time before is true.
        clock.raise(trust.begins + BACKDATED);
        Ok(Self {
            trust: RwLock::new(Arc::new(trust)),
            clock: clock.clone(),
        })
    }

    /// Reads the Secret again; says whether another manager rotated it.
    ///
    /// # Errors
    ///
    /// It cannot be read, or holds no authority: the one that is known stays in force.
    pub async fn refresh(&self, store: &Store) -> Result<bool, Problem> {
        let current = store.current(&key()).await?;
        let secret = current.layers.effective();
        if secret.is_null() {
            return Ok(false);
        }
        let trust = Trust::read(&secret)?;
        let differs = trust.pin != self.pin();
        if differs {
            self.adopt(trust);
        }
        Ok(differs)
    }

    /// Puts another authority in force; this one is trusted for `overlap` beside it.
    ///
    /// # Errors
    ///
    /// The last rotation is not over, or the Secret cannot be written.
    pub async fn rotate(&self, store: &Store, overlap: Duration) -> Result<Rotation, Problem> {
        for _ in 0..TRIES {
            let current = store.current(&key()).await?;
            let trust = Trust::read(&current.layers.effective())?;
            let now = self.clock.now();
            if let Some(last) = trust.previous(now) {
                return Err(unfinished(last.until));
            }
            let until = now + overlap;
            let secret = trust.next(now, until)?;
            let next = Trust::read(&secret)?;
            let write = Write {
                key: key(),
                layer: Layer::Owned(managers::CA.to_owned()),
                content: Some(secret),
            };
            if store.write_over(write, &current).await? {
                let rotation = Rotation {
                    from: trust.pin,
                    to: next.pin.clone(),
                    until,
                };
                self.adopt(next);
                return Ok(rotation);
            }
        }
        let what =
            format!("the Secret {SYSTEM_NAMESPACE}/{NAME} changes faster than it is written");
        Err(Problem::new(Code::HostStateNotPersisted, what).consequence("nothing was changed"))
    }

    /// Whether its own certificate ends so soon that the next one is due.
    #[must_use]
    pub fn is_aging(&self) -> bool {
        let (trust, now) = (self.trust(), self.clock.now());
        trust.previous(now).is_none() && now + RENEW_BEFORE > trust.ends
    }

    fn adopt(&self, trust: Trust) {
        let (from, to) = (self.pin(), trust.pin.clone());
        info!(from, to, "the certificate authority was rotated");
        let mut known = self.trust.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(trust);
    }

    /// What is trusted now.
    #[must_use]
    pub fn trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The time certificates are judged by.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What hosts shall trust, PEM.
    #[must_use]
    pub fn bundle(&self) -> String {
        self.trust().bundle(self.clock.now())
    }

    /// The pin as it stands in tokens: SHA-256 of the public key, base64url.
    #[must_use]
    pub fn pin(&self) -> String {
        self.trust().pin.clone()
    }

    /// What managers with this authority know each other by.
    #[must_use]
    pub fn seal(&self) -> Seal {
        self.trust().seal(self.clock.now())
    }

    /// Signs a certificate for a request's key. Nothing else is taken from the request.
    ///
    /// # Errors
    ///
    /// The library refuses.
    pub fn issue(
        &self,
        request: &SigningRequest,
        identity: &SpiffeId,
        serial: &str,
        (from, life): (SystemTime, Duration),
    ) -> Result<String, rcgen::Error> {
        let uri = identity.to_string().try_into()?;
        let mut params = params(&identity.uid, serial, (from, life));
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let trust = self.trust();
        Ok(params.signed_by(&request.public_key, &trust.issuer)?.pem())
    }

    /// Whether an authority that is trusted signed the certificate, whatever its dates say.
    #[must_use]
    pub fn signed(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else {
            return false;
        };
        let trust = self.trust();
        trust.roots(self.clock.now()).any(|root| {
            let root = x509_parser::parse_x509_certificate(root);
            root.is_ok_and(|(_, root)| {
                certificate
                    .verify_signature(Some(root.public_key()))
                    .is_ok()
            })
        })
    }

    /// A certificate of the server, with the chain that leads whoever knows one authority to it.
    #[must_use]
    pub fn server_certificate(
        trust: &Trust,
        now: SystemTime,
        life: Duration,
    ) -> Option<CertifiedKey> {
        let key = KeyPair::generate().ok()?;
        let mut params = params(MANAGER_NAME, &serial(0).ok()?, (now, life));
        params.subject_alt_names = vec![SanType::DnsName(MANAGER_NAME.try_into().ok()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &trust.issuer).ok()?;
        // The CAs stand in the chain: a client that only has a pin finds its root there.
        let mut chain = vec![certificate.der().clone(), trust.der.clone()];
        if let Some(last) = trust.previous(now) {
            chain.extend([last.cross.clone(), last.der.clone()]);
        }
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = aws_lc_rs::default_provider();
        CertifiedKey::from_der(chain, key, &provider).ok()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("pin", &self.pin())
            .finish_non_exhaustive()
    }
}

fn key() -> ObjectKey {
    ObjectKey::new("", "Secret", Name::new(SYSTEM_NAMESPACE, NAME))
}

fn unfinished(until: SystemTime) -> Problem {
    let until = jiff::Timestamp::try_from(until).unwrap_or_default();
    let until = crate::clock::to_text(until);
    Problem::new(
        Code::ApiConflict,
        "the last rotation of the certificate authority is not over",
    )
    .evidence(format!("the authority before is trusted until {until}"))
    .consequence("nothing was changed: hosts that trust the one before would be locked out")
    .fix(Fix::text("rotate again after that"))
}

const TRIES: usize = 8;
/// A tenth of its life.
const RENEW_BEFORE: Duration = Duration::from_secs(365 * 86_400);
