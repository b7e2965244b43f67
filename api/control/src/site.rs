//! HTTP that a gateway serves: sites, and which request of theirs leads where.
//!
//! A site is one tenant's. Sites share their gateway's ports, and those of one tenant a name: then
//! their routes are compared with each other ([`Match`]).

use std::{collections::BTreeMap, fmt, net::IpAddr, num::NonZeroU16};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cors::Cors;

/// Names that are served, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Site {
    /// A stable name, such as `NAMESPACE/NAME`.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// The address clients use; where unspecified, every instance puts its own there.
    pub address: IpAddr,
    /// The port of plain HTTP; not served there when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<NonZeroU16>,
    /// The port of HTTP over TLS, for the names of its certificates; not served there when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<NonZeroU16>,
    /// The names it is asked by ([`is_host`]).
    pub hosts: Vec<String>,
    /// What it shows to be who is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
    /// Whether a plain request for a name with a certificate is sent to `https`.
    #[serde(default)]
    pub redirect: bool,
    /// Which request leads where. One that fits nowhere is answered with 404.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The names it is shown for ([`is_host`]).
    pub hosts: Vec<String>,
    /// The certificates, the site's own first: PEM.
    pub chain: String,
    /// The private key: PEM. Never shown.
    pub key: String,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Requests that are served alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The names asked for, of the site's; all of them when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The requests.
    #[serde(default)]
    pub matches: Match,
    /// What becomes of them.
    pub action: Action,
    /// What of a request's headers is changed.
    #[serde(default, skip_serializing_if = "HeaderChange::is_none")]
    pub request_headers: HeaderChange,
    /// What of an answer's headers is changed.
    #[serde(default, skip_serializing_if = "HeaderChange::is_none")]
    pub response_headers: HeaderChange,
    /// Whose pages may read answers; where left out nothing is said of it but by backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
}

/// Requests: all that is named must fit. Of two that fit the more specific decides, in the order of
/// Gateway API (`HTTPRouteRule.matches`): an exact path, the longest prefix, a method, most headers,
/// most query parameters; then the one that stands first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Match {
    /// The path.
    pub path: PathMatch,
    /// The method, such as `GET`; any when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers, by their names in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, ValueMatch>,
    /// Query parameters, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, ValueMatch>,
    /// Calls of gRPC alone (`content-type: application/grpc`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
}

/// A path that fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "type", content = "value")]
pub enum PathMatch {
    /// By its elements from the left: `/a` fits `/a` and `/a/b`, not `/ab`.
    Prefix(String),
    /// As a whole.
    Exact(String),
    /// As a whole, by a regular expression (RE2).
    Regex(String),
}

impl Default for PathMatch {
    fn default() -> Self {
        Self::Prefix("/".to_owned())
    }
}

/// A value that fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "type", content = "value")]
pub enum ValueMatch {
    /// As a whole.
    Exact(String),
    /// As a whole, by a regular expression (RE2).
    Regex(String),
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Action {
    /// A backend answers it.
    #[serde(rename_all = "camelCase")]
    Forward {
        /// The pools, of the site's tenant. Without one of a weight above 0 the answer is 500, and a
        /// call of gRPC is UNAVAILABLE.
        backends: Vec<RouteBackend>,
        /// What its path and host become.
        #[serde(default)]
        rewrite: Rewrite,
        /// Milliseconds for the whole answer; 0 is without an end.
        #[serde(default)]
        timeout_milliseconds: u32,
        /// Milliseconds for the answer of one backend; 0 is without an end.
        #[serde(default)]
        backend_timeout_milliseconds: u32,
        /// How often another backend is asked after one that could not be reached or reset the stream.
        #[serde(default)]
        retries: u8,
        /// Who gets requests as well; their answers are dropped.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mirrors: Vec<Mirror>,
    },
    /// The client is sent elsewhere. What is left out stays as it was asked for.
    #[serde(rename_all = "camelCase")]
    Redirect {
        /// `http` or `https`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scheme: Option<String>,
        /// The host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The port.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<NonZeroU16>,
        /// The path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathChange>,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
    /// The gateway answers it itself, without a body.
    Answer {
        /// 200 to 599.
        status: u16,
    },
}

/// A share of a route's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteBackend {
    /// The pool, of the site's tenant.
    pub pool: String,
    /// Its share among the route's.
    pub weight: u32,
    /// What of the headers of requests that it gets is changed, after the route's.
    #[serde(default, skip_serializing_if = "HeaderChange::is_none")]
    pub request_headers: HeaderChange,
    /// What of the headers of its answers is changed, before the route's.
    #[serde(default, skip_serializing_if = "HeaderChange::is_none")]
    pub response_headers: HeaderChange,
}

/// A copy of a route's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// The pool, of the site's tenant. One that is not there gets nothing.
    pub pool: String,
    /// Of a million requests so many.
    pub millionths: u32,
}

/// What a request is changed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rewrite {
    /// The host that the backend is asked by; the client's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The path; the client's when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
}

/// What a path is changed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "type", content = "value")]
pub enum PathChange {
    /// All of it.
    Full(String),
    /// The prefix that was matched, by its elements.
    Prefix(String),
}

/// What of headers is changed, by their names in lower case: removed, then set, then added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderChange {
    /// These have this value alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// These have this value as well.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub add: BTreeMap<String, String>,
    /// These are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

impl HeaderChange {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.set.is_empty() && self.add.is_empty() && self.remove.is_empty()
    }
}

/// Whether a site may be asked by it: a DNS name in lower case, at most with `*` as its first label
/// (RFC 1034 section 4.3.3), or `*` alone, which is every name nobody else has.
#[must_use]
pub fn is_host(host: &str) -> bool {
    host == "*" || crate::frontend::is_server_name(host.strip_prefix("*.").unwrap_or(host))
}

/// Whether it may be a method, or the name of a header: a token (RFC 9110 section 5.6.2).
#[must_use]
pub fn is_token(text: &str) -> bool {
    let is_of_it = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_it)
}

/// What backends of a pool speak when requests are sent to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpVersion {
    /// HTTP/1.1, and WebSocket over it.
    #[default]
    One,
    /// HTTP/2 without TLS, as gRPC does.
    Two,
}
