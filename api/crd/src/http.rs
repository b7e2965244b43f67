//! HTTPLoadBalancer: names and paths of a tenant's Ingress or route, offered at the gateway.

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroU16};

use kedge_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::{Condition, Status},
    meta::{GROUP, Object, Resource, VERSION},
    traffic::{Ingress, Source},
};

/// Names and paths of a tenant's Ingress or route, offered at the gateway.
pub type HttpLoadBalancer = Object<HttpLoadBalancerSpec, HttpLoadBalancerStatus>;

/// What the tenant's cluster asks for; the manager writes it for the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.hostnames) || self.hostnames.all(h, h == '*' || h.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",
    "message": "hostnames must be DNS names in lower case, at most with one leading wildcard, or *",
}, {
    "rule": "!has(oldSelf.source) || (has(self.source) && self.source == oldSelf.source)",
    "message": "source is immutable",
}]))]
pub struct HttpLoadBalancerSpec {
    /// The object it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The names it wants beside the generated one. `*` is every name that nobody else has; where its tenant may
    /// have that, it is wanted where nothing is listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub hostnames: Vec<String>,
    /// Whether it wants every other name beside those that are listed, as it does where none is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_hostnames: bool,
    /// Which request goes where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<HttpRule>,
    /// How TLS ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tls: Vec<Tls>,
    /// Whether plain requests for names with a certificate are sent to HTTPS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub https_redirect: bool,
    /// By which protocols its names are asked for; when left out by HTTP, and by HTTPS as far as there is a
    /// certificate. A name that is asked for otherwise is answered as if this load balancer were not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub listeners: Vec<HttpListener>,
    /// An address that it is served at in the place of its gateway's. One that has neither names nor rules of its own
    /// serves nothing: it holds the address for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<HttpAddress>,
}

/// An address from a pool that load balancers of one tenant share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpAddress {
    /// The VIPPool of the same namespace that it is from.
    #[schemars(length(min = 1, max = 253))]
    pub pool: String,
    /// Who shares it, such as a Gateway's `NAMESPACE/NAME`: those of a tenant that say the same and name the same pool
    /// have one address. When left out nobody else does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub shared_by: String,
    /// Which of the pool's addresses it is to be; the lowest free one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub ip: Option<IpAddr>,
}

/// A protocol that names are asked for by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpListener {
    /// The protocol.
    pub protocol: HttpProtocol,
    /// The names; all of the load balancer's when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub hosts: Vec<String>,
    /// The port, at an address of its own (`spec.address`); the gateway's for the protocol when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
}

/// What names are asked for by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpProtocol {
    /// Plain HTTP.
    #[default]
    #[serde(rename = "HTTP")]
    Http,
    /// HTTP over TLS.
    #[serde(rename = "HTTPS")]
    Https,
}

/// Requests that are served alike. Of several rules that fit one request the more specific decides, in the
/// order of Gateway API (`HTTPRouteRule.matches`): an exact path, the longest prefix, a method, most headers,
/// most query parameters; then the one that stands first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.redirect) || !has(self.backends)",
    "message": "set redirect or backends, one of the two",
}]))]
pub struct HttpRule {
    /// The names asked for; all of the load balancer's when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub hosts: Vec<String>,
    /// The paths; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub paths: Vec<HttpPath>,
    /// The method, such as `GET`; any when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub method: Option<String>,
    /// Headers that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub headers: BTreeMap<String, String>,
    /// Query parameters that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub query: BTreeMap<String, String>,
    /// Headers whose values fit these regular expressions (RE2) as a whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub header_expressions: BTreeMap<String, String>,
    /// Query parameters whose values fit these regular expressions (RE2) as a whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub query_expressions: BTreeMap<String, String>,
    /// Whether it is for calls of gRPC alone (`content-type: application/grpc`), whose path is
    /// `/SERVICE/METHOD`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
    /// What serves them; with none of a weight above 0 the answer is 500, and UNAVAILABLE for gRPC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub backends: Vec<HttpBackend>,
    /// Where clients are sent instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<HttpRedirect>,
    /// What a request is changed to before a backend gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<HttpRewrite>,
    /// What of a request's headers is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HttpHeaders>,
    /// What of an answer's headers is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HttpHeaders>,
    /// How long the whole answer may take; without an end when left out or `0s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub timeout: Option<Span>,
    /// How long the answer of one backend may take; without an end when left out or `0s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub backend_timeout: Option<Span>,
    /// What gets copies of them; what it answers is dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub mirrors: Vec<HttpMirror>,
    /// Whose pages may read what is answered: the gateway answers browsers' preflight requests itself. Where left
    /// out that is the matter of backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<HttpCors>,
}

/// A path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.path.startsWith('/')", "message": "path must begin with /",
}]))]
pub struct HttpPath {
    /// The path.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
    /// How it is compared; `Prefix` when left out.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<PathKind>,
}

