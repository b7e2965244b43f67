//! The certificate authority: made once, kept in a Secret, and shown to everybody who connects.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use kedge_control::identity::{MANAGER_NAME, SpiffeId};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::meta::SYSTEM_NAMESPACE;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber,
};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use super::{SigningRequest, hash, serial};
use crate::{
    api::relay::Seal,
    clock::Clock,
    managers,
    store::{Name, ObjectKey, Store},
};

/// The certificate authority.
pub struct Authority {
    certificate: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    pin: String,
    seal: Seal,
}

impl Authority {
    /// Reads the authority, or makes it: of two managers that start at once one writes, and both
    /// use what is there afterwards.
    ///
    /// # Errors
    ///
    /// The Secret cannot be written or is corrupt. It is never replaced: every host trusts it.
    pub async fn load_or_create(store: &Store, clock: &Clock) -> Result<Self, Problem> {
        let name = Name::new(SYSTEM_NAMESPACE, NAME);
        let key = ObjectKey::new("", "Secret", name);
        let kept = store.owned(&key, managers::CA);
        let secret = match kept {
            Some(secret) => secret,
            None => store.create(key, managers::CA, make(clock)?).await?,
        };
        let text = |field: &str| {
            let value = secret.pointer(&format!("/stringData/{field}"));
            value.and_then(Value::as_str).ok_or_else(corrupt)
        };
        Self::read(text("tls.crt")?, text("tls.key")?)
    }

    fn read(certificate: &str, key: &str) -> Result<Self, Problem> {
        let key = KeyPair::from_pem(key).map_err(|error| corrupt().caused_by(&error))?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| corrupt())?;
        let pin = hash(&key.subject_public_key_info());
        let shown = x509_parser::parse_x509_certificate(&der)
            .map_err(|_| corrupt())?
            .1;
        if hash(shown.public_key().raw) != pin || !shown.is_ca() {
            return Err(corrupt().evidence("key and certificate do not belong together"));
        }
        let seal = Seal::new(&key.serialize_der()).ok_or_else(corrupt)?;
        let issuer =
            Issuer::from_ca_cert_der(&der, key).map_err(|error| corrupt().caused_by(&error))?;
        Ok(Self {
            certificate: certificate.to_owned(),
            issuer,
            pin,
            der,
            seal,
        })
    }

    /// What hosts shall trust, PEM.
    #[must_use]
    pub fn bundle(&self) -> &str {
        &self.certificate
    }

    /// The pin as it stands in tokens: SHA-256 of the public key, base64url.
    #[must_use]
    pub fn pin(&self) -> &str {
        &self.pin
    }

    /// What managers with this authority know each other by.
    #[must_use]
    pub const fn seal(&self) -> &Seal {
        &self.seal
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
        Ok(params.signed_by(&request.public_key, &self.issuer)?.pem())
    }

    /// Whether the authority signed the certificate, whatever its dates say.
    #[must_use]
    pub fn signed(&self, certificate: &CertificateDer<'_>) -> bool {
        let parsed = x509_parser::parse_x509_certificate(certificate);
        let own = x509_parser::parse_x509_certificate(&self.der);
        match (parsed, own) {
            (Ok((_, certificate)), Ok((_, own))) => {
                certificate.verify_signature(Some(own.public_key())).is_ok()
            }
            _ => false,
        }
    }

    /// The configuration of the TLS server: 1.3 only, the CA in the chain, client certificates
    /// verified but not demanded, nothing resumed.
    ///
    /// # Errors
    ///
    /// The library refuses.
    pub fn server(self: &Arc<Self>, clock: &Clock) -> Result<ServerConfig, Problem> {
        let failed = |error: &dyn std::error::Error| {
            Problem::new(Code::SysUnexpected, "the agent API cannot set up TLS").caused_by(error)
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(self.der.clone())
            .map_err(|error| failed(&error))?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| failed(&error))?;
        let resolver = ServerCertificate {
            authority: Arc::clone(self),
            clock: clock.clone(),
            current: Mutex::new(None),
        };
        if resolver.current().is_none() {
            return Err(failed(&super::NoRandomness));
        }
        let mut config = ServerConfig::builder_with_details(provider, Arc::new(clock.clone()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| failed(&error))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(resolver));
        // A resumed session restores the client's certificate without verifying it again.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn server_certificate(&self, now: SystemTime) -> Option<CertifiedKey> {
        let key = KeyPair::generate().ok()?;
        let mut params = params(MANAGER_NAME, &serial(0).ok()?, (now, SERVER_LIFE));
        params.subject_alt_names = vec![SanType::DnsName(MANAGER_NAME.try_into().ok()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).ok()?;
        // The CA stands in the chain: a client that only has a pin finds its root there.
        let chain = vec![certificate.der().clone(), self.der.clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = aws_lc_rs::default_provider();
        CertifiedKey::from_der(chain, key, &provider).ok()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("pin", &self.pin)
            .finish_non_exhaustive()
    }
}

/// The server's certificate, made anew in time. Its key is never written down.
struct ServerCertificate {
    authority: Arc<Authority>,
    clock: Clock,
    current: Mutex<Option<(SystemTime, Arc<CertifiedKey>)>>,
}

impl ServerCertificate {
    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let now = self.clock.now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, key)) = &*current
            && now
                .duration_since(*made)
                .is_ok_and(|age| age < SERVER_LIFE / 2)
        {
            return Some(Arc::clone(key));
        }
        let key = Arc::new(self.authority.server_certificate(now)?);
        *current = Some((now, Arc::clone(&key)));
        Some(key)
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerCertificate")
    }
}

