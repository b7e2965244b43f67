//! A connection between two hosts that share a key: TLS 1.3, and a proof of the key that is bound to it.
//!
//! Nobody needs a certificate authority for that. Both ends show a certificate made for the occasion,
//! which proves nothing; then each sends an HMAC of what both derived from this very session (RFC 9266,
//! `tls-exporter`). Whoever stands between has two sessions, and no proof that fits the other.

use std::{fmt, io, sync::Arc};

use aws_lc_rs::hmac;
use rustls::{
    ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls13_signature},
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// What both ends know, and how they talk.
#[derive(Clone)]
pub struct Bond {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    key: hmac::Key,
}

/// A connection whose other end has proved that it knows the key.
pub type Stream = TlsStream<TcpStream>;

impl Bond {
    /// A bond by a key of 32 to 64 bytes.
    ///
    /// # Errors
    ///
    /// No certificate could be made, for want of randomness.
    pub fn new(key: &[u8]) -> io::Result<Self> {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(io::Error::other)?;
        let names = vec![NAME.to_owned()];
        let certificate = rcgen::CertificateParams::new(names)
            .and_then(|params| params.self_signed(&pair))
            .map_err(io::Error::other)?;
        let private =
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialized_der().to_vec()));
        let crypto = Arc::new(provider::default_provider());
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ProvedLater(Arc::clone(&crypto))))
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(crypto)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .map_err(io::Error::other)?;
        server.send_tls13_tickets = 0;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
        })
    }

    /// Talks to whoever is at the other end of `stream`.
    ///
    /// # Errors
    ///
    /// The connection broke; `PermissionDenied` when the other end does not know the key.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<Stream> {
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(&self.client))
            .connect(name, stream)
            .await?;
        self.prove(TlsStream::Client(stream), CALLER, CALLED).await
    }

    /// Answers whoever is at the other end of `stream`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Stream> {
        let stream = TlsAcceptor::from(Arc::clone(&self.server))
            .accept(stream)
            .await?;
        self.prove(TlsStream::Server(stream), CALLED, CALLER).await
    }

    /// Shows that this end knows the key, and sees that the other does.
    async fn prove(&self, mut stream: Stream, ours: u8, theirs: u8) -> io::Result<Stream> {
        let secret = [0; 32];
        let exported = match &stream {
            TlsStream::Client(stream) => {
                let (_, session) = stream.get_ref();
                session.export_keying_material(secret, LABEL, None)
            }
            TlsStream::Server(stream) => {
                let (_, session) = stream.get_ref();
                session.export_keying_material(secret, LABEL, None)
            }
        };
        let exported = exported.map_err(io::Error::other)?;
        let said = |end| [&[end][..], &exported].concat();
        stream
            .write_all(hmac::sign(&self.key, &said(ours)).as_ref())
            .await?;
        stream.flush().await?;
        let mut proof = [0; 32];
        stream.read_exact(&mut proof).await?;
        hmac::verify(&self.key, &said(theirs), &proof).map_err(|_| {
            let what = "the other end does not know the key";
            io::Error::new(io::ErrorKind::PermissionDenied, what)
        })?;
        Ok(stream)
    }
}

impl fmt::Debug for Bond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bond").finish_non_exhaustive()
    }
}

/// Takes any certificate whose key is used: who it is is proved afterwards.
#[derive(Debug)]
struct ProvedLater(Arc<CryptoProvider>);

impl ServerCertVerifier for ProvedLater {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

const NAME: &str = "kedge-peer";
const LABEL: &[u8] = b"EXPORTER-kedge-peer-link";
/// The two ends sign different words: a proof cannot be thrown back.
const CALLER: u8 = 1;
const CALLED: u8 = 2;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn meet(calling: &[u8], called: &[u8]) -> [io::Result<Stream>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (calling, called) = (Bond::new(calling).unwrap(), Bond::new(called).unwrap());
        let call = async { calling.connect(TcpStream::connect(at).await?).await };
        let answer = async { called.accept(listener.accept().await?.0).await };
        tokio::join!(call, answer).into()
    }

    #[tokio::test]
    async fn two_that_know_the_key_talk() {
        let [Ok(mut a), Ok(mut b)] = meet(&[7; 32], &[7; 32]).await else {
            panic!("they do not");
        };
        a.write_all(b"word").await.unwrap();
        a.flush().await.unwrap();
        let mut word = [0; 4];
        b.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"word");
    }

    #[tokio::test]
    async fn whoever_does_not_know_it_is_told_nothing() {
        for outcome in meet(&[7; 32], &[8; 32]).await {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[tokio::test]
    async fn who_stands_between_two_sessions_has_no_proof_for_either() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, front) = (
            listener.local_addr().unwrap(),
            between.local_addr().unwrap(),
        );
        let bond = Bond::new(&[7; 32]).unwrap();
        let stranger = Bond::new(&[8; 32]).unwrap();
        let call = async { bond.connect(TcpStream::connect(front).await?).await };
        let answer = async { bond.accept(listener.accept().await?.0).await };
        let pass_on = async {
            let (caller, _) = between.accept().await.unwrap();
            let name = ServerName::try_from(NAME).unwrap();
            let mut caller = TlsAcceptor::from(stranger.server)
                .accept(caller)
                .await
                .unwrap();
            let called = TcpStream::connect(at).await.unwrap();
            let connector = TlsConnector::from(stranger.client);
            let mut called = connector.connect(name, called).await.unwrap();
            // Both proofs, each to the other.
            let _ = tokio::io::copy_bidirectional(&mut caller, &mut called).await;
        };
        let (caller, called, ()) = tokio::join!(call, answer, pass_on);
        assert_eq!(caller.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(called.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