/// How a path is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathKind {
    /// By its elements from the left.
    #[default]
    Prefix,
    /// As a whole.
    Exact,
    /// As a whole, by a regular expression (RE2).
    RegularExpression,
}

/// Where clients are sent. What is left out stays as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRedirect {
    /// The scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub hostname: Option<String>,
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
    /// 301, 302, 303, 307 or 308; 302 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 301, max = 308))]
    pub status_code: Option<u16>,
}

/// A URL's scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scheme {
    /// HTTP.
    #[serde(rename = "http")]
    Http,
    /// HTTP over TLS.
    #[default]
    #[serde(rename = "https")]
    Https,
}

/// What a request is changed to. What is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRewrite {
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub hostname: Option<String>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
}

/// What a path is changed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.full) != has(self.prefix)", "message": "set full or prefix, one of the two",
}]))]
pub struct PathChange {
    /// All of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub full: Option<String>,
    /// The prefix that was matched, by its elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub prefix: Option<String>,
}

/// What of headers is changed: removed, then set, then added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpHeaders {
    /// These have this value alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub set: BTreeMap<String, String>,
    /// These have this value as well.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub add: BTreeMap<String, String>,
    /// These are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 256)))]
    pub remove: Vec<String>,
}

/// A TCPLoadBalancer of the same namespace that serves requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpBackend {
    /// The TCPLoadBalancer's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its port.
    pub port: NonZeroU16,
    /// Its share among the rule's backends; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub weight: Option<u16>,
    /// What of the headers of requests that it gets is changed, after the rule's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HttpHeaders>,
    /// What of the headers of its answers is changed, before the rule's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HttpHeaders>,
}

/// A TCPLoadBalancer of the same namespace that gets copies of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpMirror {
    /// The TCPLoadBalancer's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its port.
    pub port: NonZeroU16,
    /// Of a million requests so many; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub millionths: Option<u32>,
}

/// Whose pages may read answers (Fetch standard, "CORS protocol"). `*`, alone in a list, is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpCors {
    /// Their origins, `https://HOST[:PORT]` or `http://…`, HOST perhaps with `*` as its first label, or alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub allow_origins: Vec<String>,
    /// The methods they may use; `GET`, `HEAD` and `POST` always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 32)))]
    pub allow_methods: Vec<String>,
    /// The headers they may send, besides those that are always allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    pub allow_headers: Vec<String>,
    /// The headers of answers they may read, besides those that they always may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    pub expose_headers: Vec<String>,
    /// Whether they may ask as the user: with cookies and credentials that the browser has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_credentials: bool,
    /// How long browsers need not ask again; `5s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub max_age: Option<Span>,
}

/// How TLS ends for names: at the gateway, with a certificate from a Secret or from an issuer, or where it is
/// passed through to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.secretRef) ? 1 : 0) + (has(self.issuer) ? 1 : 0) + (has(self.passthrough) && self.passthrough ? 1 : 0) == 1",
    "message": "set secretRef, issuer or passthrough, one of the three",
}]))]
pub struct Tls {
    /// The names it is for; all of the load balancer's when empty. With `*` it is shown to clients that ask for a
    /// name nobody has as well, where the tenant may have every name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub hosts: Vec<String>,
    /// The Secret (`kubernetes.io/tls`) that holds it, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_ref: Option<String>,
    /// The issuer of cert-manager that makes it, one of `Tenant.spec.issuers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub issuer: Option<String>,
    /// TLS ends at the backend of the rule for the name, which has nothing but hosts and one backend; the gateway
    /// sees the name alone (SNI).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passthrough: bool,
}

/// What is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpLoadBalancerStatus {
    /// `<source>.<tenant>.<domain>`: a name that is its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub generated_hostname: String,
    /// The EdgeGateway where it has its names, `NAMESPACE/NAME`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub served_by: String,
    /// The address from a pool that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<HttpAddressStatus>,
    /// The addresses clients use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ingress: Vec<Ingress>,
    /// The names it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub hostnames: Vec<HostnameStatus>,
    /// Accepted, Programmed, ResolvedRefs, CertificateReady, DNSReady, Ready.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// An address from a pool, and what it was chosen for. It stays as long as that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpAddressStatus {
    /// The address.
    pub ip: IpAddr,
    /// The pool.
    #[schemars(length(max = 253))]
    pub pool: String,
    /// Who shares it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub shared_by: String,
}

/// A name, and what of it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostnameStatus {
    /// The name.
    #[schemars(length(max = 253))]
    pub hostname: String,
    /// Whether its record is there.
    #[serde(default)]
    pub dns: Status,
    /// Whether its certificate is there.
    #[serde(default)]
    pub tls: Status,
}

impl Resource for HttpLoadBalancerSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "HTTPLoadBalancer";
    const NAMESPACED: bool = true;
    type Status = HttpLoadBalancerStatus;
}
