mod link;
mod server;

use std::{fs, net::Ipv4Addr, os::unix::fs::PermissionsExt as _, path::Path};

use kedge_control::{agent::HostConfig, report::HostReport, token::Token};
use kedge_core::{Code, Coded as _};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use self::server::{Manager, Shown};
use super::*;
use crate::Root;

const NO_WAIT: Duration = Duration::ZERO;

struct Host {
    dir: tempfile::TempDir,
    url: ManagerUrl,
}

impl Host {
    fn new(port: u16, token: &Token) -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
            url: format!("https://127.0.0.1:{port}").parse().unwrap(),
        };
        host.give(token);
        host
    }

    fn give(&self, token: &Token) {
        let path = self.token_file();
        fs::write(&path, format!("{}\n", token.expose())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn token_file(&self) -> PathBuf {
        self.dir.path().join("token")
    }

    fn state(&self) -> PathBuf {
        Root::new(self.dir.path()).state_dir(crate::Role::Agent)
    }

    /// A process of its own: nothing but the disk is shared with the one before.
    fn start(&self) -> Client {
        let root = Root::new(self.dir.path());
        let key = IdentityKey::load_or_create(&root, crate::Role::Agent).unwrap();
        let (client, problems) = Client::open(self.settings(), key, Store::new(self.state()));
        assert_eq!(problems, []);
        client
    }

    fn settings(&self) -> Settings {
        Settings {
            url: self.url.clone(),
            token_file: Some(self.token_file()),
            name: "edge-a".into(),
            role: Role::Host,
            host_ref: None,
            facts: Facts::default(),
            tunnel_key: String::new(),
        }
    }
}

async fn enrolled(manager: &Manager) -> (Host, Client) {
    let host = Host::new(manager.address.port(), &manager.token);
    let client = host.start();
    client.ensure().await.unwrap();
    (host, client)
}

#[tokio::test]
async fn a_token_makes_a_member_that_reports_and_learns_what_to_do() {
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(manager.address.port(), &manager.token);
    let client = host.start();
    assert_eq!(client.member(), None);
    let early = client.report(&HostReport::default()).await.unwrap_err();
    assert!(matches!(early, ClientError::NotEnrolled));

    client.ensure().await.unwrap();
    client.ensure().await.unwrap();
    let member = client.member().unwrap();
    assert_eq!(member.path, "/kedge/v1/tenants/t/hosts/edge-a");
    assert_eq!(manager.log(), ["enrol edge-a tokenid000"]);

    let answer = client.report(&HostReport::default()).await.unwrap();
    assert_eq!(answer.generation, 1);
    let config: HostConfig = client.config(None, NO_WAIT).await.unwrap().unwrap();
    assert_eq!(config.generation, 1);
    assert_eq!(
        client.config::<HostConfig>(Some(1), NO_WAIT).await.unwrap(),
        None
    );
    manager.mood(|mood| mood.generation = 2);
    let config: HostConfig = client.config(Some(1), NO_WAIT).await.unwrap().unwrap();
    assert_eq!(config.generation, 2);

    // The next start needs neither token nor enrolment.
    fs::remove_file(host.token_file()).unwrap();
    let again = host.start();
    again.ensure().await.unwrap();
    assert_eq!(again.member(), Some(member));
    again.report(&HostReport::default()).await.unwrap();
    assert_eq!(
        manager
            .log()
            .iter()
            .filter(|line| line.starts_with("enrol"))
            .count(),
        1
    );
}

#[tokio::test]
async fn only_the_ca_the_token_pins_is_the_manager() {
    let other = Manager::start(Shown::default()).await;
    for (shown, seen) in [
        (Shown::default(), 1),
        (
            Shown {
                sends_ca: false,
                ..Shown::default()
            },
            0,
        ),
    ] {
        let manager = Manager::start(shown).await;
        let host = Host::new(manager.address.port(), &other.token);
        let error = host.start().ensure().await.unwrap_err();
        let ClientError::PinMismatch { seen: pins, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(pins.len(), seen);
        assert_eq!(error.problem().code, Code::EnrolPinMismatch);
        assert!(!format!("{error:?}").contains(other.token.secret()));
        assert_eq!(manager.log(), [""; 0], "nothing was sent");
    }
}

#[tokio::test]
async fn the_right_ca_beside_a_forged_or_misnamed_certificate_is_refused() {
    for shown in [
        Shown {
            forged: true,
            ..Shown::default()
        },
        Shown {
            name: "127.0.0.1",
            ..Shown::default()
        },
        Shown {
            name: "manager.example",
            ..Shown::default()
        },
    ] {
        let manager = Manager::start(shown).await;
        let host = Host::new(manager.address.port(), &manager.token);
        let error = host.start().ensure().await.unwrap_err();
        assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
        assert_eq!(error.problem().code, Code::EnrolPinMismatch);
        assert_eq!(manager.log(), [""; 0], "nothing was sent");
    }
}

#[tokio::test]
async fn a_member_does_not_talk_to_a_manager_of_another_ca() {
    let manager = Manager::start(Shown::default()).await;
    let (mut host, _) = enrolled(&manager).await;
    let other = Manager::start(Shown::default()).await;
    host.url = format!("https://127.0.0.1:{}", other.address.port())
        .parse()
        .unwrap();
    let error = host
        .start()
        .report(&HostReport::default())
        .await
        .unwrap_err();
    assert_eq!(error.problem().code, Code::EnrolPinMismatch);
    assert_eq!(other.log(), [""; 0]);

    // A token of that manager, put there by hand, is the administrator's word.
    let client = host.start();
    client.report(&HostReport::default()).await.unwrap_err();
    host.give(&other.new_token("tokenid001"));
    client.ensure().await.unwrap();
    client.report(&HostReport::default()).await.unwrap();
}

#[tokio::test]
async fn a_certificate_is_renewed_at_half_its_life() {
    let manager = Manager::start(Shown::default()).await;
    let day = Duration::from_secs(86_400);
    manager.mood(|mood| mood.age = day * 44 / 100);
    let (_young, client) = enrolled(&manager).await;
    client.ensure().await.unwrap();
    assert_eq!(
        client.member().unwrap().generation,
        1,
        "45 % is the earliest"
    );

    manager.mood(|mood| mood.age = day * 56 / 100);
    let (host, client) = enrolled(&manager).await;
    manager.mood(|mood| mood.age = Duration::ZERO);
    client.ensure().await.unwrap();
    assert_eq!(client.member().unwrap().generation, 2, "55 % is the latest");
    client.ensure().await.unwrap();
    assert_eq!(host.start().member().unwrap().generation, 2);
    client.report(&HostReport::default()).await.unwrap();
}

#[tokio::test]
async fn a_lost_renewal_is_asked_again_with_the_same_id() {
    let manager = Manager::start(Shown::default()).await;
    manager.mood(|mood| {
        mood.age = Duration::from_secs(60_000);
        mood.loses_answers = true;
    });
    let (host, client) = enrolled(&manager).await;
    client.ensure().await.unwrap_err();
    host.start().ensure().await.unwrap_err();
    let renewals = manager.log().split_off(1);
    assert_eq!(renewals.len(), 2);
    assert_eq!(renewals[0], renewals[1]);
    // The certificate in hand holds on.
    client.report(&HostReport::default()).await.unwrap();
    manager.mood(|mood| mood.loses_answers = false);
    client.ensure().await.unwrap();
    client.ensure().await.unwrap();
    let renewals = manager.log().split_off(4);
    assert_ne!(renewals[1], renewals[0], "the next renewal is another");
}

#[tokio::test]
async fn an_expired_certificate_is_recovered_with_the_identity_key() {
    let manager = Manager::start(Shown::default()).await;
    manager.mood(|mood| mood.age = Duration::from_secs(90_000));
    let (_host, client) = enrolled(&manager).await;
    manager.mood(|mood| mood.age = Duration::ZERO);
    client.ensure().await.unwrap();
    assert_eq!(manager.log()[1], "recover 1 edge-a");
    client.report(&HostReport::default()).await.unwrap();
}

#[tokio::test]
async fn a_forgotten_host_enrols_again_with_a_fresh_token_only() {
    let manager = Manager::start(Shown::default()).await;
    let (host, client) = enrolled(&manager).await;
    manager.mood(|mood| mood.forgets = true);
    let refused = client.report(&HostReport::default()).await.unwrap_err();
    assert_eq!(refused.problem().code, Code::ApiNotFound);
    assert!(matches!(client.ensure().await, Err(ClientError::Void)));
    // The manager remembers: nothing has to be done.
    manager.mood(|mood| mood.forgets = false);
    client.report(&HostReport::default()).await.unwrap();
    client.ensure().await.unwrap();
    manager.mood(|mood| mood.forgets = true);
    client.report(&HostReport::default()).await.unwrap_err();
    host.give(&manager.new_token("tokenid001"));
    client.ensure().await.unwrap();
    client.report(&HostReport::default()).await.unwrap();
}

#[tokio::test]
async fn a_refused_proof_is_told_with_the_managers_words() {
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(manager.address.port(), &manager.token);
    manager.new_token("tokenid001");
    let error = host.start().ensure().await.unwrap_err();
    assert_eq!(error.problem().what, "refused by the test");
}

#[tokio::test]
async fn an_identity_for_another_role_is_not_taken() {
    let manager = Manager::start(Shown::default()).await;
    manager.mood(|mood| mood.role = Role::Gateway);
    let host = Host::new(manager.address.port(), &manager.token);
    let client = host.start();
    assert!(matches!(
        client.ensure().await,
        Err(ClientError::Protocol(_))
    ));
    assert_eq!(client.member(), None);
}

#[tokio::test]
async fn silence_and_strangers_are_not_reached() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(port, &manager.token);
    let stranger = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
    });
    let error = host.start().ensure().await.unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Tls { .. } | ClientError::Unreachable { .. }
        ),
        "{error:?}"
    );
    stranger.await.unwrap();
    // The listener is gone: refused.
    let error = host.start().ensure().await.unwrap_err();
    assert_eq!(error.problem().code, Code::ApiUnreachable);
    assert!(!error.problem().evidence.is_empty());
}

#[tokio::test]
async fn a_corrupt_record_is_quarantined_and_the_generation_before_it_is_used() {
    let manager = Manager::start(Shown::default()).await;
    manager.mood(|mood| mood.age = Duration::from_secs(60_000));
    let (host, client) = enrolled(&manager).await;
    client.ensure().await.unwrap();
    drop(client);
    fs::write(host.state().join("membership.json"), "{").unwrap();
    let root = Root::new(host.dir.path());
    let key = IdentityKey::load_or_create(&root, crate::Role::Agent).unwrap();
    let (client, problems) = Client::open(host.settings(), key, Store::new(host.state()));
    assert_eq!(problems[0].code, Code::HostStateCorrupt);
    assert_eq!(client.member().unwrap().generation, 1);
}

#[test]
fn a_missing_token_is_told_by_its_own_code() {
    assert_eq!(
        token::read(Some(Path::new("/nonexistent/token")))
            .unwrap_err()
            .problem()
            .code,
        Code::EnrolTokenUnreadable
    );
}
