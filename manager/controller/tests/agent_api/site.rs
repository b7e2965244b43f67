//! A manager on loopback over a copy of the demo's directory, and hosts with the real client.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use hyper::{Method, StatusCode};
use kedge_control::{
    enrol::{Facts, HostRef},
    identity::Role,
    local::{BoundTo, TokenRequest},
    report::{AddressType, HostReport, ReportedAddress, ReportedTunnel},
    token::Token,
};
use kedge_host::{
    Root,
    enrol::{Client, Settings},
    identity::IdentityKey,
    local::{MayChange, Serving, Socket, call},
    state::Store,
};
use kedge_manager_controller::{Manager, ManagerOptions, clock::Clock};
use serde_json::Value;

pub const NS: &str = "store-014";

pub struct Site {
    pub dir: tempfile::TempDir,
    pub manager: Option<Manager>,
    serving: Option<Serving>,
    /// Seconds by which the manager's clock is ahead.
    pub ahead: Arc<AtomicU64>,
    /// Seconds by which it is behind.
    pub behind: Arc<AtomicU64>,
    pub certificate_life: Duration,
}

impl Site {
    pub async fn start() -> Self {
        Self::with_life(Duration::from_secs(86_400)).await
    }

    pub async fn with_life(certificate_life: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let objects = dir.path().join("objects");
        fs::create_dir(&objects).unwrap();
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/demo");
        for entry in fs::read_dir(demo).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, objects.join(path.file_name().unwrap())).unwrap();
        }
        let mut site = Self {
            dir,
            manager: None,
            serving: None,
            ahead: Arc::default(),
            behind: Arc::default(),
            certificate_life,
        };
        site.boot().await;
        site
    }

    /// Starts the manager, or starts it again.
    pub async fn boot(&mut self) {
        self.halt().await;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut options = ManagerOptions::new(&self.objects(), any);
        let (ahead, behind) = (Arc::clone(&self.ahead), Arc::clone(&self.behind));
        options.clock = Clock::new(move || {
            let seconds = |of: &AtomicU64| Duration::from_secs(of.load(Ordering::SeqCst));
            SystemTime::now() + seconds(&ahead) - seconds(&behind)
        });
        options.certificate_life = self.certificate_life;
        let socket = Socket::bind(&self.socket()).unwrap();
        let manager = Manager::start(&options).await.unwrap();
        self.serving = Some(socket.serve(manager.routes::<MayChange>()));
        self.manager = Some(manager);
    }

    /// Ends the manager and waits until its directory is free.
    pub async fn halt(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.end(Duration::from_secs(10)).await;
        }
        if let Some(manager) = self.manager.take() {
            manager.stop().await;
        }
    }

    pub fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    /// A document of the manager's, if it is there.
    pub fn document(&self, path: &str) -> Option<Value> {
        let text = fs::read_to_string(self.objects().join(path)).ok()?;
        serde_saphyr::from_str(&text).ok()
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("run/manager.sock")
    }

    pub fn port(&self) -> u16 {
        self.manager.as_ref().unwrap().address.port()
    }

    pub fn pass(&self, time: Duration) {
        self.ahead.fetch_add(time.as_secs(), Ordering::SeqCst);
    }

    /// Asks the control socket.
    pub async fn ask(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let reply = call(&self.socket(), method, path, body).await.unwrap();
        (reply.status, reply.json().unwrap())
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, value) = self.ask(Method::GET, path, Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{value}");
        value
    }

    /// The fleet's entry of a cluster.
    pub async fn endpoint(&self, cluster: &str) -> Value {
        let list = self.get("/v1/fleet/endpoints").await;
        let items = list["items"].as_array().unwrap().clone();
        items
            .into_iter()
            .find(|item| item["cluster"] == cluster)
            .unwrap()
    }

    pub async fn token(&self, request: TokenRequest) -> Token {
        let body = serde_json::to_value(request).unwrap();
        let (status, value) = self.ask(Method::POST, "/v1/tokens", body).await;
        assert_eq!(status, StatusCode::CREATED, "{value}");
        value["token"].as_str().unwrap().parse().unwrap()
    }

    /// A host with a token of its own, bound to its ElementalHost.
    pub async fn host(&self, name: &str) -> Host {
        let token = self.token(host_token(Some(name))).await;
        Host::new(self, name, Role::Host, &token)
    }

    pub async fn gateway(&self, name: &str) -> Host {
        let request = TokenRequest {
            role: Role::Gateway,
            tenant: None,
            gateway: Some("gw".to_owned()),
            host_ref: None,
            bound_to: BoundTo::default(),
            labels: BTreeMap::new(),
            approval: None,
            ttl_seconds: None,
            max_uses: None,
        };
        let token = self.token(request).await;
        Host::new(self, name, Role::Gateway, &token)
    }
}

