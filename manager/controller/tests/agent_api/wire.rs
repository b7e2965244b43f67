//! A client that sends what it is told, right or wrong.

use std::{net::Ipv4Addr, sync::Arc};

use aws_lc_rs::{hkdf, signature::Ed25519KeyPair};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::SendRequest,
};
use hyper_util::rt::TokioIo;
use kedge_control::{
    enrol::{EXPORTER_LABEL, EnrolRequest, Facts, Proof, ProofKind, TOKEN_KEY_INFO, proof_message},
    identity::MANAGER_NAME,
    token::Token,
};
use rcgen::{KeyPair, PKCS_ED25519};
use rustls::{ClientConfig, RootCertStore, version::TLS13};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, pem::PemObject as _,
};
use serde_json::Value;
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

use crate::site::{Site, wireguard_key};

pub struct Wire {
    sender: SendRequest<Full<Bytes>>,
    pub exporter: [u8; 32],
}

/// A certificate and its key.
pub type Identity<'a> = (&'a str, &'a KeyPair);

impl Wire {
    pub async fn open(site: &Site, identity: Option<Identity<'_>>) -> std::io::Result<Self> {
        let manager = site.manager.as_ref().unwrap();
        let bundle = manager.world.authority.bundle();
        Self::open_trusting(site, identity, &bundle).await
    }

    /// A client at another address of this machine's loopback.
    pub async fn open_from(
        site: &Site,
        identity: Option<Identity<'_>>,
        source: Ipv4Addr,
    ) -> std::io::Result<Self> {
        let manager = site.manager.as_ref().unwrap();
        let bundle = manager.world.authority.bundle();
        Self::dial(site, identity, &bundle, source).await
    }

    /// A client that trusts these authorities alone.
    pub async fn open_trusting(
        site: &Site,
        identity: Option<Identity<'_>>,
        bundle: &str,
    ) -> std::io::Result<Self> {
        Self::dial(site, identity, bundle, Ipv4Addr::LOCALHOST).await
    }

    async fn dial(
        site: &Site,
        identity: Option<Identity<'_>>,
        bundle: &str,
        source: Ipv4Addr,
    ) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(root.unwrap()).unwrap();
        }
        // The manager's time, which tests move.
        let clock = site.manager.as_ref().unwrap().world.clock.clone();
        let builder = ClientConfig::builder_with_details(
            Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
            Arc::new(clock),
        )
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let tcp = socket.connect((Ipv4Addr::LOCALHOST, site.port()).into());
        let tcp = tcp.await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from(MANAGER_NAME).unwrap();
        let tls = TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await?;
        let exporter = tls
            .get_ref()
            .1
            .export_keying_material([0; 32], EXPORTER_LABEL, None)
            .unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { sender, exporter })
    }

    pub async fn send(&mut self, method: Method, path: &str, body: Vec<u8>) -> (StatusCode, Value) {
        self.try_send(method, path, body).await.unwrap()
    }

    pub async fn try_send(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> hyper::Result<(StatusCode, Value)> {
        let answer = self.answer(method, path, body).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    /// The answer with its headers.
    pub async fn answer(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> hyper::Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", MANAGER_NAME)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    pub async fn post(&mut self, path: &str, body: &impl serde::Serialize) -> (StatusCode, Value) {
        self.send(Method::POST, path, serde_json::to_vec(body).unwrap())
            .await
    }

    /// The first request of a host, with a proof for this connection.
    pub fn enrolment(&self, name: &str, key: &KeyPair, token: &Token) -> EnrolRequest {
        let (csr, digest) = signing_request(key);
        EnrolRequest {
            name: name.to_owned(),
            csr,
            tunnel_key: wireguard_key(name),
            host_ref: None,
            facts: Facts::default(),
            proof: prove(token, &self.exporter, &digest),
        }
    }
}

pub fn identity_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ED25519).unwrap()
}

/// A request that asks for far more than it should get, as PEM, and its digest.
pub fn signing_request(key: &KeyPair) -> (String, [u8; 32]) {
    let mut params = rcgen::CertificateParams::new(vec!["kedge-manager".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let request = params.serialize_request(key).unwrap();
    let digest = kedge_manager_controller::pki::sha256(request.der());
    (request.pem().unwrap(), digest)
}

pub fn prove(token: &Token, exporter: &[u8; 32], digest: &[u8; 32]) -> Proof {
    let secret = URL_SAFE_NO_PAD.decode(token.secret()).unwrap();
    let mut seed = [0; 32];
    hkdf::Salt::new(hkdf::HKDF_SHA256, token.id().as_bytes())
        .extract(&secret)
        .expand(&[TOKEN_KEY_INFO], hkdf::HKDF_SHA256)
        .unwrap()
        .fill(&mut seed)
        .unwrap();
    let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let message = proof_message(ProofKind::Token, exporter, digest);
    Proof {
        kind: ProofKind::Token,
        id: token.id().to_owned(),
        signature: URL_SAFE_NO_PAD.encode(key.sign(&message)),
    }
}
