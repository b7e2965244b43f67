//! Enrolment tokens, for root.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use jiff::SignedDuration;
use kedge_control::{
    identity::Role,
    local::{TokenCreated, TokenList, TokenRequest},
};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{EdgeGatewaySpec, Tenant, TenantSpec, tenant};
use tracing::info;

use super::{Answer, Body, Context, Refusal};
use crate::{
    api::gateway_named,
    managers,
    snapshot::key,
    store::Name,
    token::{self, DEFAULT_TTL_SECONDS, MAX_TTL_SECONDS, Record, bound},
};

/// `GET /v1/tokens`.
pub async fn list<Root>(_: Root, State(context): State<Arc<Context>>) -> Answer<TokenList> {
    let now = context.world.clock.timestamp();
    let tokens = token::all(&context.world.store.of_kind("", "Secret", None));
    let items = tokens.values().map(|record| record.summary(now)).collect();
    Answer(StatusCode::OK, TokenList { items })
}

/// `POST /v1/tokens`. The secret is in the answer and nowhere else.
pub async fn create<Root>(
    _: Root,
    State(context): State<Arc<Context>>,
    Body(request): Body<TokenRequest>,
) -> Result<Answer<TokenCreated>, Refusal> {
    let world = &context.world;
    let objects = &world.store;
    let (namespace, scope, default_ttl) = match (request.role, &request.tenant, &request.gateway) {
        (Role::Host, Some(name), None) => {
            let layers = objects.get(&key::<TenantSpec>(&Name::new("", name)));
            let found: Option<Tenant> = layers.and_then(|layers| layers.as_written());
            let found = found.ok_or_else(|| missing("Tenant", name))?;
            let ttl = found
                .spec
                .enrollment
                .ttl
                .map(|ttl| ttl.duration().as_secs());
            (tenant::namespace(&found), name.clone(), ttl)
        }
        (Role::Gateway, None, Some(name)) => {
            let gateway = gateway_named(name);
            let layers = objects.get(&key::<EdgeGatewaySpec>(&gateway));
            if layers.is_none_or(|layers| layers.user.is_none()) {
                return Err(missing("EdgeGateway", name));
            }
            let of_hosts = !request.bound_to.is_empty() || !request.labels.is_empty();
            if of_hosts || request.host_ref.is_some() || request.approval.is_some() {
                return Err(Refusal::unprocessable(
                    Code::ConfigRule,
                    "a gateway's token is bound to no host, gives no labels and waits for nobody",
                ));
            }
            (gateway.namespace.clone(), gateway.to_string(), None)
        }
        _ => {
            return Err(Refusal::unprocessable(
                Code::ConfigRule,
                "a host's token names a tenant, a gateway's token names a gateway",
            ));
        }
    };
    let ttl = request
        .ttl_seconds
        .or(default_ttl)
        .unwrap_or(DEFAULT_TTL_SECONDS);
    let uses = request.max_uses.unwrap_or(1);
    if !(1..=MAX_TTL_SECONDS).contains(&ttl) {
        let what = format!("a token lives 1 to {MAX_TTL_SECONDS} seconds, not {ttl}");
        return Err(out_of_range(what, "--ttl 1h"));
    }
    if !(1..=MAX_USES).contains(&uses) {
        let what = format!("a token is used 1 to {MAX_USES} times, not {uses}");
        return Err(out_of_range(what, "--uses 1"));
    }
    let unfit = |error: bound::Unfit| Refusal::unprocessable(Code::ConfigRule, error.to_string());
    let bound_to = bound::parse(request.bound_to).map_err(unfit)?;
    bound::check_labels(&request.labels).map_err(unfit)?;
    let now = world.clock.timestamp();
    let ttl = SignedDuration::from_secs(i64::try_from(ttl).unwrap_or(i64::MAX));
    let expires = now.checked_add(ttl).unwrap_or(now);
    let pin = world.authority.pin();
    let made = Record::create(
        request.role,
        (&namespace, &scope),
        request.host_ref,
        (expires, uses),
        &pin,
    );
    let (token, record) = made.map_err(|error| {
        let problem = Problem::new(Code::SysUnexpected, "no token can be made").caused_by(&error);
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, problem)
    })?;
    let record = Record {
        bound_to,
        labels: request.labels,
        approval: request.approval,
        ..record
    };
    // Made, never changed: that needs no lease, so whichever manager is asked can do it.
    let document = record.document();
    let written = world.store.create(record.key(), managers::TOKEN, document);
    let written = written.await;
    written.map_err(|problem| Refusal(StatusCode::SERVICE_UNAVAILABLE, problem))?;
    let summary = record.summary(now);
    info!(
        token = summary.id,
        scope = summary.scope,
        expires = summary.expires,
        "a token was made"
    );
    let token = token.expose();
    Ok(Answer(StatusCode::CREATED, TokenCreated { token, summary }))
}

fn out_of_range(what: String, example: &str) -> Refusal {
    let Refusal(status, problem) = Refusal::unprocessable(Code::ConfigOutOfRange, what);
    let fix = Fix::text("ask for a value within the range").command(example);
    Refusal(status, problem.fix(fix))
}

fn missing(kind: &str, name: &str) -> Refusal {
    let name: String = name.escape_debug().take(80).collect();
    let problem = Problem::new(Code::ApiNotFound, format!("there is no {kind} {name}"))
        .consequence("no token was made")
        .fix(Fix::text(format!(
            "make the {kind} where the manager keeps its objects"
        )));
    Refusal(StatusCode::NOT_FOUND, problem)
}

const MAX_USES: u32 = 10_000;
