//! What a request proves, and what that grants.

use std::time::Instant;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use axum::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kedge_control::{
    enrol::{EnrolRequest, Facts, ProofKind, proof_message},
    identity::Role,
    local::Approval,
};
use kedge_core::{Code, Fix, Problem};
use kedge_crd::{
    ElementalHost, Resource as _, Tenant, TenantSpec,
    elemental::{self, HOST_KIND, REGISTRATION_KIND},
    host::HostRef,
    meta, tenant,
};

use super::refused;
use crate::{
    api::{access::gateway_named, error::ApiError, serve::Connection},
    pki::{
        SigningRequest,
        request::{key_bytes, key_hash},
    },
    store::{Current, Name, ObjectKey},
    token::{self, Record, Use, bound},
    world::World,
};

/// What a proof grants.
pub struct Grant {
    /// Host or gateway.
    pub role: Role,
    /// The namespace of what it admits.
    pub namespace: String,
    /// The tenant or the EdgeGateway it admits to.
    pub scope: String,
    /// The machine it is bound to.
    pub host_ref: Option<HostRef>,
    /// The token it was made with.
    pub token: Option<Held>,
    /// The hash of the Elemental key it was made with; empty for a token.
    pub elemental_key: String,
}

/// A token as it is right now.
pub struct Held {
    /// Its record.
    pub record: Record,
    current: Current,
}

impl Grant {
    /// The scope as it stands in paths.
    pub fn path_scope(&self) -> String {
        match self.role {
            Role::Host => self.scope.clone(),
            Role::Gateway => gateway_named(&self.scope).to_string(),
        }
    }

    /// What the token says of who lets a host in.
    pub fn approval(&self) -> Option<Approval> {
        self.token.as_ref()?.record.approval
    }

    /// The labels the token gives.
    pub fn labels(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let labels = self.token.iter().flat_map(|token| &token.record.labels);
        labels.map(|(key, value)| (key.clone(), value.clone()))
    }
}

impl Held {
    /// Counts a use, over the record as it was read; says whether it was still so.
    pub async fn count(&self, world: &World, by: Use) -> Result<bool, Problem> {
        let mut record = self.record.clone();
        let known = record
            .used_by
            .iter_mut()
            .find(|used| used.key_hash == by.key_hash);
        match known {
            Some(known) => *known = by,
            None => record.used_by.push(by),
        }
        world.store.write_over(record.write(), &self.current).await
    }
}

/// Where the token of a proof is that was made at another manager a moment ago, before a watch
/// shows it here. The API server is asked only where the id says it may be, by one request at a
/// time, and by nobody once some of them asked in vain: whoever guesses causes no load.
pub async fn sought(
    world: &World,
    connection: &Connection,
    request: &EnrolRequest,
    csr: &SigningRequest,
) -> Option<ObjectKey> {
    let id = request.proof.id.as_str();
    let is_known = || {
        !world
            .store
            .named("", "Secret", &token::secret_name(id))
            .by_key
            .is_empty()
    };
    let signature = URL_SAFE_NO_PAD.decode(&request.proof.signature).ok()?;
    if request.proof.kind != ProofKind::Token || is_known() {
        return None;
    }
    let mut places = world.store.spaces();
    places.insert(meta::SYSTEM_NAMESPACE.to_owned());
    places.retain(|namespace| token::may_be_in(namespace, id));
    if places.is_empty() {
        return None;
    }
    let _one = world.limits.looking.lock().await;
    if is_known() || world.limits.missed.wait(&(), Instant::now()).is_some() {
        return None;
    }
    let message = proof_message(ProofKind::Token, &connection.exporter, &csr.digest);
    for namespace in places.into_iter().take(PLACES) {
        let name = Name::new(namespace, token::secret_name(id));
        let key = ObjectKey::new("", "Secret", name);
        let found = world.store.current(&key).await.ok();
        let record = found.and_then(|found| token::read(&found.layers));
        let fits = |record: &Record| record.id == id && record.verifies(&message, &signature);
        if record.is_some_and(|record| fits(&record)) {
            return Some(key);
        }
    }
    world.limits.missed.take(&(), Instant::now());
    None
}

/// What the proof grants, if its key made it on this very connection. A wrong id and a wrong
/// signature give one answer. `sought` is where the token is if no watch showed it yet.
pub async fn proven(
    world: &World,
    connection: &Connection,
    request: &EnrolRequest,
    csr: &SigningRequest,
    (scope, sought): (Option<&(Role, String)>, Option<&ObjectKey>),
) -> Result<Grant, ApiError> {
    let kind = request.proof.kind;
    let signature = URL_SAFE_NO_PAD.decode(&request.proof.signature);
    let signature = signature.map_err(|_| bad())?;
    let message = proof_message(kind, &connection.exporter, &csr.digest);
    let id = request.proof.id.as_str();
    match kind {
        ProofKind::Token => {
            let verified =
                |record: &Record| record.id == id && record.verifies(&message, &signature);
            // What is remembered keeps strangers from causing reads; what counts is how it is now.
            let named = world.store.named("", "Secret", &token::secret_name(id));
            let known = token::find(&named, id).filter(verified);
            let known = known.map(|known| known.key()).or(sought.cloned());
            let current = world.store.current(&known.ok_or_else(bad)?).await;
            let current = current.map_err(ApiError::unavailable)?;
            let record = token::read(&current.layers)
                .filter(verified)
                .ok_or_else(bad)?;
            Ok(Grant {
                role: record.role,
                namespace: record.namespace.clone(),
                scope: record.scope.clone(),
                host_ref: record.host_ref.as_ref().map(|bound| HostRef {
                    api_group: bound.api_group.clone(),
                    kind: bound.kind.clone(),
                    name: bound.name.clone(),
                }),
                token: Some(Held { record, current }),
                elemental_key: String::new(),
            })
        }
        ProofKind::ElementalKey => by_elemental_key(world, id, &message, &signature, scope),
        ProofKind::BoundKey => Err(bad()),
    }
}

