//! TLSRoutes: names whose TLS is passed through, as routes without matches.

use serde::{Deserialize, Serialize};

use super::{Object, Route, RouteSpec, Routed};

/// A TLSRoute.
pub type TlsRoute = Object<TlsSpec>;

/// Which names go where, as an HTTPRoute says it without matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TlsSpec(RouteSpec);

impl From<TlsRoute> for Route {
    fn from(route: TlsRoute) -> Self {
        Self {
            metadata: route.metadata,
            spec: RouteSpec {
                of: Routed::Tls,
                ..route.spec.0
            },
            status: route.status,
        }
    }
}
