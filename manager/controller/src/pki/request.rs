//! Certificate signing requests: only their Ed25519 key is used.

use rcgen::{CertificateSigningRequestParams, PKCS_ED25519, PublicKey, PublicKeyData as _};
use rustls_pki_types::{CertificateSigningRequestDer, pem::PemObject as _};

use super::{hash, sha256};

/// A request whose signature verified.
pub struct SigningRequest {
    /// The key.
    pub(super) public_key: PublicKey,
    /// SHA-256 of the request's DER, as a proof signs it.
    pub digest: [u8; 32],
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It is no request.
    #[error("`csr` is no certificate signing request in PEM")]
    Shape,
    /// Its signature does not verify.
    #[error("the certificate signing request is not signed by its own key")]
    Signature,
    /// The key is of another kind.
    #[error("the certificate signing request's key is not an Ed25519 key")]
    Key,
}

impl SigningRequest {
    /// Reads a PEM request and verifies its signature.
    ///
    /// # Errors
    ///
    /// It is no such request.
    pub fn parse(pem: &str) -> Result<Self, BadRequest> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| BadRequest::Shape)?;
        let parsed =
            CertificateSigningRequestParams::from_der(&der).map_err(|error| match error {
                rcgen::Error::InvalidCertificationRequestSignature => BadRequest::Signature,
                _ => BadRequest::Shape,
            })?;
        if parsed.public_key.algorithm() != &PKCS_ED25519
            || parsed.public_key.der_bytes().len() != 32
        {
            return Err(BadRequest::Key);
        }
        Ok(Self {
            digest: sha256(&der),
            public_key: parsed.public_key,
        })
    }

    /// The key's hash, as it stands in deny lists: SHA-256 of its SubjectPublicKeyInfo.
    #[must_use]
    pub fn key_hash(&self) -> String {
        hash(&self.public_key.subject_public_key_info())
    }

    /// The key's 32 bytes.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.public_key.der_bytes()
    }

    /// The key as PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        pem(&self.public_key.subject_public_key_info())
    }
}

/// The 32 bytes of an Ed25519 public key in PEM.
#[must_use]
pub fn key_bytes(pem: &str) -> Option<Vec<u8>> {
    let key = rcgen::SubjectPublicKeyInfo::from_pem(pem).ok()?;
    (key.algorithm() == &PKCS_ED25519).then(|| key.der_bytes().to_vec())
}

/// SHA-256 of the SubjectPublicKeyInfo of a public key in PEM, as it stands in deny lists.
#[must_use]
pub fn key_hash(pem: &str) -> Option<String> {
    let key = rcgen::SubjectPublicKeyInfo::from_pem(pem).ok()?;
    Some(hash(&key.subject_public_key_info()))
}

fn pem(spki: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    // An Ed25519 SubjectPublicKeyInfo is 44 bytes: one line.
    format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(spki)
    )
}

impl std::fmt::Debug for SigningRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningRequest({})", self.key_hash())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn only_a_signed_request_for_an_ed25519_key_is_taken() {
        let request = |key: &KeyPair| {
            let params = CertificateParams::new(vec!["somebody.else".to_owned()]).unwrap();
            params.serialize_request(key).unwrap().pem().unwrap()
        };
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let good = request(&key);
        let parsed = SigningRequest::parse(&good).unwrap();
        assert_eq!(parsed.key(), key.public_key_raw());
        assert_eq!(key_bytes(&parsed.key_pem()).unwrap(), parsed.key());
        assert_eq!(parsed.key_pem(), key.public_key_pem().replace("\r\n", "\n"));
        let other = request(&KeyPair::generate().unwrap());
        assert_eq!(SigningRequest::parse(&other).unwrap_err(), BadRequest::Key);
        assert_eq!(SigningRequest::parse("x").unwrap_err(), BadRequest::Shape);
        // A changed byte is a bad shape or a bad signature, and in no case another key. The last
        // 74 bytes (algorithm, bit string, signature) are not signed themselves.
        let der = CertificateSigningRequestDer::from_pem_slice(good.as_bytes()).unwrap();
        for index in 0..der.len() {
            let mut changed = der.to_vec();
            changed[index] ^= 1;
            let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &changed);
            let text = format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n"
            );
            if let Ok(read) = SigningRequest::parse(&text) {
                assert_eq!(read.key(), parsed.key(), "byte {index}");
                assert!(index >= der.len() - 74, "byte {index} is signed");
            }
        }
    }
}
