//! What the Secret of the certificate authority holds: the one in force, and for a while the last.
//!
//! ```text
//!            rotation                                   overlap ends
//! A signs ──────┬──────────────────────────────────────────┬──────────────
//!               │ B signs; A and B are trusted             │ B alone
//!               └ B's key, signed by A: whoever knows only A finds its way to B
//! ```
//!
//! The signature of the last authority over the next one's key is why nothing has to wait: hosts
//! that were away, and tokens that pin the last one, reach the new one from the first moment. The
//! last one's key is forgotten as soon as it has given that signature.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use kedge_core::{Code, Fix, Problem};
use kedge_crd::meta::SYSTEM_NAMESPACE;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SerialNumber,
};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};

use super::{hash, serial};
use crate::{
    api::relay::{Seal, SealKey},
    clock::to_text,
};

/// The authority in force, and the last one while both are trusted.
pub struct Trust {
    /// Its certificate, PEM.
    pub certificate: String,
    /// The same.
    pub der: CertificateDer<'static>,
    /// What signs.
    pub issuer: Issuer<'static, KeyPair>,
    /// The pin as it stands in tokens.
    pub pin: String,
    /// When its own certificate ends.
    pub ends: SystemTime,
    /// When its own certificate began.
    pub begins: SystemTime,
    seal: SealKey,
    previous: Option<Previous>,
}

/// The last authority.
pub struct Previous {
    /// Its certificate, PEM.
    pub certificate: String,
    /// The same.
    pub der: CertificateDer<'static>,
    /// The key of the one in force, signed by the last.
    pub cross: CertificateDer<'static>,
    /// Until when it is trusted.
    pub until: SystemTime,
    seal: SealKey,
}

impl Trust {
    /// Reads the Secret.
    ///
    /// # Errors
    ///
    /// It holds no authority.
    pub fn read(secret: &Value) -> Result<Self, Problem> {
        let text = |field: &str| {
            let data = secret.get("stringData");
            data.and_then(|data| data.get(field)?.as_str())
        };
        let certificate = text("tls.crt").ok_or_else(corrupt)?;
        let key = text("tls.key").ok_or_else(corrupt)?;
        let key = KeyPair::from_pem(key).map_err(|error| corrupt().caused_by(&error))?;
        let der = read_certificate(certificate)?;
        let pin = hash(&key.subject_public_key_info());
        let shown = x509_parser::parse_x509_certificate(&der)
            .map_err(|_| corrupt())?
            .1;
        if hash(shown.public_key().raw) != pin || !shown.is_ca() {
            return Err(corrupt().evidence("key and certificate do not belong together"));
        }
        let at = |time: x509_parser::time::ASN1Time| {
            let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
        };
        let (begins, ends) = (
            at(shown.validity().not_before),
            at(shown.validity().not_after),
        );
        let seal = SealKey::derive(&key.serialize_der()).ok_or_else(corrupt)?;
        let previous = match text(PREVIOUS) {
            None => None,
            Some(previous) => Some(Previous {
                certificate: previous.to_owned(),
                der: read_certificate(previous)?,
                cross: read_certificate(text(CROSS).ok_or_else(corrupt)?)?,
                until: text(UNTIL)
                    .and_then(|until| until.parse::<Timestamp>().ok())
                    .ok_or_else(corrupt)?
                    .into(),
                seal: text(SEAL).and_then(SealKey::parse).ok_or_else(corrupt)?,
            }),
        };
        let issuer =
            Issuer::from_ca_cert_der(&der, key).map_err(|error| corrupt().caused_by(&error))?;
        Ok(Self {
            certificate: certificate.to_owned(),
            der,
            issuer,
            pin,
            ends,
            begins,
            seal,
            previous,
        })
    }

    /// The last authority, while it is trusted.
    #[must_use]
    pub fn previous(&self, now: SystemTime) -> Option<&Previous> {
        self.previous.as_ref().filter(|last| now < last.until)
    }