pub fn host_token(bound: Option<&str>) -> TokenRequest {
    TokenRequest {
        role: Role::Host,
        tenant: Some(NS.to_owned()),
        gateway: None,
        host_ref: bound.map(|name| HostRef {
            api_group: "infrastructure.cluster.x-k8s.io".to_owned(),
            kind: "ElementalHost".to_owned(),
            name: name.to_owned(),
        }),
        bound_to: BoundTo::default(),
        labels: BTreeMap::new(),
        approval: None,
        ttl_seconds: None,
        max_uses: None,
    }
}

/// A host, or a gateway instance, on this machine.
pub struct Host {
    pub dir: tempfile::TempDir,
    pub client: Client,
    pub tunnel_key: String,
}

impl Host {
    pub fn new(site: &Site, name: &str, role: Role, token: &Token) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, token.expose()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let tunnel_key = wireguard_key(name);
        let client = open(dir.path(), site.port(), name, role, &tunnel_key);
        Self {
            dir,
            client,
            tunnel_key,
        }
    }

    pub async fn enrolled(self) -> Self {
        self.client
            .ensure()
            .await
            .unwrap_or_else(|error| panic!("{error:?}"));
        self
    }

    pub fn report(&self, address: &str) -> HostReport {
        HostReport {
            boot_id: "boot".to_owned(),
            machine_id: "machine".to_owned(),
            version: "0.1.0".to_owned(),
            addresses: vec![ReportedAddress {
                kind: AddressType::InternalIP,
                address: address.to_owned(),
                interface: Some("eth0".to_owned()),
                primary: true,
                because: "default route".to_owned(),
            }],
            tunnel: Some(ReportedTunnel {
                public_key: self.tunnel_key.clone(),
                ..ReportedTunnel::default()
            }),
            ..HostReport::default()
        }
    }
}

/// A client over the state below `dir`, as a process that just started.
pub fn open(dir: &Path, port: u16, name: &str, role: Role, tunnel_key: &str) -> Client {
    let root = Root::new(dir);
    let own = match role {
        Role::Host => kedge_host::Role::Agent,
        Role::Gateway => kedge_host::Role::Gateway,
    };
    let settings = Settings {
        url: format!("https://127.0.0.1:{port}").parse().unwrap(),
        token_file: Some(dir.join("token")),
        name: name.to_owned(),
        role,
        host_ref: None,
        facts: Facts {
            hostname: name.to_owned(),
            ..Facts::default()
        },
        tunnel_key: tunnel_key.to_owned(),
    };
    let key = IdentityKey::load_or_create(&root, own).unwrap();
    let (client, problems) = Client::open(settings, key, Store::new(root.state_dir(own)));
    assert_eq!(problems, []);
    client
}

/// Some key: its letters do not matter here, only its shape.
pub fn wireguard_key(seed: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut key = [7; 32];
    for (to, from) in key.iter_mut().zip(seed.bytes()) {
        *to = from;
    }
    STANDARD.encode(key)
}

/// Waits for a level, far longer than it takes: the machine may be busy with other things.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
