//! Takes back what a manager left on objects, so that none of them waits for a manager that is gone.
//!
//! ```text
//! stop the Deployment ─► take the lease ─► look at every kind ─► patch ─┐
//!                                               ▲                       │ until nothing is left
//!                                               └───────────────────────┘
//! ```
//!
//! Cluster API waits for hooks for ever, and an API server for finalizers. Endpoints stay filled,
//! and what is recorded in our objects stays, so that a manager installed later goes on from there.
//! The lease is what keeps a manager that still runs from putting everything back.

mod marks;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use kedge_api_lease::Leader;
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{
    Cluster as CapiCluster, capi,
    meta::{self, SYSTEM_NAMESPACE},
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::DynamicObject,
    discovery::ApiGroup,
};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};
use tracing::{info, warn};

use crate::{
    Place, managers,
    store::{
        ADDRESS_KIND, CLAIM_KIND, IPAM_GROUP,
        kubernetes::{
            LEASE, WATCHED, client,
            kinds::{self, Kind},
            lease::Terms,
            problems::caused,
        },
    },
};

pub use marks::{Left, left};

/// What to take back, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The cluster.
    pub place: Place,
    /// The Deployment of managers to stop first, in `kedge-system`.
    pub stop: Option<String>,
    /// Whether it is only looked.
    pub dry_run: bool,
    /// The terms on which managers share the lease.
    pub terms: Terms,
}

/// An object, and what was taken from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty where it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What was on it.
    pub what: Vec<String>,
}