/// Whether the token may be used once more, by a host that says this of itself.
pub fn usable(world: &World, grant: &Grant, facts: &Facts) -> Result<(), ApiError> {
    let Some(Held { record, .. }) = &grant.token else {
        return Ok(());
    };
    if record.is_expired(world.clock.timestamp()) {
        return Err(refused(Code::EnrolTokenExpired, "the token has expired"));
    }
    if record.is_used_up() {
        return Err(refused(
            Code::EnrolTokenUsed,
            "the token was used as often as it may be",
        ));
    }
    if let Some(what) = bound::differs(&record.bound_to, facts) {
        let what = format!("the token is for a host with another {what}");
        return Err(refused(Code::EnrolTokenScope, &what));
    }
    Ok(())
}

/// The key an Elemental host registered with. The tenant follows from where its record lies and
/// who made it: labels are nobody's word, a host can set any on itself.
fn by_elemental_key(
    world: &World,
    id: &str,
    message: &[u8],
    signature: &[u8],
    scope: Option<&(Role, String)>,
) -> Result<Grant, ApiError> {
    let (namespace, name) = id.split_once('/').ok_or_else(bad)?;
    let key = ObjectKey::new(elemental::GROUP, HOST_KIND, Name::new(namespace, name));
    let layers = world.store.get(&key);
    let record: Option<ElementalHost> = layers.as_ref().and_then(|layers| layers.as_written());
    let record = record.ok_or_else(bad)?;
    let public = key_bytes(&record.spec.pub_key).ok_or_else(bad)?;
    UnparsedPublicKey::new(&ED25519, public)
        .verify(message, signature)
        .map_err(|_| bad())?;
    let registered = record.metadata.owner_references.iter().any(|owner| {
        owner.controller == Some(true)
            && owner.kind == REGISTRATION_KIND
            && owner.api_version.starts_with(elemental::GROUP)
    });
    let leaves = layers.as_ref().and_then(|layers| layers.server.as_ref());
    let leaves = leaves.is_some_and(|server| server.is_deleted() || server.vanished);
    if !registered || leaves {
        return Err(refused(
            Code::EnrolTokenScope,
            "the ElementalHost was not made by a registration, or it is being deleted",
        ));
    }
    let wanted = scope.map(|(_, scope)| scope.as_str());
    let objects = world.store.of_kind(meta::GROUP, TenantSpec::KIND, None);
    let tenants = objects.of_kind(meta::GROUP, TenantSpec::KIND);
    let mut tenants = tenants
        .filter_map(|(_, layers)| layers.as_written::<Tenant>())
        .filter(|found| {
            tenant::namespace(found) == namespace
                && found.spec.enrollment.allow_elemental_keys
                && wanted.is_none_or(|wanted| wanted == found.metadata.name)
        });
    match (tenants.next(), tenants.next()) {
        (Some(tenant), None) => Ok(Grant {
            role: Role::Host,
            namespace: namespace.to_owned(),
            scope: tenant.metadata.name,
            host_ref: Some(HostRef {
                api_group: elemental::GROUP.to_owned(),
                kind: HOST_KIND.to_owned(),
                name: name.to_owned(),
            }),
            token: None,
            elemental_key: key_hash(&record.spec.pub_key).unwrap_or_default(),
        }),
        (None, _) => Err(refused(
            Code::EnrolTokenScope,
            "no tenant of the ElementalHost's namespace takes Elemental keys \
             (spec.enrollment.allowElementalKeys)",
        )),
        (Some(_), Some(_)) => Err(refused(
            Code::EnrolTokenScope,
            "several tenants share the ElementalHost's namespace: name one in the path",
        )),
    }
}

fn bad() -> ApiError {
    let problem = Problem::new(
        Code::EnrolProofRefused,
        "the proof was not made with a key this manager knows, on this connection",
    )
    .consequence("the host is not enrolled")
    .fix(
        Fix::text("make a new token; expose the manager without a TLS-terminating proxy")
            .command("kedge token create --tenant TENANT"),
    );
    ApiError::new(StatusCode::UNAUTHORIZED, problem)
}

/// In how many namespaces a token is looked for: more than one share a mark only by chance.
const PLACES: usize = 4;
