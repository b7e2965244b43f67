//! Whom to trust: TLS 1.3 only, the name `kedge-manager` whatever the URL says, and the CA the
//! token pins or the one that was learnt at enrolment.

use std::{fmt, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, OtherError,
    RootCertStore, SignatureScheme, WantsVerifier,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature},
    version::TLS13,
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject as _,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{ClientError, clock::FlooredClock, member::Record, proof::sha256};
use crate::identity::IdentityKey;

/// The first contact: whoever shows a CA that matches the pin is the manager.
pub(super) fn first_contact(text: &str) -> Result<Arc<ClientConfig>, ClientError> {
    let failed = || ClientError::crypto("read the pin of the manager's CA");
    let mut pin = [0; 32];
    match BASE64_URL_SAFE_NO_PAD.decode_slice(text, &mut pin) {
        Ok(32) => {}
        _ => return Err(failed()),
    }
    let verifier = PinnedCa {
        pin,
        provider: provider(),
    };
    let config = builder(FlooredClock::after(None))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(strict(config)))
}

/// A member of the fleet, with its certificate.
pub(super) fn member(record: &Record, key: &IdentityKey) -> Result<Arc<ClientConfig>, ClientError> {
    let (chain, key) = own(record, key)?;
    let config = builder(record.clock())?
        .with_root_certificates(roots(&record.ca_bundle)?)
        .with_client_auth_cert(chain, key)
        .map_err(|error| ClientError::internal("use the certificate", error))?;
    Ok(Arc::new(strict(config)))
}

/// What a member shows.
pub(super) fn own(
    record: &Record,
    key: &IdentityKey,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ClientError> {
    let chain = certificates(&record.certificate)?;
    let key = PrivatePkcs8KeyDer::from(key.pair().serialized_der().to_vec());
    Ok((chain, PrivateKeyDer::Pkcs8(key)))
}

/// A member whose certificate is of no use any more.
pub(super) fn stranger(record: &Record) -> Result<Arc<ClientConfig>, ClientError> {
    let config = builder(record.clock())?
        .with_root_certificates(roots(&record.ca_bundle)?)
        .with_no_client_auth();
    Ok(Arc::new(strict(config)))
}

/// The CA certificates of a PEM bundle; at least one.
pub(super) fn roots(bundle: &str) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(bundle)? {
        roots
            .add(certificate)
            .map_err(|error| ClientError::internal("read the CA certificates", error))?;
    }
    Ok(roots)
}

/// The certificates of a PEM text; at least one.
pub(super) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(ClientError::Protocol("no certificate where one belongs")),
        Err(error) => Err(ClientError::internal("read a certificate", error)),
    }
}

fn builder(clock: FlooredClock) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, ClientError> {
    ClientConfig::builder_with_details(provider(), Arc::new(clock))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| ClientError::internal("set up TLS", error))
}

/// No resumption: a resumed connection would restore an identity without showing it again.
pub(super) fn strict(mut config: ClientConfig) -> ClientConfig {
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Accepts the chain that contains the CA with the pinned key, and that CA alone as its root.
#[derive(Debug)]
struct PinnedCa {
    pin: [u8; 32],
    provider: Arc<CryptoProvider>,
}

/// No CA of the presented chain matches the pin.
#[derive(Debug)]
pub(super) struct PinMismatch {
    /// The pins of the CAs that were presented, as they would stand in a token.
    pub(super) seen: Vec<String>,
}

impl fmt::Display for PinMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no CA certificate with the pinned key was presented")
    }
}

impl std::error::Error for PinMismatch {}

impl PinnedCa {
    fn find<'a>(
        &self,
        chain: impl Iterator<Item = &'a CertificateDer<'a>>,
    ) -> Result<CertificateDer<'static>, PinMismatch> {
        let mut seen = Vec::new();
        for der in chain {
            let Ok((_, certificate)) = X509Certificate::from_der(der) else {
                continue;
            };
            if !certificate.is_ca() {
                continue;
            }
            let pin = sha256(certificate.public_key().raw);
            if pin == self.pin {
                return Ok(der.clone().into_owned());
            }
            seen.push(BASE64_URL_SAFE_NO_PAD.encode(pin));
        }
        Err(PinMismatch { seen })
    }
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let ca = self
            .find(intermediates.iter())
            .map_err(|mismatch| CertificateError::Other(OtherError(Arc::new(mismatch))))?;
        let mut roots = RootCertStore::empty();
        roots.add(ca)?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
