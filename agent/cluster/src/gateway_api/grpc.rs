//! GRPCRoutes, as HTTPRoutes of the same meaning: a call is a POST of `/SERVICE/METHOD`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Compared, Filter, Object, Reference, Route, RouteMatch, RouteRule, RouteSpec, Routed};

/// A GRPCRoute.
pub type GrpcRoute = Object<GrpcSpec>;

/// Which calls go where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcSpec {
    /// What it is attached to.
    pub parent_refs: Vec<Reference>,
    /// Its names.
    pub hostnames: Vec<String>,
    /// Its rules.
    pub rules: Vec<GrpcRule>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRule {
    /// Which calls; any of these.
    pub matches: Vec<GrpcMatch>,
    /// What is done with them.
    pub filters: Vec<Filter>,
    /// Where they go.
    pub backend_refs: Vec<Reference>,
    /// How they stay with a backend.
    pub session_persistence: Option<Value>,
}

/// Which calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcMatch {
    /// Of what.
    pub method: Option<Called>,
    /// By headers.
    pub headers: Vec<Compared>,
}

/// What is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Called {
    /// How it is compared.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The service; any when left out.
    pub service: Option<String>,
    /// The method; any when left out.
    pub method: Option<String>,
}

impl From<GrpcRoute> for Route {
    fn from(route: GrpcRoute) -> Self {
        let GrpcSpec {
            parent_refs,
            hostnames,
            rules,
        } = route.spec;
        let rules = rules.into_iter().map(|rule| RouteRule {
            matches: rule.matches.into_iter().map(matched).collect(),
            filters: rule.filters,
            backend_refs: rule.backend_refs,
            session_persistence: rule.session_persistence,
            ..RouteRule::default()
        });
        Self {
            metadata: route.metadata,
            spec: RouteSpec {
                of: Routed::Grpc,
                parent_refs,
                hostnames,
                rules: rules.collect(),
            },
            status: route.status,
        }
    }
}

fn matched(it: GrpcMatch) -> RouteMatch {
    RouteMatch {
        path: it.method.and_then(called),
        headers: it.headers,
        ..RouteMatch::default()
    }
}

/// The path of a call.
fn called(call: Called) -> Option<Compared> {
    let named = |text: Option<String>| text.filter(|it| !it.is_empty());
    let (service, method) = (named(call.service), named(call.method));
    let path = |kind: &str, value: String| {
        Some(Compared {
            kind: Some(kind.to_owned()),
            value: Some(value),
            ..Compared::default()
        })
    };
    let exactly = match call.kind.as_deref() {
        None | Some("Exact") => true,
        Some("RegularExpression") => false,
        // What nobody knows is refused by whoever reads paths.
        Some(other) => return path(other, String::new()),
    };
    match (service, method) {
        (None, None) => None,
        (Some(service), Some(method)) if exactly => path("Exact", format!("/{service}/{method}")),
        (Some(service), None) if exactly => path("PathPrefix", format!("/{service}")),
        (None, Some(method)) if exactly => {
            // What a method may be (`GRPCMethodMatch.method`) means itself in an expression.
            path("RegularExpression", format!("/{ANY}/{method}"))
        }
        (service, method) => {
            let part = |text: Option<String>| match text {
                Some(text) => format!("(?:{text})"),
                None => ANY.to_owned(),
            };
            let whole = format!("/{}/{}", part(service), part(method));
            path("RegularExpression", whole)
        }
    }
}

/// Any service or method.
const ANY: &str = "[^/]+";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_a_path() {
        let cases = [
            (json!({}), ""),
            (
                json!({"service": "shop.Basket", "method": "Add"}),
                "Exact /shop.Basket/Add",
            ),
            (
                json!({"type": "Exact", "service": "shop.Basket", "method": ""}),
                "PathPrefix /shop.Basket",
            ),
            (json!({"method": "Add"}), "RegularExpression /[^/]+/Add"),
            (
                json!({"type": "RegularExpression", "service": "shop\\..*"}),
                "RegularExpression /(?:shop\\..*)/[^/]+",
            ),
            (
                json!({"type": "RegularExpression", "service": "a|b", "method": "Get.*"}),
                "RegularExpression /(?:a|b)/(?:Get.*)",
            ),
            (json!({"type": "Newer", "method": "x"}), "Newer "),
        ];
        for (method, expected) in cases {
            let call: Called = serde_json::from_value(method).unwrap();
            let found = called(call).map(|path| {
                let text = |text: Option<String>| text.unwrap_or_default();
                format!("{} {}", text(path.kind), text(path.value))
            });
            assert_eq!(found.unwrap_or_default(), expected);
        }
    }
}
