//! TLS between a host and a gateway, without the manager between: each proves by its certificate of
//! enrolment what it is (docs/adr/0036).
//!
//! Both certificates are a client's, since both were made for the agent API. What tells a gateway from a
//! host is the identity in it, which the manager wrote: a host cannot answer as a gateway.

use std::{io, sync::Arc};

use kedge_control::identity::{Role, SpiffeId};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    server::{
        NoServerSessionStorage, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

use super::{Client, ClientError, member::Record, tls};

/// What is spoken inside, as TLS names it.
pub const TUNNEL_PROTOCOL: &[u8] = b"kedge-tunnel/1";

/// A connection whose other end is a member of the fleet.
pub type Passage = TlsStream<TcpStream>;

/// Why there is no passage.
#[derive(Debug, thiserror::Error)]
pub enum PassageError {
    /// There is no certificate to show, or it cannot be used.
    #[error("no certificate of a manager can be shown")]
    Own(#[source] ClientError),
    /// The other end did not prove what it is, or was not content with this one.
    #[error("the TLS handshake failed")]
    Handshake(#[source] io::Error),
    /// The other end speaks something else.
    #[error("the other end does not speak `kedge-tunnel/1`")]
    Protocol,
}

impl Client {
    /// Calls the gateway at the other end of `stream`, which was reached under the name `host`.
    ///
    /// # Errors
    ///
    /// This host is not enrolled, or the other end is no gateway of the same manager.
    pub async fn call_gateway(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<Passage, PassageError> {
        let config = self.calling().map_err(PassageError::Own)?;
        // What is verified is the identity, not the name: that is for whoever passes connections on by it.
        let name = ServerName::try_from(host.to_owned())
            .or_else(|_| ServerName::try_from(GATEWAY))
            .map_err(|error| PassageError::Handshake(io::Error::other(error)))?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .map_err(PassageError::Handshake)?;
        let spoken = stream.get_ref().1.alpn_protocol() == Some(TUNNEL_PROTOCOL);
        spoken
            .then_some(TlsStream::Client(stream))
            .ok_or(PassageError::Protocol)
    }

    /// Answers the host at the other end of `stream`, and says which one it is.
    ///
    /// # Errors
    ///
    /// This gateway is not enrolled, or the other end is no host of the same manager.
    pub async fn answer_host(
        &self,
        stream: TcpStream,
    ) -> Result<(SpiffeId, Passage), PassageError> {
        let config = self.answering().map_err(PassageError::Own)?;
        let stream = TlsAcceptor::from(Arc::new(config))
            .accept(stream)
            .await
            .map_err(PassageError::Handshake)?;
        let session = stream.get_ref().1;
        if session.alpn_protocol() != Some(TUNNEL_PROTOCOL) {
            return Err(PassageError::Protocol);
        }
        let shown = session.peer_certificates().and_then(<[_]>::first);
        let host = shown.and_then(|shown| identity(shown));
        let host = host.ok_or(PassageError::Protocol)?;
        Ok((host, TlsStream::Server(stream)))
    }

    fn calling(&self) -> Result<ClientConfig, ClientError> {
        let record = self.enrolled()?;
        let gateways = Members::of(&record, Role::Gateway)?;
        let (chain, key) = tls::own(&record, &self.shared.key)?;
        let mut config = ClientConfig::builder_with_details(tls::provider(), clock(&record))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| ClientError::internal("set up TLS", error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(gateways))
            .with_client_auth_cert(chain, key)
            .map_err(|error| ClientError::internal("use the certificate", error))?;
        config.alpn_protocols = vec![TUNNEL_PROTOCOL.to_vec()];
        Ok(tls::strict(config))
    }

    fn answering(&self) -> Result<ServerConfig, ClientError> {
        let record = self.enrolled()?;
        let hosts = Members::of(&record, Role::Host)?;
        let (chain, key) = tls::own(&record, &self.shared.key)?;
        let mut config = ServerConfig::builder_with_details(tls::provider(), clock(&record))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| ClientError::internal("set up TLS", error))?
            .with_client_cert_verifier(Arc::new(hosts))
            .with_single_cert(chain, key)
            .map_err(|error| ClientError::internal("use the certificate", error))?;
        // A resumed session restores the other end's certificate without verifying it again.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        config.alpn_protocols = vec![TUNNEL_PROTOCOL.to_vec()];
        Ok(config)
    }
}

fn clock(record: &Record) -> Arc<super::clock::FlooredClock> {
    Arc::new(record.clock())
}

/// Whom a certificate names: one URI, and nothing else.
fn identity(certificate: &CertificateDer<'_>) -> Option<SpiffeId> {
    let (rest, certificate) = X509Certificate::from_der(certificate).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    match names.value.general_names.as_slice() {
        [GeneralName::URI(uri)] if rest.is_empty() && !certificate.is_ca() => uri.parse().ok(),
        _ => None,
    }
}

/// Takes the certificates of members of one role.
#[derive(Debug)]
struct Members {
    chain: Arc<dyn ClientCertVerifier>,
    role: Role,
    trust_domain: String,
}

impl Members {
    fn of(record: &Record, role: Role) -> Result<Self, ClientError> {
        let own = tls::certificates(&record.certificate)?;
        let own = own.first().and_then(|own| identity(own));
        let own = own.ok_or(ClientError::Protocol("a certificate that names nobody"))?;
        let roots: Arc<RootCertStore> = Arc::new(tls::roots(&record.ca_bundle)?);
        let chain = WebPkiClientVerifier::builder_with_provider(roots, tls::provider())
            .build()
            .map_err(|error| ClientError::internal("verify certificates", error))?;
        Ok(Self {
            chain,
            role,
            trust_domain: own.trust_domain,
        })
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        self.chain
            .verify_client_cert(certificate, intermediates, now)?;
        let member = identity(certificate);
        let is_one =
            member.is_some_and(|it| it.role == self.role && it.trust_domain == self.trust_domain);
        is_one
            .then_some(())
            .ok_or(CertificateError::ApplicationVerificationFailure.into())
    }
}

impl ServerCertVerifier for Members {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

impl ClientCertVerifier for Members {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// What a gateway is called where its own name is none that TLS takes.
const GATEWAY: &str = "kedge-gateway";

#[cfg(test)]
mod tests;
