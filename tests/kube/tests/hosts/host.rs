//! Hosts with the real client, each with a disk of its own.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_control::{
    agent::HostConfig,
    enrol::Facts,
    identity::{MANAGER_NAME, Role},
    report::{AddressType, HostReport, ReportAnswer, ReportedAddress, ReportedTunnel},
    token::Token,
};
use kedge_host::{
    Root,
    enrol::{ByElemental, Client, ClientError, Settings},
    identity::{IdentityKey, TunnelKey},
    link::{Link, Patience},
    state::Store,
};
use kedge_manager_controller::Manager;
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fleet::{INFRA, NS};

/// A host on this machine.
pub struct Host {
    pub client: Client,
    pub elemental: KeyPair,
    folder: TempDir,
    tunnel_key: String,
}

impl Host {
    pub fn with_token(manager: &Manager, name: &str, token: &Token) -> Self {
        let folder = tempfile::tempdir().unwrap();
        give(folder.path(), token);
        let elemental = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self::open(manager, (name, Role::Host), folder, elemental, false)
    }

    /// An instance of a gateway.
    pub fn gateway(manager: &Manager, name: &str, token: &Token) -> Self {
        let folder = tempfile::tempdir().unwrap();
        give(folder.path(), token);
        let elemental = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self::open(manager, (name, Role::Gateway), folder, elemental, false)
    }

    /// The same disk in another machine.
    pub fn copied(&self, manager: &Manager, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(self.folder.path(), folder.path());
        fs::create_dir_all(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/machine-id"), "another\n").unwrap();
        let elemental = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self::open(manager, (name, Role::Host), folder, elemental, false)
    }

    /// Asks for something that the client does not ask for by itself, with its certificate.
    pub async fn ask(
        &self,
        manager: &Manager,
        (method, path): (http::Method, &str),
        body: Value,
    ) -> (u16, Value) {
        let state = Root::new(self.folder.path()).state_dir(kedge_host::Role::Agent);
        let key = fs::read_to_string(state.join("identity.key")).unwrap();
        let member = Store::new(state).load::<Value>("membership").value.unwrap();
        let certificate = member["certificate"].as_str().unwrap();
        let url = format!("https://127.0.0.1:{}", manager.address.port());
        let mut config = kube::Config::new(url.parse().unwrap());
        let bundle = manager.world.authority.bundle();
        config.root_cert = Some(certificates(&bundle));
        config.tls_server_name = Some(MANAGER_NAME.to_owned());
        config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
        config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::builder().method(method).uri(path);
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let answer = client
            .send(request.body(body.into()).unwrap())
            .await
            .unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect_bytes().await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Forgets who it is, but for its keys, and has a token.
    pub fn begins_anew(self, manager: &Manager, name: &str, token: &Token) -> Self {
        let state = Root::new(self.folder.path()).state_dir(kedge_host::Role::Agent);
        for entry in fs::read_dir(state).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "key") {
                fs::remove_file(path).unwrap();
            }
        }
        give(self.folder.path(), token);
        Self::open(
            manager,
            (name, Role::Host),
            self.folder,
            self.elemental,
            false,
        )
    }

    /// A host with the files of Elemental's agent, and no token.
    pub fn with_elemental_key(manager: &Manager, name: &str, namespace: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self::registered(manager, name, namespace, key)
    }

    /// The same at Elemental, another one for us.
    pub fn with_another_identity(&self, manager: &Manager, name: &str) -> Self {
        let key = KeyPair::from_pem(&self.elemental.serialize_pem()).unwrap();
        Self::registered(manager, name, NS, key)
    }

    fn registered(manager: &Manager, name: &str, namespace: &str, key: KeyPair) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("oem/elemental/agent");
        fs::create_dir_all(&agent).unwrap();
        let uri = format!("https://m/elemental/v1/namespaces/{namespace}/registrations/r");
        let config = format!(
            "registration: {{uri: '{uri}', token: x}}\nagent: {{workDir: /oem/elemental/agent}}\n"
        );
        fs::write(agent.join("config.yaml"), config).unwrap();
        let path = agent.join("private.key");
        fs::write(&path, key.serialize_pem()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        Self::open(manager, (name, Role::Host), folder, key, true)
    }

