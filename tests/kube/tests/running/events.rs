//! What `kubectl describe` says happened: on which object, by which reason, and once.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use k8s_openapi::api::{core::v1::Secret, events::v1::Event};
use kedge_control::{enrol::Facts, identity::Role, token::Token};
use kedge_core::vip::RouterState;
use kedge_host::{
    Root,
    enrol::{Client as Host, ClientError, Settings},
    identity::IdentityKey,
    state::Store,
};
use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST, ELEMENTAL},
    elemental::{self, kinds},
    objects::{Kind, at, label},
};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    fleet::Fleet,
    installed::installed,
    serving::get,
    site::{BALANCER, HOST, LIMIT, POOL, Site, TENANT},
};

#[tokio::test]
async fn a_vip_that_is_acquired_moves_and_is_released_is_told_on_its_load_balancer() {
    let Some(_ours) = installed().await else {
        return;
    };
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({})).await else {
        return;
    };
    let site = &fleet.site;
    let told = Told::of(site, "LoadBalancer", "edge").await;
    told.once(site, "VIPAcquired", "Normal", "cp-a holds 10.20.14.10")
        .await;
    // Both say it for a moment, as they do when one takes over: the latest word counts.
    fleet.hosts[1].is(RouterState::Active);
    fleet.hosts[0].is(RouterState::Backup);
    site.until("it is told that it moved", async || {
        let moved = told.all("VIPMoved").await;
        let again = told.all("VIPAcquired").await;
        // Whichever of the two words was heard first.
        moved.iter().any(|event| note(event).contains("to cp-b"))
            || !again.is_empty() && times(&again[0]) > 1
    })
    .await;
    fleet.hosts[1].is(RouterState::Backup);
    told.once(
        site,
        "VIPReleased",
        "Warning",
        "does not hold 10.20.14.10 any more",
    )
    .await;
}

#[tokio::test]
async fn a_pool_that_is_used_up_is_told_on_the_pool_and_on_who_waits() {
    let Some(_ours) = installed().await else {
        return;
    };
    let Some(site) = Site::new().await else {
        return;
    };
    let small = json!({"spec": {"addresses": ["10.20.15.10"], "prefix": 24}});
    site.create(POOL, "small", small).await;
    for name in ["one", "two"] {
        let spec = json!({"spec": {"clusterName": name, "mode": "VIP",
            "vip": {"poolRef": {"name": "small"}}}});
        site.create(BALANCER, name, spec).await;
        let infra = json!({"spec": {}});
        _ = Cluster::bare(&site.client, &site.space, name, EDGE_TEST, infra, json!({})).await;
        if name == "one" {
            site.says("one", "EndpointPublished", "True").await;
        }
    }
    let waits = Told::of(&site, "LoadBalancer", "two").await;
    let event = waits.once(&site, "PoolExhausted", "Warning", "small").await;
    assert_eq!(event.action.as_deref(), Some("Reconcile"));
    let pool = Told::of(&site, "VIPPool", "small").await;
    pool.once(&site, "NoneFree", "Warning", "none of its 1 addresses")
        .await;
    site.merge(
        POOL,
        "small",
        json!({"spec": {"addresses": ["10.20.15.10-10.20.15.11"]}}),
    )
    .await;
    waits
        .once(&site, "Published", "Normal", "EndpointPublished: ")
        .await;
}

