//! What a route is attached to: listeners that let it, by their names.

use super::listener::{Judged, Place, Reason};
use crate::{
    gateway_api::{Reference, Route, Routed},
    snapshot::{GatewayApi, Key},
};

/// A listener that a route is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Where it stands among the Gateway's.
    pub at: usize,
    /// The names the route has there; all when empty.
    pub hostnames: Vec<String>,
}

/// The listeners that a reference of a route is attached to.
pub fn attach(
    api: &GatewayApi,
    route: &Route,
    reference: &Reference,
    judged: &Judged<'_>,
) -> Result<Vec<Attached>, Reason> {
    let is_meant = |place: &Place<'_>| {
        let section = reference.section_name.as_ref();
        section.is_none_or(|name| *name == place.listener.name)
            && reference
                .port
                .is_none_or(|port| port == place.listener.port)
    };
    let all = judged.listeners.iter().enumerate();
    let meant: Vec<_> = all.filter(|(_, place)| is_meant(place)).collect();
    if meant.is_empty() || !judged.is_accepted() {
        let text = "the Gateway has no such listener, or is not accepted".to_owned();
        return Err(("NoMatchingParent", text));
    }
    let open = meant.into_iter().filter(|(_, place)| {
        place.is_open() && place.takes(route.spec.of) && is_allowed(api, route, judged, place)
    });
    let open: Vec<_> = open.collect();
    if open.is_empty() {
        let kind = route.spec.of.kind();
        let text = format!("no listener lets {kind}s of this namespace be attached");
        return Err(("NotAllowedByListeners", text));
    }
    let mut conflict = None;
    let attached: Vec<Attached> = open
        .into_iter()
        .filter_map(|(at, place)| {
            let hostname = place.listener.hostname.as_deref();
            let hostname = hostname.filter(|name| !name.is_empty());
            let hostnames = intersect(hostname, &route.spec.hostnames)?;
            if let Some(other) = held(place, route.spec.of, &hostnames) {
                conflict = Some((place, other));
                return None;
            }
            Some(Attached { at, hostnames })
        })
        .collect();
    if let (true, Some((place, other))) = (attached.is_empty(), conflict) {
        let (kind, name) = (other.kind(), &place.listener.name);
        let text = format!("an older {kind} has one of its names at listener {name}");
        return Err(("HostnameConflict", text));
    }
    if attached.is_empty() {
        let text = "no listener has a name of spec.hostnames".to_owned();
        return Err(("NoMatchingListenerHostname", text));
    }
    Ok(attached)
}

fn is_allowed(api: &GatewayApi, route: &Route, judged: &Judged<'_>, place: &Place<'_>) -> bool {
    let from = Key::of(route).namespace;
    let own = Key::of(judged.gateway).namespace;
    let allowed = place.listener.allowed_routes.as_ref();
    let allowed = allowed.and_then(|it| it.namespaces.as_ref());
    match allowed.and_then(|it| it.from.as_deref()) {
        None | Some("Same") => from == own,
        Some("All") => true,
        Some("Selector") => {
            let selector = allowed.and_then(|it| it.selector.as_ref());
            let labels = api.namespaces.get(&from);
            selector
                .zip(labels)
                .is_some_and(|(selector, labels)| selector.matches(labels))
        }
        Some(_) => false,
    }
}

/// The kind of another route that has one of these names at a listener already.
fn held(place: &Place<'_>, of: Routed, hostnames: &[String]) -> Option<Routed> {
    let meets = |other: &[String]| {
        let mut pairs = hostnames
            .iter()
            .flat_map(|one| other.iter().map(move |it| (one, it)));
        hostnames.is_empty()
            || other.is_empty()
            || pairs.any(|(one, other)| covers(one, other) || covers(other, one))
    };
    let mut others = place.held.iter().filter(|(other, _)| *other != of);
    others.find(|(_, names)| meets(names)).map(|(of, _)| *of)
}

/// The names of a route at a listener; `None` where there are none, and empty for all.
fn intersect(listener: Option<&str>, route: &[String]) -> Option<Vec<String>> {
    let Some(listener) = listener else {
        return Some(route.to_vec());
    };
    if route.is_empty() {
        return Some(vec![listener.to_owned()]);
    }
    let each = route.iter().filter_map(|name| {
        if covers(listener, name) {
            return Some(name.clone());
        }
        covers(name, listener).then(|| listener.to_owned())
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then_some(each)
}

/// Whether a name is another one, or a wildcard for it.
fn covers(one: &str, other: &str) -> bool {
    let parent = one.strip_prefix('*');
    one == other || parent.is_some_and(|parent| other.ends_with(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_meet_where_one_is_for_the_other() {
        // The listener's name, the route's, and those of both.
        let cases = [
            ("", "", Some("")),
            ("", "a.example", Some("a.example")),
            ("a.example", "", Some("a.example")),
            ("*.example", "a.example b.other", Some("a.example")),
            ("*.example", "x.y.example", Some("x.y.example")),
            ("*.example", "*.b.example example", Some("*.b.example")),
            ("a.b.example", "*.example", Some("a.b.example")),
            ("a.example", "b.example", None),
        ];
        for (listener, route, expected) in cases {
            let of = Some(listener).filter(|it| !it.is_empty());
            let names: Vec<String> = route.split_whitespace().map(str::to_owned).collect();
            let found = intersect(of, &names).map(|names| names.join(" "));
            assert_eq!(found.as_deref(), expected, "{listener} {route}");
        }
    }
}
