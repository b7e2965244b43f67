//! What a probed server's certificate must match.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ::aws_lc_rs::digest::{SHA256, digest};
use kedge_host::{Root, small_file};
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

fn roots(path: &Path) -> Result<RootCertStore, BadTrust> {
    let pem = small_file::open(path)
        .and_then(|(file, _)| small_file::read(file, MAX_BYTES))
        .map_err(|source| BadTrust::Unreadable {
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

/// Several times a system's whole bundle.
const MAX_BYTES: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::{fs, process::Command, sync::mpsc, thread, time::Duration};

    use super::*;

    fn told(path: PathBuf) -> String {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(roots(&path).map(drop)));
        let read = told.recv_timeout(Duration::from_secs(5));
        read.expect("an answer").unwrap_err().to_string()
    }

    #[test]
    fn only_a_file_of_a_sane_size_is_read_as_a_ca_file() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let long = dir.path().join("long");
        fs::write(&long, vec![b'x'; MAX_BYTES + 1]).unwrap();
        let empty = dir.path().join("empty");
        fs::write(&empty, "").unwrap();
        for (path, words) in [
            (pipe, "it is no file"),
            (PathBuf::from("/dev/zero"), "it is no file"),
            (long, "it has more than 1048576 bytes"),
            (empty, "holds no certificate"),
        ] {
            let told = told(path);
            assert!(told.contains(words), "{told}");
        }
    }
}