#[tokio::test]
async fn what_hosts_ask_for_is_told_on_their_records_and_never_with_a_secret() {
    let Some(ours) = installed().await else {
        return;
    };
    let Some(site) = Site::new().await else {
        return;
    };
    let token = ours.token(&site.space, None).await;
    let machine = Machine::new(&token);
    // A manager that has not heard of its token yet is asked again.
    site.until("it is enrolled", async || {
        machine.host(&site).ensure().await.is_ok()
    })
    .await;
    let host = Told::of(&site, "EdgeHost", "edge-a").await;
    let enrolled = site.get(HOST, "edge-a").await.unwrap();

    // Its token is used up, and somebody comes with it.
    let stranger = Machine::new(&token);
    let tenant = Told::of(&site, "Tenant", &site.space).await;
    // One of many is told each ten seconds, whoever they are about.
    let begun = Instant::now();
    while tenant.all("EnrolmentDenied").await.is_empty() {
        assert!(begun.elapsed() < LIMIT, "it is not told");
        refused(stranger.named(&site, "edge-b").ensure().await, 403);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let event = tenant
        .once(&site, "EnrolmentDenied", "Warning", "KEDGE-ENR-")
        .await;
    assert_eq!(event.action.as_deref(), Some("Request"));

    // Half of its life is over, and there is a copy of its disk.
    let conflicts = async || {
        let (_, text) = get(ours.observed().await, "/metrics").await;
        let mut counts = text
            .lines()
            .filter_map(|line| line.strip_prefix("kedge_identity_conflicts_total "));
        counts.next().unwrap().parse::<u64>().unwrap()
    };
    let before = conflicts().await;
    let clone = machine.copy();
    machine.remember(&json!({"renewAt": 0.0}));
    machine.host(&site).ensure().await.unwrap();
    host.once(&site, "CertificateRenewed", "Normal", "generation 2")
        .await;
    clone.remember(&json!({"renewAt": 0.0}));
    for _ in 0..3 {
        refused(clone.host(&site).ensure().await, 409);
    }
    // Two words, in whichever order: what it asked for, which is counted, and what its record says
    // from now on.
    site.until(
        "a conflict is told, and what happens again is counted",
        async || {
            let all = host.all("IdentityConflict").await;
            let asked = all.iter().find(|event| is(event, "Request"));
            let says = all.iter().find(|event| is(event, "Reconcile"));
            asked.is_some_and(|event| times(event) == 3 && note(event).contains("KEDGE-API-0005"))
                && says.is_some_and(|event| note(event).starts_with("IdentityUnique: two machines"))
                && all.len() == 2
                && all
                    .iter()
                    .all(|event| event.type_.as_deref() == Some("Warning"))
        },
    )
    .await;

    assert_eq!(conflicts().await, before + 3, "each is counted");

    // It was off for long; and somebody without its key says so too.
    let thief = machine.copy();
    fs::remove_file(thief.key()).unwrap();
    for one in [&thief, &machine] {
        one.remember(&json!({"notAfter": 0}));
    }
    refused(thief.host(&site).ensure().await, 401);
    host.once(&site, "AuthRejected", "Warning", "KEDGE-API-")
        .await;
    machine.host(&site).ensure().await.unwrap();
    host.once(&site, "IdentityRecovered", "Normal", "generation 3")
        .await;

    // The store goes back to before all that.
    let identity = &enrolled.data["spec"]["identity"];
    site.merge(HOST, "edge-a", json!({"spec": {"identity": identity}}))
        .await;
    site.until("the manager knows no better", async || {
        let now = site.get(HOST, "edge-a").await.unwrap();
        let all = at(&now, "/status/conditions").as_array().cloned();
        let current = |it: &Value| it["observedGeneration"].as_i64() == now.metadata.generation;
        all.is_some_and(|all| all.iter().all(current))
    })
    .await;
    machine.remember(&json!({"renewAt": 0.0}));
    machine.host(&site).ensure().await.unwrap();
    host.once(&site, "IdentityRepaired", "Normal", "the store is older")
        .await;
    no_secrets(&site, &[&machine, &clone, &thief]).await;
}

#[tokio::test]
async fn a_record_that_is_reserved_is_told_and_again_when_somebody_takes_the_mark_off() {
    let Some(_ours) = installed().await else {
        return;
    };
    let Some(site) = Site::new().await else {
        return;
    };
    // The address of the one that is enrolled becomes the endpoint; no machine may take the other.
    site.install("host-a").await;
    let host = site.host("host-b", "10.20.14.32").await;
    let asks = json!({"metadata": {"annotations": site.asks("HostAddress")}, "spec": {}});
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::with(client, space, "edge", ELEMENTAL, asks, json!({})).await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    let record = Told::of(&site, "ElementalHost", "host-a").await;
    let says = "no machine takes it until a control plane is initialized";
    let event = record.once(&site, "HostReserved", "Normal", says).await;
    assert_eq!(event.action.as_deref(), Some("Reserve"));
    let count = times(&event);
    let off = json!({"metadata": {"labels": {elemental::MACHINE_NAME: null}}});
    site.merge(kinds::HOST, "host-a", off).await;
    site.until("it is marked again, and told again", async || {
        let object = site.get(kinds::HOST, "host-a").await.unwrap();
        let told = record.all("HostReserved").await;
        label(&object, elemental::MACHINE_NAME) == "kedge-reserved"
            && told.len() == 1
            && times(&told[0]) > count
    })
    .await;
    drop(host);
}

/// The events about an object.
struct Told {
    events: Api<Event>,
    kind: Kind,
    name: String,
    uid: String,
}

impl Told {
    async fn of(site: &Site, kind: &str, name: &str) -> Self {
        let of_kind = [BALANCER, POOL, HOST, TENANT, kinds::HOST].into_iter();
        let of_kind = of_kind.into_iter().find(|it| it.kind == kind).unwrap();
        // What has no namespace is told about in the default one.
        let (object, space) = if kind == "Tenant" {
            (of_kind.everywhere(&site.client).get(name).await, "default")
        } else {
            (
                of_kind.of(&site.client, &site.space).get(name).await,
                site.space.as_str(),
            )
        };
        Self {
            events: Api::namespaced(site.client.clone(), space),
            kind: of_kind,
            name: name.to_owned(),
            uid: object.unwrap().metadata.uid.unwrap(),
        }
    }

    /// Those with a reason, told about this very object.
    async fn all(&self, reason: &str) -> Vec<Event> {
        let wanted = format!("reason={reason},regarding.uid={}", self.uid);
        let all = self
            .events
            .list(&ListParams::default().fields(&wanted))
            .await;
        let all = all.unwrap().items;
        for event in &all {
            let about = event.regarding.as_ref().unwrap();
            assert_eq!(about.kind.as_deref(), Some(self.kind.kind));
            assert_eq!(about.name.as_deref(), Some(self.name.as_str()));
            let version = self.kind.api_version();
            assert_eq!(about.api_version.as_deref(), Some(version.as_str()));
            assert_eq!(event.reporting_controller.as_deref(), Some("kedge-manager"));
        }
        all
    }

    /// Waits until there is one, and sees that it is the only one.
    async fn once(&self, site: &Site, reason: &str, kind: &str, says: &str) -> Event {
        let what = format!("{} {}: {reason}", self.kind.kind, self.name);
        site.until(&what, async || !self.all(reason).await.is_empty())
            .await;
        let all = self.all(reason).await;
        assert_eq!(all.len(), 1, "{what}: {all:#?}");
        let event = all.into_iter().next().unwrap();
        assert_eq!(event.type_.as_deref(), Some(kind), "{what}");
        assert!(note(&event).contains(says), "{what}: {}", note(&event));
        event
    }
}

fn note(event: &Event) -> &str {
    event.note.as_deref().unwrap_or_default()
}

/// It is of this action.
fn is(event: &Event, action: &str) -> bool {
    event.action.as_deref() == Some(action)
}

/// How often it happened.
fn times(event: &Event) -> i32 {
    event.series.as_ref().map_or(1, |series| series.count)
}

fn refused(said: Result<(), ClientError>, wanted: u16) {
    match said {
        Err(ClientError::Refused { status, .. }) if status == wanted => {}
        other => panic!("{wanted}: {other:?}"),
    }
}

/// The disk of a machine that enrols, renews and recovers with the real client.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new(token: &Token) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, token.expose()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Self { folder }
    }

    /// Another machine with the same disk.
    fn copy(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(self.folder.path(), folder.path());
        Self { folder }
    }

    /// It starts.
    fn host(&self, site: &Site) -> Host {
        self.named(site, "edge-a")
    }

    fn named(&self, site: &Site, name: &str) -> Host {
        let root = self.root();
        let settings = Settings {
            url: format!("https://127.0.0.1:{}", site.ours.port())
                .parse()
                .unwrap(),
            token_file: Some(self.folder.path().join("token")),
            name: name.to_owned(),
            role: Role::Host,
            host_ref: None,
            facts: Facts {
                hostname: name.to_owned(),
                ..Facts::default()
            },
            tunnel_key: "RVtPi0EwGgl9qxa0eF2SFlaQgfeytGBw9MGsPqlFC1M=".to_owned(),
        };
        let key = IdentityKey::load_or_create(&root, kedge_host::Role::Agent).unwrap();
        let (host, problems) = Host::open(settings, key, self.state());
        assert_eq!(problems, []);
        host
    }

    /// What its disk says of its membership is something else from now on.
    fn remember(&self, change: &Value) {
        let state = self.state();
        let mut member = state.load::<Value>("membership").value.unwrap();
        for (field, value) in change.as_object().unwrap() {
            assert!(member.get(field).is_some(), "{field} is kept: {member}");
            member[field] = value.clone();
        }
        state.save("membership", &member).unwrap();
    }

    /// Where the key of its identity is.
    fn key(&self) -> PathBuf {
        let state = self.root().state_dir(kedge_host::Role::Agent);
        state.join("identity.key")
    }

    fn root(&self) -> Root {
        Root::new(self.folder.path())
    }

    fn state(&self) -> Store {
        Store::new(self.root().state_dir(kedge_host::Role::Agent))
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Nothing that was told has anything of a token, a key or a certificate.
async fn no_secrets(site: &Site, machines: &[&Machine]) {
    let client: &Client = &site.client;
    let events: Api<Event> = Api::all(client.clone());
    let text: String = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(|event| format!("{event:?}\n"))
        .collect();
    assert!(text.contains("IdentityConflict"));
    let mut secrets: Vec<String> = Vec::new();
    let kept: Api<Secret> = Api::namespaced(client.clone(), &site.space);
    for secret in kept.list(&ListParams::default()).await.unwrap() {
        let data = secret.data.unwrap_or_default().into_values();
        secrets.extend(data.map(|data| String::from_utf8_lossy(&data.0).into_owned()));
    }
    for machine in machines {
        let token = fs::read_to_string(machine.folder.path().join("token"));
        let token: Token = token.unwrap().trim().parse().unwrap();
        secrets.push(token.secret().to_owned());
        let member = machine.state().load::<Value>("membership").value.unwrap();
        let certificate = member["certificate"].as_str().unwrap().to_owned();
        secrets.extend(certificate.lines().skip(1).take(1).map(str::to_owned));
    }
    assert!(
        secrets.len() >= 6,
        "{} secrets were looked for",
        secrets.len()
    );
    for secret in secrets.iter().filter(|secret| secret.len() > 8) {
        assert!(!text.contains(secret.as_str()), "{secret} is told");
    }
    for word in ["PRIVATE KEY", "BEGIN CERTIFICATE", "kedge1."] {
        assert!(!text.contains(word), "{word} is told");
    }
}
