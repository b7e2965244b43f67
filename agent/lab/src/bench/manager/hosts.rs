//! Hosts that enrol as agents do, and go on asking and reporting: many of them in this process.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hyper::Method;
use kedge_control::{
    agent::HostConfig,
    enrol::Facts,
    identity::Role,
    local::{BoundTo, TokenRequest},
    report::{AddressType, HostReport, ReportedAddress},
};
use kedge_host::{
    Root,
    enrol::{Client as Member, ManagerUrl, Settings},
    identity::IdentityKey,
    link::{Link, Patience},
    local::call,
    state::Store,
};
use kube::Client;

use super::{
    server::pass,
    site::{Fleet, tunnel_key},
    subject::Subject,
};
use crate::{error::LabError, stage::Stage};

/// Enrolled hosts. They leave when dropped.
pub(super) struct Hosts {
    links: Vec<Link<HostReport, HostConfig>>,
    /// From the first request until every one has an identity and its desired state.
    pub(super) seconds: f64,
}

impl Hosts {
    pub(super) const fn len(&self) -> usize {
        self.links.len()
    }
}

/// Enrols a tenth as many hosts as the fleet has, at ten new sites.
pub(super) async fn enrol(
    subject: &Subject,
    client: &Client,
    fleet: &Fleet,
    folder: &Path,
    stage: &Stage,
) -> Result<Hosts, LabError> {
    // Each keeps two connections.
    kedge_net::limits::raise_descriptors().map_err(LabError::file("the limit of descriptors"))?;
    let wanted = fleet.hosts.div_ceil(10).max(1);
    let mut tokens = Vec::new();
    for site in 0..SITES {
        let tenant = fleet.another_site(client, site, stage).await?;
        tokens.push(token(subject, &tenant, wanted.div_ceil(SITES), stage).await?);
    }
    let mut members = Vec::new();
    for (index, token) in (0..wanted).zip(tokens.iter().cycle()) {
        members.push(member(
            subject,
            &folder.join(index.to_string()),
            index,
            token,
        )?);
    }
    let begun = Instant::now();
    let links: Vec<_> = members
        .into_iter()
        .map(|(member, store)| {
            let link = Link::start(member, &store, Patience::default());
            link.report(report());
            link
        })
        .collect();
    for link in &links {
        let mut desired = link.desired();
        while desired.borrow().is_none() {
            let changed = tokio::time::timeout(Duration::from_millis(500), desired.changed());
            if let Ok(Err(_)) = changed.await {
                return Err(unexpected("the link ended"));
            }
            if stage.is_stopped() {
                return Err(LabError::Interrupted);
            }
            if begun.elapsed() > LIMIT {
                let standing = link.standing();
                return Err(LabError::Late {
                    what: "every host enrols".to_owned(),
                    limit: LIMIT,
                    seen: format!("{standing:?}"),
                });
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Hosts { links, seconds })
}

/// A token of a tenant that may just have been made.
async fn token(
    subject: &Subject,
    tenant: &str,
    uses: usize,
    stage: &Stage,
) -> Result<String, LabError> {
    let request = TokenRequest {
        role: Role::Host,
        tenant: Some(tenant.to_owned()),
        gateway: None,
        host_ref: None,
        ttl_seconds: None,
        max_uses: u32::try_from(uses).ok(),
        labels: BTreeMap::new(),
        bound_to: BoundTo::default(),
        approval: None,
    };
    let body = serde_json::to_vec(&request).map_err(unexpected)?;
    let begun = Instant::now();
    loop {
        let socket = subject.socket();
        let reply = call(&socket, Method::POST, "/v1/tokens", body.clone()).await;
        let reply = reply.map_err(unexpected)?;
        let answer = reply.json().map_err(unexpected)?;
        if let Some(token) = answer.get("token").and_then(|token| token.as_str()) {
            return Ok(token.to_owned());
        }
        if begun.elapsed() > TOLD {
            return Err(unexpected(answer));
        }
        pass(Duration::from_millis(50), stage).await?;
    }
}

fn member(
    subject: &Subject,
    folder: &Path,
    index: usize,
    token: &str,
) -> Result<(Member, Store), LabError> {
    fs::create_dir_all(folder).map_err(LabError::file(folder))?;
    let file: PathBuf = folder.join("token");
    fs::write(&file, token).map_err(LabError::file(&file))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).map_err(LabError::file(&file))?;
    let (root, role) = (Root::new(folder), kedge_host::Role::Agent);
    let key = IdentityKey::load_or_create(&root, role).map_err(unexpected)?;
    let name = format!("new-{index:05}");
    let url: ManagerUrl = format!("https://{}", subject.agents)
        .parse()
        .map_err(unexpected)?;
    let settings = Settings {
        url,
        token_file: Some(file),
        name: name.clone(),
        role: Role::Host,
        host_ref: None,
        facts: Facts {
            hostname: name,
            ..Facts::default()
        },
        tunnel_key: tunnel_key("N", index),
    };
    let store = Store::new(root.state_dir(role));
    let (member, _) = Member::open(settings, key, store);
    Ok((member, Store::new(folder.join("link"))))
}

fn report() -> HostReport {
    HostReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        addresses: vec![ReportedAddress {
            kind: AddressType::InternalIP,
            address: "10.200.14.10".to_owned(),
            interface: Some("eth0".to_owned()),
            primary: true,
            because: "default route".to_owned(),
        }],
        ..HostReport::default()
    }
}

fn unexpected(said: impl std::fmt::Display) -> LabError {
    LabError::Unexpected {
        who: "a host that enrols".to_owned(),
        said: format!("fails: {said}"),
    }
}

const SITES: usize = 10;
const LIMIT: Duration = Duration::from_secs(300);
const TOLD: Duration = Duration::from_secs(10);