    fn open(
        manager: &Manager,
        (name, role): (&str, Role),
        folder: TempDir,
        elemental: KeyPair,
        by: bool,
    ) -> Self {
        let root = Root::new(folder.path());
        let own = match role {
            Role::Host => kedge_host::Role::Agent,
            Role::Gateway => kedge_host::Role::Gateway,
        };
        let key = IdentityKey::load_or_create(&root, own).unwrap();
        // Its keys are its own, and go where its disk goes.
        let tunnel_key = TunnelKey::load_or_create(&root, own).unwrap();
        let tunnel_key = STANDARD.encode(tunnel_key.expose());
        let settings = Settings {
            url: format!("https://{}", manager.address).parse().unwrap(),
            token_file: Some(folder.path().join("token")),
            name: name.to_owned(),
            role,
            host_ref: None,
            facts: Facts {
                hostname: name.to_owned(),
                machine_id: kedge_host::identity::machine_id(&root),
                boot_id: kedge_host::identity::boot_id(),
                ..Facts::default()
            },
            tunnel_key: tunnel_key.clone(),
        };
        let by = by.then(|| ByElemental {
            root: root.clone(),
            ca_pin: manager.world.authority.pin(),
        });
        let store = Store::new(root.state_dir(own));
        let (client, problems) = Client::open_with(settings, by, key, store);
        assert_eq!(problems, []);
        Self {
            client,
            elemental,
            folder,
            tunnel_key,
        }
    }

    /// The link a real agent keeps.
    pub fn link(&self) -> Link<HostReport, HostConfig> {
        let store = Store::new(self.folder.path().join("link"));
        let patience = Patience {
            retry: Duration::from_secs(2),
            ..Patience::default()
        };
        Link::start(self.client.clone(), &store, patience)
    }

    pub async fn report(&self, address: &str) -> Result<ReportAnswer, ClientError> {
        self.reports(address, 0).await
    }

    pub async fn reports(&self, address: &str, applied: u64) -> Result<ReportAnswer, ClientError> {
        self.say(address, applied, &self.tunnel_key).await
    }

    /// Reports another tunnel key each time.
    pub async fn rotates(&self, address: &str) -> Result<ReportAnswer, ClientError> {
        self.say(address, 0, &wireguard_key()).await
    }

    async fn say(
        &self,
        address: &str,
        applied: u64,
        key: &str,
    ) -> Result<ReportAnswer, ClientError> {
        let report = HostReport {
            boot_id: "boot".to_owned(),
            machine_id: "machine".to_owned(),
            version: "0.1.0".to_owned(),
            applied_generation: applied,
            addresses: vec![ReportedAddress {
                kind: AddressType::InternalIP,
                address: address.to_owned(),
                interface: Some("eth0".to_owned()),
                primary: true,
                because: "default route".to_owned(),
            }],
            tunnel: Some(ReportedTunnel {
                public_key: key.to_owned(),
                ..ReportedTunnel::default()
            }),
            ..HostReport::default()
        };
        self.client.report(&report).await
    }
}

/// A record of Elemental's; `registered` as one that a registration made.
pub fn elemental_host(name: &str, key: &KeyPair, registered: bool) -> Value {
    let mut record = json!({"apiVersion": format!("{INFRA}/v1beta1"), "kind": "ElementalHost",
        "metadata": {"name": name, "namespace": NS,
            "labels": {"cluster.x-k8s.io/cluster-name": "a-lie"}},
        "spec": {"pubKey": key.public_key_pem()}});
    if registered {
        record["metadata"]["ownerReferences"] = json!([{"apiVersion": format!("{INFRA}/v1beta1"),
            "kind": "ElementalRegistration", "name": "r", "controller": true,
            "uid": "6f1b1a52-1f0c-4b0c-8a8a-1c1f5d3f0a11"}]);
    }
    record
}

fn give(folder: &Path, token: &Token) {
    let path = folder.join("token");
    fs::write(&path, token.expose()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The certificates of a bundle of PEM.
fn certificates(bundle: &str) -> Vec<Vec<u8>> {
    let blocks = bundle.split("-----BEGIN CERTIFICATE-----").skip(1);
    let read = blocks.map(|block| {
        let (text, _) = block.split_once("-----END").unwrap();
        STANDARD.decode(text.split_whitespace().collect::<String>())
    });
    read.map(Result::unwrap).collect()
}

fn wireguard_key() -> String {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    STANDARD.encode(key.public_key_raw())
}