/// Takes everything back.
///
/// # Errors
///
/// The cluster does not answer or refuses, or a manager still leads. What was taken stays taken.
pub async fn uninstall(request: &Request) -> Result<Vec<Taken>, Problem> {
    let (client, name) = client(&request.place).await?;
    let told = |error: &kube::Error| refused(&name, "look at", "everything", error);
    if !request.dry_run
        && let Some(deployment) = &request.stop
    {
        stop(&client, deployment).await?;
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    if request.dry_run || !is_there(&leases).await.map_err(|error| told(&error))? {
        // Without a place for a lease no manager ever led.
        return sweep(&client, &name, request.dry_run).await;
    }
    let me = format!("uninstall_{}", std::process::id());
    let leader = Arc::new(Leader::new(request.terms, me, LEASE));
    let (holds, changed) = (Arc::clone(&leader), Arc::new(Notify::new()));
    let (taking, woken) = (leases.clone(), Arc::clone(&changed));
    let held = tokio::spawn(async move { holds.run(&taking, &woken).await });
    let leads = async {
        while leader.remaining().is_none() {
            let _: Result<(), _> = timeout(GLANCE, changed.notified()).await;
        }
    };
    let limit = request.terms.duration * 4;
    let swept = match timeout(limit, leads).await {
        Ok(()) => sweep(&client, &name, false).await,
        Err(_) => Err(still_led(&leader.holder())),
    };
    held.abort();
    leader.release(&leases).await;
    swept
}

/// Scales the managers' Deployment to none.
async fn stop(client: &Client, deployment: &str) -> Result<(), Problem> {
    let all: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match all
        .patch_scale(deployment, &PatchParams::default(), &none)
        .await
    {
        Ok(_) => {
            info!(deployment, "the managers are told to leave");
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(refused(SYSTEM_NAMESPACE, "scale", "deployments", &error)),
    }
}

/// Whether a lease can be kept at all: asked for with a creation that is not carried out.
async fn is_there(leases: &Api<Lease>) -> Result<bool, kube::Error> {
    if leases.get_opt(LEASE).await?.is_some() {
        return Ok(true);
    }
    let lease: Lease = Lease {
        metadata: kube::core::ObjectMeta {
            name: Some(LEASE.to_owned()),
            ..kube::core::ObjectMeta::default()
        },
        spec: None,
    };
    let only_asked = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match leases.create(&only_asked, &lease).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(true),
        Err(error) => Err(error),
    }
}

/// Looks at every kind and takes back, until a look finds nothing.
async fn sweep(client: &Client, name: &str, dry_run: bool) -> Result<Vec<Taken>, Problem> {
    let mut all = BTreeSet::new();
    for _ in 0..PASSES {
        let mut is_clean = true;
        let known = known(client, name).await?;
        let groups = known.iter().map(|(group, _)| group.as_str()).collect();
        let groups = served(client, name, groups).await?;
        for (group, kind) in known {
            let Some(served) = groups.get(&group) else {
                continue;
            };
            let found = if group == meta::GROUP || group == capi::GROUP {
                kinds::preferred(served, &kind)
            } else {
                let found = kinds::by_contract(client, served, &kind).await;
                found.map_err(|error| refused(name, "get", &kind, &error))?
            };
            let Some(found) = found else {
                continue;
            };
            for (taken, is_done) in sweep_kind(client, name, &found, dry_run).await? {
                is_clean &= is_done;
                all.insert(taken);
            }
        }
        if is_clean || dry_run {
            return Ok(all.into_iter().collect());
        }
    }
    Err(Problem::new(
        Code::SysUnexpected,
        format!("{name}: objects change as fast as they are cleaned"),
    )
    .consequence("hooks or finalizers of Kedge may be left")
    .fix(Fix::text("run the command again")))
}

/// The kinds a manager writes to: what it always watches, claims and addresses, and whatever
/// infrastructure Clusters refer to.
async fn known(client: &Client, name: &str) -> Result<BTreeSet<(String, String)>, Problem> {
    let addresses = [(IPAM_GROUP, CLAIM_KIND), (IPAM_GROUP, ADDRESS_KIND)];
    let all = WATCHED.into_iter().chain(addresses);
    let mut all: BTreeSet<(String, String)> = all
        .map(|(group, kind)| (group.to_owned(), kind.to_owned()))
        .collect();
    let told = |error: &kube::Error| refused(name, "list", "clusters", error);
    let group = served(client, name, BTreeSet::from([capi::GROUP])).await?;
    let group = group.get(capi::GROUP);
    if let Some(kind) = group.and_then(|group| kinds::preferred(group, "Cluster")) {
        for object in list(client, &kind).await.map_err(|error| told(&error))? {
            let object = serde_json::to_value(object).unwrap_or(Value::Null);
            let cluster = serde_json::from_value::<CapiCluster>(object).ok();
            if let Some(infra) = cluster.and_then(|cluster| cluster.spec.infrastructure_ref) {
                all.insert((infra.group().to_owned(), infra.kind));
            }
        }
    }
    Ok(all)
}

/// Groups as the cluster serves them.
async fn served(
    client: &Client,
    name: &str,
    groups: BTreeSet<&str>,
) -> Result<BTreeMap<String, ApiGroup>, Problem> {
    let found = kinds::served(client, groups).await.into_iter();
    found
        .map(|(group, found)| match found {
            Ok(found) => Ok((group, found)),
            Err(error) => Err(refused(name, "get", &group, &error)),
        })
        .collect()
}

/// The objects of a kind that had something, and whether it is gone now.
async fn sweep_kind(
    client: &Client,
    name: &str,
    kind: &Kind,
    dry_run: bool,
) -> Result<Vec<(Taken, bool)>, Problem> {
    let plural = kind.resource.plural.clone();
    let listed = match list(client, kind).await {
        Ok(listed) => listed,
        // A kind of infrastructure nobody let the manager see has nothing of it.
        Err(kube::Error::Api(status)) if status.code == 403 && kind.contract.is_some() => {
            warn!(
                kind = kind.resource.kind,
                "may not be looked at, and is left out"
            );
            return Ok(Vec::new());
        }
        Err(error) => return Err(refused(name, "list", &plural, &error)),
    };
    let mut all = Vec::new();
    for object in listed {
        let Some(left) = left(&object) else {
            continue;
        };
        let meta = &object.metadata;
        let taken = Taken {
            kind: kind.resource.kind.clone(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            what: left.what,
        };
        let mut is_done = true;
        if !dry_run {
            let api: Api<DynamicObject> = if kind.namespaced {
                Api::namespaced_with(client.clone(), &taken.namespace, &kind.resource)
            } else {
                Api::all_with(client.clone(), &kind.resource)
            };
            let params = PatchParams {
                field_manager: Some(managers::MARKS.to_owned()),
                ..PatchParams::default()
            };
            match api
                .patch(&taken.name, &params, &Patch::Merge(left.patch))
                .await
            {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                // It changed meanwhile: the next look finds it as it is then.
                Err(kube::Error::Api(status)) if status.code == 409 => is_done = false,
                Err(error) => return Err(refused(name, "patch", &plural, &error)),
            }
        }
        all.push((taken, is_done));
    }
    Ok(all)
}

async fn list(client: &Client, kind: &Kind) -> Result<Vec<DynamicObject>, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource);
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params.continue_token = Some(next),
            _ => return Ok(all),
        }
    }
}

fn still_led(holder: &str) -> Problem {
    Problem::new(Code::HostSocketInUse, "a manager still writes")
        .evidence(format!(
            "the lease {SYSTEM_NAMESPACE}/{LEASE} is held by `{holder}`"
        ))
        .consequence("nothing was taken back: it would put everything back at once")
        .fix(
            Fix::text("stop the managers first")
                .command("kubectl -n kedge-system scale deployment kedge-manager --replicas=0"),
        )
}

fn refused(name: &str, verb: &str, what: &str, error: &kube::Error) -> Problem {
    let problem = Problem::new(Code::SysUnexpected, format!("{name}: cannot {verb} {what}"));
    let problem = caused(problem, error)
        .consequence("hooks or finalizers of Kedge may be left, and objects may not be deletable");
    match error {
        kube::Error::Api(status) if status.code == 403 => problem.fix(Fix::text(format!(
            "run it as somebody who may {verb} {what}: an administrator, or kedge-system/kedge-uninstall"
        ))),
        _ => problem.fix(Fix::text("see that the cluster answers, and run it again")),
    }
}

const PASSES: usize = 10;
const PAGE: u32 = 500;
const GLANCE: Duration = Duration::from_millis(50);
