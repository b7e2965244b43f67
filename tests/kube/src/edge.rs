//! Hosts of a test: enrolled with the real client over the real agent API, their reports written by
//! the test.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_control::{
    agent::HostConfig,
    enrol::{Facts, HostRef},
    identity::Role,
    report::{AddressType, HostReport, ReportedAddress, ReportedTunnel, ReportedVip},
    token::Token,
};
use kedge_core::vip::RouterState;
use kedge_host::{
    Root,
    enrol::{Client, Settings},
    identity::IdentityKey,
    state::Store,
};
use tempfile::TempDir;
use tokio::{runtime::Handle, task::AbortHandle};

use crate::{elemental::kinds, ours::Ours};

/// An enrolled host that applies what it is told and reports it, until it is dropped.
#[derive(Debug)]
pub struct Edge {
    /// Its name.
    pub name: String,
    told: Arc<Mutex<Told>>,
    task: AbortHandle,
    _folder: TempDir,
}

/// What a host does with its desired state.
#[derive(Clone, Debug)]
struct Told {
    address: String,
    /// Whether it takes a desired state into use; else it only goes on reporting.
    obeys: bool,
    /// The state it says its VIPs are in.
    vips: RouterState,
    /// What the health probe of its VIPs says of the server behind them.
    answers: Option<bool>,
    config: Option<HostConfig>,
}

impl Edge {
    /// Enrols the host of an ElementalHost of its name.
    ///
    /// # Panics
    ///
    /// When it is not let in.
    pub async fn of_elemental(ours: &Ours, tenant: &str, name: &str, address: &str) -> Self {
        let record = HostRef {
            api_group: kinds::HOST.group.to_owned(),
            kind: kinds::HOST.kind.to_owned(),
            name: name.to_owned(),
        };
        Self::enrol(ours, tenant, name, address, Some(record)).await
    }

    /// Enrols a host; the record of the inventory it is bound to, if any.
    ///
    /// # Panics
    ///
    /// When it is not let in.
    pub async fn enrol(
        ours: &Ours,
        tenant: &str,
        name: &str,
        address: &str,
        record: Option<HostRef>,
    ) -> Self {
        let token = ours.token(tenant, record).await;
        Self::enrol_at((ours.port(), ours.spawner()), token, tenant, name, address).await
    }

    /// Enrols a host at a port of loopback; it lives on the runtime that is given.
    ///
    /// # Panics
    ///
    /// When it is not let in.
    pub async fn enrol_at(
        (port, spawner): (u16, Handle),
        token: Token,
        tenant: &str,
        name: &str,
        address: &str,
    ) -> Self {
        let (client, tunnel_key, folder) =
            enrolled(port, Role::Host, token, &format!("{tenant}/{name}")).await;
        let told = Arc::new(Mutex::new(Told {
            address: address.to_owned(),
            obeys: true,
            vips: RouterState::Backup,
            answers: None,
            config: None,
        }));
        let living = live(client, Arc::clone(&told), tunnel_key);
        Self {
            name: name.to_owned(),
            told,
            task: spawner.spawn(living).abort_handle(),
            _folder: folder,
        }
    }

    /// The state its VIPs are in from now on.
    pub fn is(&self, state: RouterState) {
        self.change(|told| told.vips = state);
    }

    /// What the health probe of its VIPs says from now on.
    pub fn answers(&self, answers: bool) {
        self.change(|told| told.answers = Some(answers));
    }

    /// The address it reports from now on.
    pub fn moves_to(&self, address: &str) {
        self.change(|told| address.clone_into(&mut told.address));
    }

    /// It goes on reporting, but takes nothing new into use.
    pub fn hangs(&self) {
        self.change(|told| told.obeys = false);
    }

    /// It takes into use what it is told again.
    pub fn obeys(&self) {
        self.change(|told| told.obeys = true);
    }

    /// The names of the VIPs it has.
    #[must_use]
    pub fn vips(&self) -> Vec<String> {
        let config = self.told().config.clone();
        let vips = config.into_iter().flat_map(|config| config.vips);
        vips.map(|vip| vip.name).collect()
    }

    /// The desired state it took into use last.
    #[must_use]
    pub fn config(&self) -> Option<HostConfig> {
        self.told().config.clone()
    }

    /// It is heard no more.
    pub fn dies(&self) {
        self.task.abort();
    }

    fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told());
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Asks, applies and reports, for good. A manager that is away is asked again.
/// Enrols with the real client at a port of loopback, as the last part of a path of names: the client, its
/// key of the tunnel, and where it keeps its own.
///
/// # Panics
///
/// When it is not let in.
pub(crate) async fn enrolled(
    port: u16,
    role: Role,
    token: Token,
    path: &str,
) -> (Client, String, TempDir) {
    let name = path.rsplit('/').next().unwrap_or(path);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, token.expose()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let tunnel_key = wireguard_key(path);
    let settings = Settings {
        url: format!("https://127.0.0.1:{port}").parse().unwrap(),
        token_file: Some(file),
        name: name.to_owned(),
        role,
        host_ref: None,
        facts: Facts {
            hostname: name.to_owned(),
            ..Facts::default()
        },
        tunnel_key: tunnel_key.clone(),
    };
    let root = Root::new(folder.path());
    let own = match role {
        Role::Gateway => kedge_host::Role::Gateway,
        _ => kedge_host::Role::Agent,
    };
    let key = IdentityKey::load_or_create(&root, own).unwrap();
    let (client, problems) = Client::open(settings, key, Store::new(root.state_dir(own)));
    assert_eq!(problems, []);
    let enrolled = client.ensure().await;
    enrolled.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    (client, tunnel_key, folder)
}

async fn live(client: Client, told: Arc<Mutex<Told>>, tunnel_key: String) {
    loop {
        let have = {
            let told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.config.as_ref().map(|config| config.generation)
        };
        let asked = client.config::<HostConfig>(have, Duration::from_millis(0));
        if let Ok(Some(config)) = asked.await {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.obeys {
                told.config = Some(config);
            }
        }
        let now = told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .report(&tunnel_key);
        _ = client.report(&now).await;
        tokio::time::sleep(PAUSE).await;
    }
}

impl Told {
    fn report(&self, tunnel_key: &str) -> HostReport {
        let vips = self.config.iter().flat_map(|config| &config.vips);
        let vips = vips.filter_map(|vip| {
            Some(ReportedVip {
                name: vip.name.to_string(),
                address: *vip.addresses.first()?,
                state: self.vips,
                since: String::new(),
                because: String::new(),
                answers: self.answers,
            })
        });
        HostReport {
            boot_id: "boot".to_owned(),
            machine_id: "machine".to_owned(),
            version: "0.1.0".to_owned(),
            applied_generation: self.config.as_ref().map_or(0, |config| config.generation),
            addresses: vec![ReportedAddress {
                kind: AddressType::InternalIP,
                address: self.address.clone(),
                interface: Some("eth0".to_owned()),
                primary: true,
                because: "default route".to_owned(),
            }],
            vips: vips.collect(),
            tunnel: Some(ReportedTunnel {
                public_key: tunnel_key.to_owned(),
                ..ReportedTunnel::default()
            }),
            ..HostReport::default()
        }
    }
}

/// Some key: two hosts never have the same.
pub(crate) fn wireguard_key(seed: &str) -> String {
    let mut key = [7_u8; 32];
    for (at, byte) in seed.bytes().enumerate() {
        key[at % 32] = key[at % 32].wrapping_mul(31).wrapping_add(byte);
    }
    STANDARD.encode(key)
}

const PAUSE: Duration = Duration::from_millis(100);
