//! A manager of a few lines: real TLS, real certificates, real proofs; its moods are set by the
//! test.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use aws_lc_rs::signature::{ED25519, KeyPair as _, UnparsedPublicKey};
use axum::{
    Json, Router,
    extract::{ConnectInfo, Path, State, connect_info::Connected},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, patch, post},
    serve::{IncomingStream, Listener},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use kedge_control::{
    Document,
    enrol::{EnrolRequest, Enrolled, Proof, RecoverRequest, RenewRequest, proof_message},
    identity::Role,
    token::Token,
};
use kedge_core::{Code, Problem};
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PublicKeyData as _, SanType,
};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier, version::TLS13};
use rustls_pki_types::{CertificateSigningRequestDer, PrivateKeyDer, pem::PemObject as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::super::proof::{sha256, token_key};

/// What the manager does.
#[derive(Clone, Debug)]
pub(super) struct Mood {
    /// How old the certificates it gives are, and how long they live.
    pub(super) age: Duration,
    pub(super) life: Duration,
    /// Answers to renewals are lost.
    pub(super) loses_answers: bool,
    /// Takes no reports, and answers everything else.
    pub(super) refuses_reports: bool,
    /// Does not know the host any more.
    pub(super) forgets: bool,
    /// Enrols nobody, and says when to come again.
    pub(super) busy: Option<u32>,
    /// The role it gives out.
    pub(super) role: Role,
    /// The generation of the desired state.
    pub(super) generation: u64,
    /// What it says.
    pub(super) mtu: u16,
}

/// How the manager shows itself.
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) sends_ca: bool,
    /// The leaf is signed by somebody else.
    pub(super) forged: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            name: "kedge-manager",
            sends_ca: true,
            forged: false,
        }
    }
}

/// A running manager.
pub(super) struct Manager {
    pub(super) address: SocketAddr,
    pub(super) token: Token,
    state: Arc<Shared>,
    server: tokio::task::JoinHandle<()>,
}

struct Shared {
    ca: Issuer<'static, KeyPair>,
    ca_pem: String,
    token: Mutex<Token>,
    mood: Mutex<Mood>,
    log: Mutex<Vec<String>>,
    enrolments: Mutex<Vec<Instant>>,
    identity: Mutex<Option<Vec<u8>>>,
}

impl Manager {
    pub(super) async fn start(shown: Shown) -> Self {
        let (ca, ca_pem, pin) = authority();
        let (stranger, _, _) = authority();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![shown.name.to_owned()]).unwrap();
        let signer = if shown.forged { &stranger } else { &ca };
        let leaf = params.signed_by(&key, signer).unwrap();
        let ca_der = rustls_pki_types::CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap();
        let mut chain = vec![leaf.der().clone()];
        if shown.sends_ca {
            chain.push(ca_der.clone());
        }
        let mut roots = RootCertStore::empty();
        roots.add(ca_der).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()
                .unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();

        let token = new_token("tokenid000", &pin);
        let state = Arc::new(Shared {
            ca,
            ca_pem,
            token: Mutex::new(token.clone()),
            mood: Mutex::new(Mood {
                age: Duration::from_secs(60),
                life: Duration::from_secs(86_400),
                loses_answers: false,
                refuses_reports: false,
                forgets: false,
                busy: None,
                role: Role::Host,
                generation: 1,
                mtu: 1420,
            }),
            log: Mutex::default(),
            enrolments: Mutex::default(),
            identity: Mutex::default(),
        });
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = tcp.local_addr().unwrap();
        let listener = Secured {
            tcp,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        let server = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self {
            address,
            token,
            state,
            server,
        }
    }

    /// Makes a token with another id; the old one is of no use any more.
    pub(super) fn new_token(&self, id: &str) -> Token {
        let token = new_token(id, self.token.pin());
        *self.state.token.lock().unwrap() = token.clone();
        token
    }

    pub(super) fn mood(&self, change: impl FnOnce(&mut Mood)) {
        change(&mut self.state.mood.lock().unwrap());
    }

    /// When somebody wanted to enrol.
    pub(super) fn enrolments(&self) -> Vec<Instant> {
        self.state.enrolments.lock().unwrap().clone()
    }

