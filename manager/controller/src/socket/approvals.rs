//! A person's word for a host that waits, for root.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use kedge_control::local::{ApprovalRequest, HostApproval};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{EdgeHost, EdgeHostSpec, Resource as _};
use serde_json::json;
use tracing::info;

use super::{Answer, Body, Context, Refusal};
use crate::{
    api::record::TRIES,
    managers,
    snapshot::key,
    store::{Layer, Name, ObjectKey, Write},
};

/// `POST /v1/fleet/approvals`: approves the key of a host, as it is shown at the host.
pub async fn approve<Root>(
    _: Root,
    State(context): State<Arc<Context>>,
    Body(request): Body<ApprovalRequest>,
) -> Result<Answer<HostApproval>, Refusal> {
    let name = find(&context, &request)?;
    let store = &context.world.store;
    for _ in 0..TRIES {
        let key = key::<EdgeHostSpec>(&name);
        let current = store.current(&key).await.map_err(unavailable)?;
        let host: Option<EdgeHost> = current.layers.in_force().ok();
        let waits = host.as_ref().and_then(waiting).ok_or_else(|| idle(&name))?;
        let is_meant = request
            .key_hash
            .as_ref()
            .is_none_or(|meant| *meant == waits.key_hash);
        if !is_meant {
            return Err(other_key(&waits));
        }
        let is_look = request.dry_run || request.key_hash.is_none();
        if is_look || waits.approved {
            return Ok(Answer(StatusCode::OK, waits));
        }
        if !store.leads() {
            let command = format!("kedge fleet approve {name} --key {}", waits.key_hash);
            return Err(Refusal::elsewhere(&context.world, &command));
        }
        let write = word(key, &name, &waits.key_hash);
        if store
            .write_over(write, &current)
            .await
            .map_err(unavailable)?
        {
            info!(host = %name, key = waits.key_hash, "a host was approved");
            context.world.touch();
            let approved = true;
            return Ok(Answer(StatusCode::OK, HostApproval { approved, ..waits }));
        }
    }
    let problem = Problem::new(
        Code::HostStateNotPersisted,
        format!("the EdgeHost {name} changes faster than it can be written"),
    );
    Err(unavailable(
        problem.consequence("nothing was changed; ask again"),
    ))
}

/// The host of that name that waits.
fn find(context: &Context, request: &ApprovalRequest) -> Result<Name, Refusal> {
    if let Some(namespace) = &request.namespace {
        let name = Name::new(namespace, &request.name);
        // It becomes part of a path: what no object can be called leads elsewhere.
        let is_proper = key::<EdgeHostSpec>(&name).is_proper();
        return is_proper.then(|| name.clone()).ok_or_else(|| idle(&name));
    }
    let objects = context
        .world
        .store
        .named(EdgeHostSpec::GROUP, EdgeHostSpec::KIND, &request.name);
    let all = objects.of_kind(EdgeHostSpec::GROUP, EdgeHostSpec::KIND);
    let mut waiting = all.filter(|(_, layers)| {
        let host: Option<EdgeHost> = layers.in_force().ok();
        host.is_some_and(|host| waiting(&host).is_some())
    });
    match (waiting.next(), waiting.next()) {
        (Some((key, _)), None) => Ok(key.name.clone()),
        (None, _) => Err(idle(&Name::new("", &request.name))),
        (Some((one, _)), Some((other, _))) => {
            let (name, one, other) = (&request.name, &one.name.namespace, &other.name.namespace);
            let what = format!("hosts called {name} wait in {one} and in {other}");
            let Refusal(status, problem) = Refusal::unprocessable(Code::ConfigRule, what);
            let fix = Fix::text("name the namespace")
                .command(format!("kedge fleet approve {one}/{name}"));
            Err(Refusal(status, problem.fix(fix)))
        }
    }
}

/// What waits at a host, if something does.
fn waiting(host: &EdgeHost) -> Option<HostApproval> {
    let request = host.spec.request.as_ref()?;
    Some(HostApproval {
        namespace: host.metadata.namespace.clone().unwrap_or_default(),
        name: host.metadata.name.clone(),
        tenant: host.spec.tenant.clone(),
        key_hash: request.key_hash.clone(),
        since: request.since.clone(),
        approved: host.spec.approved.as_ref() == Some(&request.key_hash),
    })
}

fn word(key: ObjectKey, name: &Name, hash: &str) -> Write {
    Write {
        key,
        layer: Layer::Owned(managers::APPROVE.to_owned()),
        content: Some(json!({
            "apiVersion": EdgeHostSpec::api_version(),
            "kind": EdgeHostSpec::KIND,
            "metadata": {"name": name.name, "namespace": name.namespace},
            "spec": {"approved": hash},
        })),
    }
}

fn idle(name: &Name) -> Refusal {
    let name: String = name.to_string().escape_debug().take(160).collect();
    let problem = Problem::new(
        Code::ApiNotFound,
        format!("no host {name} waits for approval"),
    )
    .consequence("nothing was changed")
    .fix(Fix::text("see who waits").command("kedge fleet hosts"));
    Refusal(StatusCode::NOT_FOUND, problem)
}

fn other_key(waits: &HostApproval) -> Refusal {
    let (name, hash) = (&waits.name, &waits.key_hash);
    let problem = Problem::new(Code::ApiConflict, format!("{name} waits with another key"))
        .evidence(format!("its key is {hash}"))
        .consequence("nothing was changed: somebody else may have taken the name")
        .fix(Fix::text("compare it with what the host shows").command("kedge status"));
    Refusal(StatusCode::CONFLICT, problem)
}

fn unavailable(problem: Problem) -> Refusal {
    Refusal(StatusCode::SERVICE_UNAVAILABLE, problem)
}