    /// What hosts shall trust, PEM: the one in force first.
    #[must_use]
    pub fn bundle(&self, now: SystemTime) -> String {
        let last = self.previous(now).map(|last| last.certificate.as_str());
        [self.certificate.as_str(), last.unwrap_or_default()].concat()
    }

    /// What managers know each other by: those that have not heard of a rotation, too.
    #[must_use]
    pub fn seal(&self, now: SystemTime) -> Seal {
        let last = self.previous(now).map(|last| &last.seal);
        Seal::new(&self.seal, last)
    }

    /// The certificates that clients' may be signed by.
    pub fn roots(&self, now: SystemTime) -> impl Iterator<Item = &CertificateDer<'static>> {
        let last = self.previous(now).map(|last| &last.der);
        [&self.der].into_iter().chain(last)
    }

    /// The Secret with another authority in force and this one beside it until then.
    ///
    /// # Errors
    ///
    /// The library or the system refuses.
    pub fn next(&self, now: SystemTime, until: SystemTime) -> Result<Value, Problem> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let number = serial(0).map_err(|error| failed(&error))?;
        // Another name than the last one's, so that who follows names finds one way.
        let name = format!("{CA_NAME} {}", number.get(16..24).unwrap_or_default());
        let own = authority(&name, &number, (now, CA_LIFE));
        let certificate = own.self_signed(&key).map_err(|error| failed(&error))?;
        let other = serial(0).map_err(|error| failed(&error))?;
        let overlap = until.duration_since(now).unwrap_or_default();
        let cross = authority(&name, &other, (now, overlap));
        let cross = cross
            .signed_by(&key, &self.issuer)
            .map_err(|error| failed(&error))?;
        let until = Timestamp::try_from(until).map_err(|error| failed(&error))?;
        let mut secret = document(&certificate.pem(), &key.serialize_pem());
        let beside = json!({"stringData": {
            PREVIOUS: self.certificate,
            CROSS: cross.pem(),
            UNTIL: to_text(until),
            SEAL: self.seal.text(),
        }});
        crate::store::merge::over(&mut secret, &beside);
        Ok(secret)
    }
}

/// A first authority as a Secret.
///
/// # Errors
///
/// The library or the system refuses.
pub fn first(now: SystemTime) -> Result<Value, Problem> {
    let key = KeyPair::generate().map_err(|error| failed(&error))?;
    let serial = serial(0).map_err(|error| failed(&error))?;
    let params = authority(CA_NAME, &serial, (now, CA_LIFE));
    let certificate = params.self_signed(&key).map_err(|error| failed(&error))?;
    Ok(document(&certificate.pem(), &key.serialize_pem()))
}

fn document(certificate: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": NAME,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"clusterctl.cluster.x-k8s.io/move": ""},
        },
        "stringData": {"tls.crt": certificate, "tls.key": key},
    })
}

fn authority(name: &str, serial: &str, life: (SystemTime, Duration)) -> CertificateParams {
    let mut params = params(name, serial, life);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = false;
    params
}

/// What every certificate has; an end entity's unless changed.
pub fn params(name: &str, serial: &str, (from, life): (SystemTime, Duration)) -> CertificateParams {
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

fn read_certificate(pem: &str) -> Result<CertificateDer<'static>, Problem> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| corrupt())
}

fn failed(error: &dyn std::error::Error) -> Problem {
    Problem::new(Code::SysUnexpected, "no certificate authority can be made").caused_by(error)
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

/// The name of the Secret.
pub const NAME: &str = "kedge-manager-ca";
/// How long certificates were valid before they were made.
pub const BACKDATED: Duration = Duration::from_secs(300);
const CA_NAME: &str = "Kedge manager CA";
const CA_LIFE: Duration = Duration::from_secs(3650 * 86_400);
const PREVIOUS: &str = "previous.crt";
const CROSS: &str = "previous.cross.crt";
const UNTIL: &str = "previous.until";
const SEAL: &str = "previous.seal";
