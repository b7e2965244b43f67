//! What of the Gateway API (`gateway.networking.k8s.io`) is looked at. Fields that are not known here are
//! left alone; those that would change what is served are kept as they are, so that they can be refused.

mod grpc;
mod tls;

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kedge_crd::selector::LabelSelector;
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    grpc::{GrpcRoute, GrpcSpec},
    tls::{TlsRoute, TlsSpec},
};

/// The group.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object<S> {
    /// Who it is.
    pub metadata: ObjectMeta,
    /// What is asked for.
    pub spec: S,
    /// What is said of it, as it stands there.
    #[serde(default)]
    pub status: Value,
}

/// A kind of the group.
pub trait Kind {
    /// Its scope.
    type Scope;
    /// Its version.
    const VERSION: &'static str;
    /// Its name.
    const KIND: &'static str;
    /// Its name in paths.
    const PLURAL: &'static str;
}

impl<S: Kind> Resource for Object<S> {
    type DynamicType = ();
    type Scope = S::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        S::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        S::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        S::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

macro_rules! kind {
    ($spec:ident, $scope:ident, $version:literal, $kind:literal, $plural:literal) => {
        impl Kind for $spec {
            type Scope = $scope;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
        }
    };
}

kind!(
    ClassSpec,
    ClusterResourceScope,
    "v1",
    "GatewayClass",
    "gatewayclasses"
);
kind!(
    GatewaySpec,
    NamespaceResourceScope,
    "v1",
    "Gateway",
    "gateways"
);
kind!(
    RouteSpec,
    NamespaceResourceScope,
    "v1",
    "HTTPRoute",
    "httproutes"
);
kind!(
    GrpcSpec,
    NamespaceResourceScope,
    "v1",
    "GRPCRoute",
    "grpcroutes"
);
kind!(
    TlsSpec,
    NamespaceResourceScope,
    "v1",
    "TLSRoute",
    "tlsroutes"
);
kind!(
    GrantSpec,
    NamespaceResourceScope,
    "v1beta1",
    "ReferenceGrant",
    "referencegrants"
);

/// A GatewayClass.
pub type Class = Object<ClassSpec>;
/// A Gateway.
pub type Gateway = Object<GatewaySpec>;
/// An HTTPRoute, or another route as one.
pub type Route = Object<RouteSpec>;
/// A ReferenceGrant.
pub type Grant = Object<GrantSpec>;

/// Whose Gateways of a class are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassSpec {
    /// The controller.
    pub controller_name: String,
    /// Parameters.
    pub parameters_ref: Option<Value>,
}

/// What a Gateway listens for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// Its class.
    pub gateway_class_name: String,
    /// Its listeners.
    pub listeners: Vec<Listener>,
    /// Addresses that are asked for.
    pub addresses: Vec<AskedAddress>,
    /// Of what is made for it.
    pub infrastructure: Option<Value>,
}

/// An address that a Gateway asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AskedAddress {
    /// `IPAddress` where it is left out, `Hostname`, or one of an implementation.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The address; any when left out.
    pub value: Option<String>,
}

/// One listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// The names it takes; all when left out.
    pub hostname: Option<String>,
    /// Its port.
    pub port: i32,
    /// `HTTP`, `HTTPS` and others.
    pub protocol: String,
    /// How TLS ends.
    pub tls: Option<ListenerTls>,
    /// What may be attached.
    pub allowed_routes: Option<AllowedRoutes>,
}

/// How TLS ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    /// `Terminate` or `Passthrough`.
    pub mode: Option<String>,
    /// The certificates.
    pub certificate_refs: Vec<Reference>,
    /// Of clients' certificates.
    pub frontend_validation: Option<Value>,
    /// Of the implementation.
    pub options: BTreeMap<String, String>,
}

/// Another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    /// Its group.
    pub group: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// Its namespace; the referrer's when left out.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// A listener of a Gateway.
    pub section_name: Option<String>,
    /// A port of it.
    pub port: Option<i32>,
    /// Its share.
    pub weight: Option<i32>,
    /// What is done with what goes there.
    pub filters: Vec<Filter>,
}

/// What may be attached to a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedRoutes {
    /// From where.
    pub namespaces: Option<RouteNamespaces>,
    /// Of what kinds.
    pub kinds: Vec<RouteKind>,
}

/// From where routes may be attached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteNamespaces {
    /// `Same`, `All`, `Selector` or `None`.
    pub from: Option<String>,
    /// Which namespaces.
    pub selector: Option<LabelSelector>,
}

/// A kind of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteKind {
    /// Its group.
    pub group: Option<String>,
    /// Its kind.
    pub kind: String,
}

/// What a route is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routed {
    /// Requests: an HTTPRoute.
    #[default]
    Http,
    /// Calls: a GRPCRoute.
    Grpc,
    /// Connections that are passed through: a TLSRoute.
    Tls,
}

