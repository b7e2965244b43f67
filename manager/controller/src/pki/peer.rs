//! Who a client's certificate names. rustls verified its chain; this reads what it says.

use std::time::{Duration, SystemTime};

use kedge_control::identity::SpiffeId;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

/// A client with a certificate of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whom it names.
    pub identity: SpiffeId,
    /// Its serial, as kept in the record.
    pub serial: String,
    /// Its generation, proven by the serial.
    pub generation: u64,
    /// When it ends.
    pub not_after: SystemTime,
    /// SHA-256 of its SubjectPublicKeyInfo, base64url.
    pub key_hash: String,
}

/// Why a certificate names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPeer {
    /// It cannot be read.
    #[error("the certificate cannot be read")]
    Shape,
    /// It has other names than one URI.
    #[error("the certificate does not name exactly one URI")]
    Names,
    /// The URI is no identity of this trust domain.
    #[error("the certificate's URI is no identity of this manager")]
    Identity,
    /// It is for another use.
    #[error("the certificate is not for client authentication alone")]
    Usage,
    /// Its serial holds no generation.
    #[error("the certificate's serial holds no generation")]
    Serial,
}

impl Peer {
    /// Reads a certificate.
    ///
    /// # Errors
    ///
    /// It has another shape than those this manager issues.
    pub fn read(der: &[u8], trust_domain: &str) -> Result<Self, BadPeer> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| BadPeer::Shape)?;
        if !rest.is_empty() || certificate.is_ca() {
            return Err(BadPeer::Shape);
        }
        let names = certificate
            .subject_alternative_name()
            .map_err(|_| BadPeer::Names)?;
        let names = names.map(|extension| extension.value.general_names.as_slice());
        let Some([GeneralName::URI(uri)]) = names else {
            return Err(BadPeer::Names);
        };
        let identity: SpiffeId = uri.parse().map_err(|_| BadPeer::Identity)?;
        if identity.trust_domain != trust_domain {
            return Err(BadPeer::Identity);
        }
        let usage = certificate
            .extended_key_usage()
            .map_err(|_| BadPeer::Usage)?;
        let client_alone = usage.is_some_and(|usage| {
            let usage = usage.value;
            usage.client_auth && !usage.server_auth && !usage.any && usage.other.is_empty()
        });
        if !client_alone {
            return Err(BadPeer::Usage);
        }
        let mut number: u128 = 0;
        for byte in certificate.tbs_certificate.raw_serial() {
            number = number.checked_mul(256).ok_or(BadPeer::Serial)? | u128::from(*byte);
        }
        let generation = u64::try_from(number >> 64).map_err(|_| BadPeer::Serial)?;
        if generation == 0 {
            return Err(BadPeer::Serial);
        }
        let ends = certificate.validity().not_after.timestamp();
        let ends = Duration::from_secs(u64::try_from(ends).map_err(|_| BadPeer::Shape)?);
        Ok(Self {
            identity,
            serial: format!("{number:032x}"),
            generation,
            not_after: SystemTime::UNIX_EPOCH + ends,
            key_hash: super::hash(certificate.public_key().raw),
        })
    }
}
