//! Which certificates and keys Envoy takes.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_control::site::Certificate;
use rustls::{
    SignatureAlgorithm,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use x509_parser::{parse_x509_certificate, public_key::PublicKey, x509::SubjectPublicKeyInfo};

/// A certificate as Envoy is told it: PEM without a word beside it.
pub struct Pem {
    pub chain: String,
    pub key: String,
}

/// Reads a certificate with its key.
///
/// # Errors
///
/// What is wrong with it. Nothing of the key is in there.
pub fn read(certificate: &Certificate) -> Result<Pem, &'static str> {
    let chain = CertificateDer::pem_slice_iter(certificate.chain.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| "a certificate cannot be read")?;
    if !(1..=MOST).contains(&chain.len()) {
        return Err("a certificate comes with 1 to 16 of its chain");
    }
    for (index, der) in chain.iter().enumerate() {
        let (rest, parsed) =
            parse_x509_certificate(der).map_err(|_| "a certificate cannot be read")?;
        if !rest.is_empty() {
            return Err("a certificate has something after its end");
        }
        if index == 0 {
            own(parsed.public_key())?;
            // Without the answer of its authority beside it Envoy does not take it.
            let mut extensions = parsed.extensions().iter();
            if extensions.any(|one| one.oid.to_id_string() == TLS_FEATURE) {
                return Err("a certificate that must be stapled is not served");
            }
        }
    }
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes());
    let key =
        key.map_err(|_| "a private key cannot be read; one with a passphrase cannot either")?;
    let pem = Pem {
        chain: chain.iter().map(|der| pem("CERTIFICATE", der)).collect(),
        key: pem(label(&key)?, key.secret_der()),
    };
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    let certified = certified.map_err(|_| "a private key is not that of its certificate")?;
    match certified.key.algorithm() {
        SignatureAlgorithm::RSA | SignatureAlgorithm::ECDSA => Ok(pem),
        _ => Err(ALGORITHM),
    }
}

/// What of keys Envoy takes: RSA of 2048 bits and more, ECDSA on the curves of NIST.
fn own(key: &SubjectPublicKeyInfo<'_>) -> Result<(), &'static str> {
    match key.parsed() {
        Ok(PublicKey::RSA(key)) if (2_048..=8_192).contains(&key.key_size()) => Ok(()),
        Ok(PublicKey::EC(_)) => {
            let curve = key.algorithm.parameters.as_ref();
            let curve = curve.and_then(|curve| curve.as_oid().ok());
            let curve = curve.map(|curve| curve.to_id_string());
            let is_known = curve.is_some_and(|curve| CURVES.contains(&&*curve));
            is_known.then_some(()).ok_or(ALGORITHM)
        }
        _ => Err(ALGORITHM),
    }
}

fn label(key: &PrivateKeyDer<'_>) -> Result<&'static str, &'static str> {
    match key {
        PrivateKeyDer::Pkcs1(_) => Ok("RSA PRIVATE KEY"),
        PrivateKeyDer::Sec1(_) => Ok("EC PRIVATE KEY"),
        PrivateKeyDer::Pkcs8(_) => Ok("PRIVATE KEY"),
        _ => Err("a private key cannot be read; one with a passphrase cannot either"),
    }
}

/// RFC 7468 section 3.
fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        let _ = writeln!(text, "{}", STANDARD.encode(line));
    }
    let _ = writeln!(text, "-----END {label}-----");
    text
}

const ALGORITHM: &str =
    "a certificate's key is RSA of 2048 to 8192 bits, or ECDSA on P-256, P-384 or P-521";

/// secp256r1, secp384r1, secp521r1 (RFC 5480 section 2.1.1.1).
const CURVES: [&str; 3] = ["1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"];

/// RFC 7633 section 4.
const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";

/// Certificates of one chain.
const MOST: usize = 16;
