//! What a certificate says of itself, and whether its key is its own.

use jiff::Timestamp;
use rustls::{crypto::aws_lc_rs, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

use super::Pair;

/// What a certificate says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    names: Vec<String>,
    /// From when on it is good.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
}

impl Read {
    /// Whether it is for a name (RFC 6125 section 6.4.3): a wildcard stands for one label.
    pub fn carries(&self, host: &str) -> bool {
        self.names.iter().any(|name| {
            let below = name
                .strip_prefix('*')
                .filter(|below| below.starts_with('.'));
            name == host
                || below.is_some_and(|below| {
                    let label = host.strip_suffix(below);
                    label.is_some_and(|label| !label.is_empty() && !label.contains(['.', '*']))
                })
        })
    }
}

/// A reason, and why a certificate cannot be served.
pub type Unfit = (&'static str, &'static str);

/// Reads a certificate with its key: each of the chain, and that the key is the first one's.
///
/// # Errors
///
/// A reason and why it cannot be served.
pub(super) fn read(pair: &Pair) -> Result<Read, Unfit> {
    let invalid = |why| ("Invalid", why);
    let chain: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(pair.chain.as_bytes()).collect();
    let chain = chain.map_err(|_| invalid("tls.crt is no PEM"))?;
    let mut read = None;
    for der in &chain {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|_| invalid("tls.crt holds what is no certificate"))?;
        if read.is_none() {
            read = Some(
                said(&certificate).ok_or_else(|| invalid("its names or dates cannot be read"))?,
            );
        }
    }
    let read = read.ok_or_else(|| invalid("tls.crt holds no certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
    let key = key.map_err(|_| invalid("tls.key is no private key in PEM"))?;
    match CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()) {
        Ok(_) => Ok(read),
        Err(rustls::Error::InconsistentKeys(_)) => Err((
            "KeyMismatch",
            "tls.key is not the key of the certificate in tls.crt",
        )),
        Err(_) => Err(invalid("tls.key is of a kind that is not served")),
    }
}

fn said(certificate: &X509Certificate<'_>) -> Option<Read> {
    let alternative = certificate.subject_alternative_name().ok()??;
    let names = alternative.value.general_names.iter();
    let names = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let validity = certificate.validity();
    let at = |time: i64| Timestamp::from_second(time).ok();
    Some(Read {
        names: names.collect(),
        from: at(validity.not_before.timestamp())?,
        until: at(validity.not_after.timestamp())?,
    })
}