    /// What was asked so far.
    pub(super) fn log(&self) -> Vec<String> {
        self.state.log.lock().unwrap().clone()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn authority() -> (Issuer<'static, KeyPair>, String, String) {
    let key = KeyPair::generate().unwrap();
    let pin = BASE64_URL_SAFE_NO_PAD.encode(sha256(&key.subject_public_key_info()));
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem, pin)
}

fn new_token(id: &str, pin: &str) -> Token {
    let secret = BASE64_URL_SAFE_NO_PAD.encode(sha256(id.as_bytes()));
    Token::new(id, &secret, pin).unwrap()
}

struct Secured {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, from) = self.tcp.accept().await.unwrap();
            if let Ok(tls) = self.acceptor.accept(stream).await {
                return (tls, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

#[derive(Clone)]
struct Caller {
    exporter: [u8; 32],
    certified: bool,
}

impl Connected<IncomingStream<'_, Secured>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Secured>) -> Self {
        let (_, tls) = stream.io().get_ref();
        Self {
            exporter: tls
                .export_keying_material([0; 32], b"EXPORTER-Channel-Binding", None)
                .unwrap(),
            certified: tls.peer_certificates().is_some(),
        }
    }
}

async fn serve(listener: Secured, state: Arc<Shared>) {
    let routes = Router::new()
        .route("/kedge/v1/enrol", post(enrol))
        .route("/kedge/v1/tenants/t/hosts/{h}/certificate", post(renew))
        .route("/kedge/v1/tenants/t/hosts/{h}/recover", post(recover))
        .route("/kedge/v1/tenants/t/hosts/{h}/config", get(config))
        .route("/kedge/v1/tenants/t/hosts/{h}", patch(report))
        .with_state(state)
        .into_make_service_with_connect_info::<Caller>();
    axum::serve(listener, routes).await.unwrap();
}

type Db = State<Arc<Shared>>;
type Who = ConnectInfo<Caller>;

async fn enrol(State(db): Db, ConnectInfo(who): Who, Json(body): Json<EnrolRequest>) -> Response {
    let token = db.token.lock().unwrap().clone();
    db.note(format!("enrol {} {}", body.name, body.proof.id));
    assert!(!who.certified, "no certificate at first contact");
    db.enrolments.lock().unwrap().push(Instant::now());
    let busy = db.mood.lock().unwrap().busy;
    if let Some(seconds) = busy {
        let after = [(header::RETRY_AFTER, seconds.to_string())];
        return (after, refuse(429, Code::ApiTooMany)).into_response();
    }
    let verifier = token_key(&token).unwrap();
    if body.proof.id != token.id()
        || !holds(&body.proof, verifier.public_key().as_ref(), &who, &body.csr)
    {
        return refuse(403, Code::EnrolProofRefused);
    }
    db.mood.lock().unwrap().forgets = false;
    (StatusCode::CREATED, db.certificate(&body.csr, 1)).into_response()
}

async fn renew(State(db): Db, ConnectInfo(who): Who, Json(body): Json<RenewRequest>) -> Response {
    assert!(who.certified);
    db.note(format!("renew {} {}", body.generation, body.renewal_id));
    if db.mood.lock().unwrap().loses_answers {
        return refuse(500, Code::SysUnexpected);
    }
    db.certificate(&body.csr, body.generation + 1)
        .into_response()
}

async fn recover(
    State(db): Db,
    ConnectInfo(who): Who,
    Path(host): Path<String>,
    Json(body): Json<RecoverRequest>,
) -> Response {
    assert!(
        !who.certified,
        "an expired certificate would fail the handshake"
    );
    db.note(format!("recover {} {}", body.generation, body.proof.id));
    let key = db.identity.lock().unwrap().clone().unwrap();
    if body.proof.id != host || !holds(&body.proof, &key, &who, &body.csr) {
        return refuse(403, Code::EnrolProofRefused);
    }
    db.certificate(&body.csr, body.generation + 1)
        .into_response()
}

async fn report(State(db): Db, ConnectInfo(who): Who, body: String) -> Response {
    assert!(who.certified);
    db.note(format!("report {body}"));
    let mood = db.mood.lock().unwrap().clone();
    if mood.forgets {
        return refuse(404, Code::ApiNotFound);
    }
    if mood.refuses_reports {
        return refuse(500, Code::SysUnexpected);
    }
    Json(serde_json::json!({ "generation": mood.generation })).into_response()
}

async fn config(State(db): Db, ConnectInfo(who): Who, headers: HeaderMap) -> Response {
    assert!(who.certified);
    let Mood {
        generation, mtu, ..
    } = db.mood.lock().unwrap().clone();
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.map(|etag| etag.to_str().unwrap().to_owned());
    db.note(format!("config {known:?}"));
    if known == Some(format!("\"{generation}\"")) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let tunnel = serde_json::json!({ "addresses": [], "mtu": mtu, "peers": [] });
    let config = serde_json::json!({
        "generation": generation, "tunnel": tunnel, "caBundle": db.ca_pem
    });
    Json(config).into_response()
}

impl Shared {
    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    fn certificate(&self, csr: &str, generation: u64) -> Json<Enrolled> {
        let mood = self.mood.lock().unwrap().clone();
        let der = CertificateSigningRequestDer::from_pem_slice(csr.as_bytes()).unwrap();
        let csr = rcgen::CertificateSigningRequestParams::from_der(&der).unwrap();
        *self.identity.lock().unwrap() = Some(csr.public_key.der_bytes().to_vec());
        let mut params = CertificateParams::default();
        let uri = "spiffe://kedge.local/ns/t/edgehost/0b0e";
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        params.not_before = (SystemTime::now() - mood.age).into();
        params.not_after = (SystemTime::now() - mood.age + mood.life).into();
        let certificate = params.signed_by(&csr.public_key, &self.ca).unwrap();
        Json(Enrolled {
            role: mood.role,
            uid: "0b0e".into(),
            name: "edge-a".into(),
            path: "/kedge/v1/tenants/t/hosts/edge-a".into(),
            certificate: certificate.pem(),
            ca_bundle: self.ca_pem.clone(),
            generation,
        })
    }
}

fn holds(proof: &Proof, key: &[u8], who: &Caller, csr: &str) -> bool {
    let der = CertificateSigningRequestDer::from_pem_slice(csr.as_bytes()).unwrap();
    let message = proof_message(proof.kind, &who.exporter, &sha256(&der));
    let signature = BASE64_URL_SAFE_NO_PAD.decode(&proof.signature).unwrap();
    UnparsedPublicKey::new(&ED25519, key)
        .verify(&message, &signature)
        .is_ok()
}

fn refuse(status: u16, code: Code) -> Response {
    let problem = Document::new(Problem::new(code, "refused by the test"));
    (StatusCode::from_u16(status).unwrap(), Json(problem)).into_response()
}
