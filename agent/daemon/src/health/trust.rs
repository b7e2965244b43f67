//! What a probed server's certificate must match.

use std::{fs, io, path::PathBuf, sync::Arc};

use ::aws_lc_rs::digest::{SHA256, digest};
use kedge_host::Root;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};

use crate::config::Trust;

/// The TLS side of a probe cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadTrust {
    #[error("the CA file {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the CA file {} holds no certificate", path.display())]
    NoCertificate { path: PathBuf },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] Error),
}

/// The TLS configuration for a probe.
pub(crate) fn client(trust: &Trust, root: &Root) -> Result<Arc<ClientConfig>, BadTrust> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match trust {
        Trust::Local => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned {
                pin: None,
                provider,
            })),
        Trust::Pin(pin) => {
            let pin = Some(*pin.digest());
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned { pin, provider }))
        }
        Trust::CaFile(path) => builder.with_root_certificates(roots(&root.locate(path))?),
    };
    Ok(Arc::new(config.with_no_client_auth()))
}

fn roots(path: &std::path::Path) -> Result<RootCertStore, BadTrust> {
    let pem = fs::read(path).map_err(|source| BadTrust::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem).flatten() {
        store.add(certificate)?;
    }
    if store.is_empty() {
        return Err(BadTrust::NoCertificate {
            path: path.to_owned(),
        });
    }
    Ok(store)
}

/// Accepts a certificate whose public key has the pinned digest, or any without a pin. The
/// handshake's signature is verified in both cases: who answers holds the key.
#[derive(Debug)]
struct Pinned {
    pin: Option<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(pin) = self.pin {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let key = digest(&SHA256, &certificate.subject_public_key_info());
            if key.as_ref() != pin {
                let mismatch = CertificateError::ApplicationVerificationFailure;
                return Err(Error::InvalidCertificate(mismatch));
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let schemes = &self.provider.signature_verification_algorithms;
        schemes.supported_schemes()
    }
}
