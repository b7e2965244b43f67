//! Who asks, and whether the path is its own.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use kedge_crd::meta::{GatewayRef, SYSTEM_NAMESPACE};

use super::{error::ApiError, serve::Connection};
use crate::{
    pki::Peer,
    store::Name,
    world::{Member, Party, State, World},
};

/// A caller with a certificate, on a path that is its own.
#[derive(Clone)]
pub struct Caller {
    /// What its certificate says.
    pub peer: Peer,
    /// The path.
    pub place: Place,
}

/// The record a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host of a tenant.
    Host {
        /// The tenant.
        tenant: String,
        /// The EdgeHost's name.
        name: String,
    },
    /// An instance of a gateway.
    Instance {
        /// The EdgeGateway.
        gateway: Name,
        /// The instance.
        name: String,
    },
}

impl Caller {
    /// The member that calls, if it is served and the path is its own.
    ///
    /// # Errors
    ///
    /// The identity is void (401), not served, or another's path is asked for (403).
    pub fn member(&self, state: &State) -> Result<Member, ApiError> {
        let member = state.member(&self.peer.identity.uid);
        let member = member.ok_or_else(revoked)?;
        if !member.holds(&self.peer) {
            return Err(ApiError::unauthenticated(
                "the certificate is for another key than the identity's",
            ));
        }
        let namespace = member.party.namespace();
        // One answer for another's path and for none: who asks learns nothing about others.
        if !self.place.is(&member) || namespace != self.peer.identity.namespace {
            return Err(ApiError::forbidden("the path is not the caller's own"));
        }
        if !member.active {
            return Err(ApiError::forbidden("the host is suspended or banned"));
        }
        Ok(member)
    }
}

impl Place {
    /// Whether the path is the member's own.
    #[must_use]
    pub fn is(&self, member: &Member) -> bool {
        match (self, &member.party) {
            (Self::Host { tenant, name }, Party::Host(own)) => {
                *tenant == member.tenant && *name == own.name
            }
            (Self::Instance { gateway, name }, Party::Instance(own, instance)) => {
                gateway == own && name == instance
            }
            _ => false,
        }
    }
}

impl FromRequestParts<Arc<World>> for Place {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, world: &Arc<World>) -> Result<Self, ApiError> {
        let path = Path::<BTreeMap<String, String>>::from_request_parts(parts, world).await;
        let Path(mut path) = path.map_err(|_| ApiError::not_found())?;
        let (scope, name) = path
            .remove("scope")
            .zip(path.remove("name"))
            .ok_or_else(ApiError::not_found)?;
        Ok(if parts.uri.path().starts_with("/kedge/v1/gateways/") {
            let gateway = gateway_of(&scope);
            Self::Instance { gateway, name }
        } else {
            Self::Host {
                tenant: scope,
                name,
            }
        })
    }
}

impl FromRequestParts<Arc<World>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, world: &Arc<World>) -> Result<Self, ApiError> {
        let place = Place::from_request_parts(parts, world).await?;
        let peer = peer_of(parts, world)?;
        Ok(Self { peer, place })
    }
}

/// Whom the certificate of a request's connection names.
///
/// # Errors
///
/// It came without one, or with one that names nobody.
pub fn peer_of(parts: &Parts, world: &World) -> Result<Peer, ApiError> {
    let connection = parts
        .extensions
        .get::<Arc<Connection>>()
        .ok_or_else(ApiError::not_found)?;
    let certificate = connection
        .certificate
        .as_ref()
        .ok_or_else(|| ApiError::unauthenticated("the request came without a certificate"))?;
    let peer = Peer::read(certificate, &world.trust_domain)
        .map_err(|error| ApiError::unauthenticated(error.to_string()))?;
    // A connection may outlive the certificate it was opened with.
    if world.clock.now() >= peer.not_after {
        return Err(ApiError::unauthenticated("the certificate has expired"));
    }
    Ok(peer)
}

/// Nobody holds the identity any more.
pub fn revoked() -> ApiError {
    ApiError::unauthenticated("the identity was revoked: no record holds it any more")
}

/// The gateway of a path segment: `namespace.name`, or a name in `kedge-system`.
#[must_use]
pub fn gateway_of(segment: &str) -> Name {
    match segment.split_once('.') {
        Some((namespace, name)) => Name::new(namespace, name),
        None => Name::new(SYSTEM_NAMESPACE, segment),
    }
}

/// The gateway a person names: `namespace/name`, or a name in `kedge-system`.
#[must_use]
pub fn gateway_named(text: &str) -> Name {
    let reference = GatewayRef::parse(text);
    Name::new(reference.namespace(), &reference.name)
}
