//! The TLS server of the agent API, with whatever authority is in force.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use kedge_core::{Code, Problem};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature},
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::{Authority, trust::Trust};

/// The configuration of the TLS server: 1.3 only, the CA in the chain, client certificates
/// verified but not demanded, nothing resumed.
///
/// # Errors
///
/// The library refuses.
pub fn config(authority: &Arc<Authority>) -> Result<ServerConfig, Problem> {
    let failed = |error: &dyn std::error::Error| {
        Problem::new(Code::SysUnexpected, "the agent API cannot set up TLS").caused_by(error)
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let server = Server {
        authority: Arc::clone(authority),
        provider: Arc::clone(&provider),
        shown: Mutex::new(None),
        verifier: Mutex::new(None),
    };
    let server = Arc::new(server);
    if server.certificate().is_none() || server.verifier().is_none() {
        return Err(failed(&super::NoRandomness));
    }
    let clock = Arc::new(authority.clock().clone());
    let verifier = Arc::clone(&server);
    let mut config = ServerConfig::builder_with_details(provider, clock)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| failed(&error))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(server);
    // A resumed session restores the client's certificate without verifying it again.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.max_early_data_size = 0;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// What is shown to clients and asked of them, made anew when the authority changes and in time.
/// The key of the server's certificate is never written down.
struct Server {
    authority: Arc<Authority>,
    provider: Arc<CryptoProvider>,
    shown: Mutex<Option<(Phase, SystemTime, Arc<CertifiedKey>)>>,
    verifier: Mutex<Option<(Phase, Arc<dyn ClientCertVerifier>)>>,
}

/// Which authorities are trusted.
#[derive(Clone)]
struct Phase {
    trust: Arc<Trust>,
    overlaps: bool,
}

impl PartialEq for Phase {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.trust, &other.trust) && self.overlaps == other.overlaps
    }
}

impl Server {
    fn phase(&self, now: SystemTime) -> Phase {
        let trust = self.authority.trust();
        Phase {
            overlaps: trust.previous(now).is_some(),
            trust,
        }
    }

    fn certificate(&self) -> Option<Arc<CertifiedKey>> {
        let now = self.authority.clock().now();
        let phase = self.phase(now);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, made, key)) = &*shown
            && *of == phase
            && now
                .duration_since(*made)
                .is_ok_and(|age| age < SERVER_LIFE / 2)
        {
            return Some(Arc::clone(key));
        }
        let key = Arc::new(Authority::server_certificate(
            &phase.trust,
            now,
            SERVER_LIFE,
        )?);
        *shown = Some((phase, now, Arc::clone(&key)));
        Some(key)
    }

    fn verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        let now = self.authority.clock().now();
        let phase = self.phase(now);
        let mut known = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, verifier)) = &*known
            && *of == phase
        {
            return Some(Arc::clone(verifier));
        }
        let mut roots = RootCertStore::empty();
        for root in phase.trust.roots(now) {
            roots.add(root.clone()).ok()?;
        }
        let provider = Arc::clone(&self.provider);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .ok()?;
        *known = Some((phase, Arc::clone(&verifier)));
        Some(verifier)
    }
}

impl ResolvesServerCert for Server {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate()
    }
}

impl ClientCertVerifier for Server {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Members have one certificate: there is nothing to choose by.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verifier = self.verifier();
        let verifier =
            verifier.ok_or_else(|| Error::General("no authority is known".to_owned()))?;
        verifier.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

const SERVER_LIFE: Duration = Duration::from_secs(90 * 86_400);
