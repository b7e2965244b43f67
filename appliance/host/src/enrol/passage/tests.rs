use std::time::{Duration, SystemTime};

use kedge_control::enrol::{Enrolled, Facts};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::{Root, enrol::Settings, identity::IdentityKey, state::Store};

const HOST: &str = "spiffe://kedge.local/ns/site/edgehost/11";
const GATEWAY_ID: &str = "spiffe://kedge.local/ns/kedge-system/edgegateway/22";

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// How a certificate is made.
#[derive(Clone, Copy)]
struct Shown {
    id: &'static str,
    role: Role,
    /// When it ends, in seconds from now.
    ends_in: i64,
}

impl Shown {
    const fn new(id: &'static str, role: Role) -> Self {
        Self {
            id,
            role,
            ends_in: 3_600,
        }
    }
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// A member with a certificate of this authority that trusts `trusted`.
    fn member(&self, shown: Shown, trusted: &Self) -> (tempfile::TempDir, Client) {
        let dir = tempfile::tempdir().unwrap();
        let (root, role) = (Root::new(dir.path()), crate::Role::Agent);
        let key = IdentityKey::load_or_create(&root, role).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(shown.id.try_into().unwrap())];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let now = SystemTime::now();
        let ends = Duration::from_secs(shown.ends_in.unsigned_abs());
        let ends = if shown.ends_in < 0 {
            now - ends
        } else {
            now + ends
        };
        params.not_before = (now - Duration::from_secs(7_200)).into();
        params.not_after = ends.into();
        let certificate = params.signed_by(key.pair(), &self.issuer).unwrap().pem();
        let answer = Enrolled {
            role: shown.role,
            uid: "11".to_owned(),
            name: "a".to_owned(),
            path: "/kedge/v1/tenants/t/hosts/a".to_owned(),
            certificate,
            ca_bundle: trusted.pem.clone(),
            generation: 1,
        };
        let record = Record::of(answer, "token", shown.role).unwrap();
        let store = Store::new(root.state_dir(role));
        store.save(crate::enrol::RECORD, &record).unwrap();
        let settings = Settings {
            url: "https://127.0.0.1:1".parse().unwrap(),
            token_file: None,
            name: "a".to_owned(),
            role: shown.role,
            host_ref: None,
            facts: Facts::default(),
            tunnel_key: String::new(),
        };
        let (client, problems) = Client::open(settings, key, store);
        assert_eq!(problems, []);
        (dir, client)
    }
}

async fn meet(host: &Client, gateway: &Client) -> [Result<(), PassageError>; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let call = async {
        let stream = TcpStream::connect(at).await.unwrap();
        let mut passage = host.call_gateway("gw.example", stream).await?;
        passage.write_all(b"x").await.unwrap();
        passage.flush().await.unwrap();
        // Only then is it known whether the other end was content.
        let mut byte = [0];
        let read = passage.read_exact(&mut byte).await;
        read.map(drop).map_err(PassageError::Handshake)
    };
    let answer = async {
        let (stream, _) = listener.accept().await.unwrap();
        let (who, mut passage) = gateway.answer_host(stream).await?;
        assert_eq!(who.to_string(), HOST);
        passage.write_all(b"y").await.unwrap();
        passage.flush().await.unwrap();
        let mut byte = [0];
        passage.read_exact(&mut byte).await.unwrap();
        Ok(())
    };
    let (call, answer) = tokio::join!(call, answer);
    [call, answer]
}

#[tokio::test]
async fn a_host_and_a_gateway_of_one_manager_meet() {
    let manager = Authority::new();
    let (_a, host) = manager.member(Shown::new(HOST, Role::Host), &manager);
    let (_b, gateway) = manager.member(Shown::new(GATEWAY_ID, Role::Gateway), &manager);
    let [call, answer] = meet(&host, &gateway).await;
    call.unwrap();
    answer.unwrap();
}

#[tokio::test]
async fn whoever_is_something_else_is_refused() {
    let (manager, other) = (Authority::new(), Authority::new());
    let host = Shown::new(HOST, Role::Host);
    let gateway = Shown::new(GATEWAY_ID, Role::Gateway);
    let elsewhere = Shown {
        id: "spiffe://elsewhere/ns/site/edgehost/11",
        ..host
    };
    let ended = |shown: Shown| Shown {
        ends_in: -60,
        ..shown
    };
    for (what, caller, answerer) in [
        (
            "a gateway calls",
            manager.member(gateway, &manager),
            manager.member(gateway, &manager),
        ),
        (
            "a host answers",
            manager.member(host, &manager),
            manager.member(host, &manager),
        ),
        (
            "a stranger calls",
            other.member(host, &manager),
            manager.member(gateway, &manager),
        ),
        (
            "a stranger answers",
            manager.member(host, &manager),
            other.member(gateway, &manager),
        ),
        (
            "a host of another domain",
            manager.member(elsewhere, &manager),
            manager.member(gateway, &manager),
        ),
        (
            "a certificate that ended",
            manager.member(ended(host), &manager),
            manager.member(gateway, &manager),
        ),
        (
            "a gateway's that ended",
            manager.member(host, &manager),
            manager.member(ended(gateway), &manager),
        ),
    ] {
        let [call, answer] = meet(&caller.1, &answerer.1).await;
        assert!(
            call.is_err() && answer.is_err(),
            "{what}: {call:?} {answer:?}"
        );
    }
}

#[tokio::test]
async fn who_shows_no_certificate_or_speaks_something_else_gets_nothing() {
    let manager = Authority::new();
    let (_b, gateway) = manager.member(Shown::new(GATEWAY_ID, Role::Gateway), &manager);
    let (_a, host) = manager.member(Shown::new(HOST, Role::Host), &manager);
    for with_certificate in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let config = if with_certificate {
            let mut config = host.calling().unwrap();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            config
        } else {
            let gateways = Members::of(&host.record().unwrap(), Role::Gateway).unwrap();
            let mut config = ClientConfig::builder_with_provider(tls::provider())
                .with_protocol_versions(&[&TLS13])
                .unwrap()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(gateways))
                .with_no_client_auth();
            config.alpn_protocols = vec![TUNNEL_PROTOCOL.to_vec()];
            config
        };
        let call = async {
            let stream = TcpStream::connect(at).await.unwrap();
            let name = ServerName::try_from("gw.example").unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let mut stream = connector.connect(name, stream).await?;
            stream.read_exact(&mut [0]).await
        };
        let answer = async {
            let (stream, _) = listener.accept().await.unwrap();
            gateway.answer_host(stream).await.map(drop)
        };
        let (call, answer) = tokio::join!(call, answer);
        assert!(call.is_err() && answer.is_err(), "{call:?} {answer:?}");
    }
}
