//! The certificates of a tenant's exposures, as Secrets of its namespace.

use std::collections::BTreeSet;

use kedge_control::exposure::{
    CERTIFICATE_PREFIX, ExposedCertificate, ExposureKind, ExposureSet, LARGEST_CERTIFICATE,
};
use kedge_core::Code;

use super::Scope;
use crate::{
    api::error::ApiError,
    certificates::{Found, Pair},
    store::{Name, certificates::Put, key::is_subdomain},
    world::World,
};

/// What can be told of them before anything is looked at.
pub fn check(set: &ExposureSet) -> Result<(), ApiError> {
    if set.certificates.is_empty() {
        return Ok(());
    }
    if !set.kinds.contains(&ExposureKind::Http) {
        return Err(ApiError::malformed(
            "certificates come with HTTPLoadBalancers, which `kinds` does not name",
        ));
    }
    if set.certificates.len() > MOST {
        return Err(ApiError::too_large(&format!("{MOST} certificates")));
    }
    let mut names = BTreeSet::new();
    for certificate in &set.certificates {
        let name = &certificate.name;
        if !is_subdomain(name) || !name.starts_with(CERTIFICATE_PREFIX) {
            return Err(ApiError::malformed(
                "a certificate's name is no DNS subdomain that begins with `kedge-tls-`",
            ));
        }
        if !names.insert(name) {
            return Err(ApiError::malformed("two certificates have one name"));
        }
        if certificate.chain.len() + certificate.key.len() > LARGEST_CERTIFICATE {
            return Err(ApiError::too_large("a certificate of 64 KiB"));
        }
    }
    Ok(())
}

/// Those of a set that are not there as they are told, whose names are free.
///
/// # Errors
///
/// A Secret of that name is somebody else's.
pub async fn changed<'a>(
    world: &World,
    scope: &Scope,
    all: &'a [ExposedCertificate],
) -> Result<Vec<&'a ExposedCertificate>, ApiError> {
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let kept = world.store.certificates(&scope.namespace, &scope.tenant);
    let kept = kept.await.map_err(ApiError::unavailable)?;
    let is_same = |it: &&ExposedCertificate| kept.get(&it.name) == Some(&Found::Pair(pair(it)));
    let changed: Vec<_> = all.iter().filter(|it| !is_same(it)).collect();
    for certificate in &changed {
        let secret = Name::new(&scope.namespace, &certificate.name);
        let free = world.store.is_free_for(&secret, &scope.tenant).await;
        if !free.map_err(ApiError::unavailable)? {
            return Err(taken(&secret));
        }
    }
    Ok(changed)
}

/// Writes these.
pub async fn put(
    world: &World,
    scope: &Scope,
    changed: &[&ExposedCertificate],
) -> Result<(), ApiError> {
    for certificate in changed {
        let secret = Name::new(&scope.namespace, &certificate.name);
        let pair = pair(certificate);
        let put = world.store.put_certificate(&secret, &scope.tenant, &pair);
        match put.await.map_err(ApiError::unavailable)? {
            Put::Written => world.certificates.forget(&secret),
            Put::Same => {}
            Put::Taken => return Err(taken(&secret)),
        }
    }
    Ok(())
}

fn pair(certificate: &ExposedCertificate) -> Pair {
    Pair::new(certificate.chain.clone(), certificate.key.clone())
}

/// Removes the tenant's others.
pub async fn remove_others(
    world: &World,
    scope: &Scope,
    all: &[ExposedCertificate],
) -> Result<(), ApiError> {
    let kept = world.store.certificates(&scope.namespace, &scope.tenant);
    let kept = kept.await.map_err(ApiError::unavailable)?;
    let wanted: BTreeSet<&String> = all.iter().map(|certificate| &certificate.name).collect();
    for name in kept.keys().filter(|name| !wanted.contains(name)) {
        let secret = Name::new(&scope.namespace, name);
        let removed = world.store.remove_certificate(&secret, &scope.tenant);
        removed.await.map_err(ApiError::unavailable)?;
        world.certificates.forget(&secret);
    }
    Ok(())
}

fn taken(secret: &Name) -> ApiError {
    ApiError::conflict(
        Code::ApiConflict,
        format!("Secret {secret} is no certificate of the tenant's cluster: nothing was written"),
    )
}

/// The most certificates of one cluster.
const MOST: usize = 256;