/// A new authority as a Secret.
fn make(clock: &Clock) -> Result<Value, Problem> {
    let failed = |error: &dyn std::error::Error| {
        Problem::new(Code::SysUnexpected, "no certificate authority can be made").caused_by(error)
    };
    let key = KeyPair::generate().map_err(|error| failed(&error))?;
    let serial = serial(0).map_err(|error| failed(&error))?;
    let now = clock.now();
    let mut params = params("Kedge manager CA", &serial, (now, CA_LIFE));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = false;
    let certificate = params.self_signed(&key).map_err(|error| failed(&error))?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": NAME,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"clusterctl.cluster.x-k8s.io/move": ""},
        },
        "stringData": {"tls.crt": certificate.pem(), "tls.key": key.serialize_pem()},
    }))
}

/// What every certificate has; an end entity's unless changed.
fn params(name: &str, serial: &str, (from, life): (SystemTime, Duration)) -> CertificateParams {
    let mut params = CertificateParams::default();
    // Hosts' clocks run behind at times.
    params.not_before = (from - BACKDATED).into();
    params.not_after = (from + life).into();
    params.serial_number = Some(SerialNumber::from_slice(&bytes(serial)));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

/// The bytes of a hexadecimal serial, as DER wants them: without leading zeros, positive.
fn bytes(serial: &str) -> Vec<u8> {
    let number = u128::from_str_radix(serial, 16).unwrap_or(1);
    let all = number.to_be_bytes();
    all.into_iter().skip_while(|byte| *byte == 0).collect()
}

fn corrupt() -> Problem {
    Problem::new(
        Code::HostStateCorrupt,
        format!("the Secret {SYSTEM_NAMESPACE}/{NAME} does not hold the certificate authority"),
    )
    .consequence("the manager does not start: a new authority would lock every host out")
    .fix(Fix::text(
        "restore the Secret from a backup; only without any host enrolled may it be removed",
    ))
}

const NAME: &str = "kedge-manager-ca";
const BACKDATED: Duration = Duration::from_secs(300);
const SERVER_LIFE: Duration = Duration::from_secs(90 * 86_400);
const CA_LIFE: Duration = Duration::from_secs(3650 * 86_400);