impl Routed {
    /// The kind of such routes.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Http => RouteSpec::KIND,
            Self::Grpc => GrpcSpec::KIND,
            Self::Tls => TlsSpec::KIND,
        }
    }
}

/// Which requests go where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteSpec {
    /// Which kind of route it is.
    #[serde(skip)]
    pub of: Routed,
    /// What it is attached to.
    pub parent_refs: Vec<Reference>,
    /// Its names.
    pub hostnames: Vec<String>,
    /// Its rules.
    pub rules: Vec<RouteRule>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteRule {
    /// Which requests; any of these.
    pub matches: Vec<RouteMatch>,
    /// What is done with them.
    pub filters: Vec<Filter>,
    /// Where they go.
    pub backend_refs: Vec<Reference>,
    /// How long they may take.
    pub timeouts: Option<Timeouts>,
    /// How they are tried again.
    pub retry: Option<Value>,
    /// How they stay with a backend.
    pub session_persistence: Option<Value>,
}

/// Which requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteMatch {
    /// By the path.
    pub path: Option<Compared>,
    /// By headers.
    pub headers: Vec<Compared>,
    /// By parameters.
    pub query_params: Vec<Compared>,
    /// By the method.
    pub method: Option<String>,
}

/// How something is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Compared {
    /// Of what name.
    pub name: String,
    /// How.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// With what.
    pub value: Option<String>,
}

/// What is done with requests or answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    /// What.
    #[serde(rename = "type")]
    pub kind: String,
    /// Headers of the request.
    pub request_header_modifier: Option<HeaderModifier>,
    /// Headers of the answer.
    pub response_header_modifier: Option<HeaderModifier>,
    /// Where clients are sent.
    pub request_redirect: Option<Redirect>,
    /// What the URL becomes.
    pub url_rewrite: Option<Redirect>,
    /// What gets copies.
    pub request_mirror: Option<Mirrored>,
    /// Whose pages may read answers.
    pub cors: Option<Cors>,
}

/// Whose pages may read answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cors {
    /// Of which origins.
    pub allow_origins: Vec<String>,
    /// With which methods.
    pub allow_methods: Vec<String>,
    /// With which headers.
    pub allow_headers: Vec<String>,
    /// Which headers of answers.
    pub expose_headers: Vec<String>,
    /// Whether as the user.
    pub allow_credentials: bool,
    /// For how long a browser need not ask again, seconds.
    pub max_age: Option<u64>,
}

/// What gets copies of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mirrored {
    /// What.
    pub backend_ref: Reference,
    /// Of a hundred requests so many.
    pub percent: Option<u32>,
    /// Or such a part.
    pub fraction: Option<Fraction>,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fraction {
    /// So many.
    pub numerator: u32,
    /// Of so many; of a hundred when left out.
    pub denominator: Option<u32>,
}

impl Mirrored {
    /// Of a million requests so many; all when left out.
    ///
    /// # Errors
    ///
    /// It is more than all, or a part of nothing.
    pub fn millionths(&self) -> Result<Option<u32>, String> {
        let (part, of) = match (self.percent, self.fraction) {
            (None, None) => return Ok(None),
            (Some(percent), _) => (percent, 100),
            (None, Some(it)) => (it.numerator, it.denominator.unwrap_or(100)),
        };
        let millionths = (u64::from(part) * 1_000_000).checked_div(of.into());
        let found = millionths.filter(|_| part <= of);
        let found = found.and_then(|it| u32::try_from(it).ok());
        let bad = || format!("filters.requestMirror: {part} of {of} is no share");
        found.map(Some).ok_or_else(bad)
    }
}

/// What of headers is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderModifier {
    /// What they are.
    pub set: Vec<Compared>,
    /// What they are as well.
    pub add: Vec<Compared>,
    /// What is gone.
    pub remove: Vec<String>,
}

/// Where clients are sent, or what the URL becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Redirect {
    /// The scheme.
    pub scheme: Option<String>,
    /// The host.
    pub hostname: Option<String>,
    /// The path.
    pub path: Option<PathModifier>,
    /// The port.
    pub port: Option<i32>,
    /// The status.
    pub status_code: Option<u16>,
}

/// What a path becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PathModifier {
    /// All of it.
    pub replace_full_path: Option<String>,
    /// The prefix that matched.
    pub replace_prefix_match: Option<String>,
}

/// How long requests may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// The whole.
    pub request: Option<String>,
    /// One backend.
    pub backend_request: Option<String>,
}

/// Who may refer to what of another namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrantSpec {
    /// Who.
    pub from: Vec<Reference>,
    /// To what.
    pub to: Vec<Granted>,
}

/// What may be referred to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Granted {
    /// Its group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name; any when left out.
    pub name: Option<String>,
}
