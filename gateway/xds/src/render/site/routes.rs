//! Routes of an address and port.

use std::net::SocketAddr;

use envoy_types::pb::envoy::{
    config::route::v3::{
        DirectResponseAction, HeaderMatcher, RedirectAction, Route, RouteConfiguration, RouteMatch,
        VirtualHost,
        header_matcher::HeaderMatchSpecifier,
        redirect_action::{RedirectResponseCode, SchemeRewriteSpecifier},
        route::Action,
        route_match::PathSpecifier,
    },
    r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
};
use serde::Serialize;

use super::{
    names::{CHALLENGES, Host, Names},
    route::{self, Served, re2},
};
use crate::{
    Kind,
    render::{check::Pools, names},
    resource::Resource,
};

/// Where routes are: what is left out of a redirect is taken from here.
#[derive(Clone, Copy)]
pub struct Door {
    pub port: u16,
    pub tls: bool,
}

/// Names that serve alike, and what.
#[derive(Serialize)]
struct Made<'a> {
    domains: &'a [&'a str],
    /// The port of TLS that everything is sent to, but for challenges.
    secured: Option<u16>,
    served: Vec<Served<'a>>,
}

/// The routes of everything that is served plain there.
pub fn plain(at: SocketAddr, tenants: &[Names<'_>], pools: &Pools<'_>) -> Resource {
    let door = Door {
        port: at.port(),
        tls: false,
    };
    let name = names::http_listener(at);
    let made: Vec<Made<'_>> = tenants.iter().flat_map(|names| of(names, pools)).collect();
    render(name, door, &made)
}

/// The routes of a tenant that are served over TLS there.
pub fn tls(at: SocketAddr, tenant: &str, names: &Names<'_>, pools: &Pools<'_>) -> Resource {
    let door = Door {
        port: at.port(),
        tls: true,
    };
    let name = format!("{}/{tenant}", names::tls_listener(at));
    let made: Vec<Made<'_>> = of(names, pools).collect();
    render(name, door, &made)
}

fn of<'a>(names: &'a Names<'_>, pools: &'a Pools<'_>) -> impl Iterator<Item = Made<'a>> {
    names.alike.iter().map(|(domains, host)| {
        let Host { secured, routes } = host;
        let served = routes
            .iter()
            .map(|route| Served::new(names.tenant, route, pools));
        Made {
            domains,
            secured: secured.map(|port| port.get()),
            served: served.collect(),
        }
    })
}

fn render(name: String, door: Door, made: &[Made<'_>]) -> Resource {
    let mut hosts: Vec<VirtualHost> = made.iter().map(|made| host(made, door)).collect();
    let is_any = made.iter().any(|made| made.domains.contains(&ANY));
    if door.tls && !is_any {
        // A browser that has a connection for another name of the same certificate tries anew.
        hosts.push(VirtualHost {
            name: ANY.to_owned(),
            domains: vec![ANY.to_owned()],
            routes: vec![Route {
                r#match: Some(all()),
                action: Some(answer(MISDIRECTED)),
                ..Route::default()
            }],
            ..VirtualHost::default()
        });
    }
    let configuration = RouteConfiguration {
        name: name.clone(),
        virtual_hosts: hosts,
        ignore_port_in_host_matching: true,
        ..RouteConfiguration::default()
    };
    Resource::new(Kind::Route, name, &(door.tls, made), &configuration)
}

fn host(made: &Made<'_>, door: Door) -> VirtualHost {
    let mut routes = vec![climbing()];
    routes.extend(made.secured.map(|port| secure(port, door)));
    routes.extend(
        made.served
            .iter()
            .flat_map(|served| route::render(served, door)),
    );
    VirtualHost {
        name: made.domains.first().copied().unwrap_or_default().to_owned(),
        domains: made.domains.iter().map(|one| (*one).to_owned()).collect(),
        routes,
        ..VirtualHost::default()
    }
}

/// A path that climbs by escaped slashes is asked for by nobody who means well: what Envoy takes for
/// one element may be several for a backend, outside of the prefix that leads to it.
fn climbing() -> Route {
    Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::SafeRegex(re2(CLIMBING.to_owned()))),
            ..RouteMatch::default()
        }),
        action: Some(answer(BAD_REQUEST)),
        ..Route::default()
    }
}

/// Everything but challenges is sent to TLS.
fn secure(port: u16, door: Door) -> Route {
    let is_challenge = StringMatcher {
        match_pattern: Some(MatchPattern::Prefix(CHALLENGES.to_owned())),
        ..StringMatcher::default()
    };
    let redirect = RedirectAction {
        // Envoy leaves out the port of plain HTTP, if it is the usual one.
        port_redirect: if (door.port, port) == (80, 443) {
            0
        } else {
            port.into()
        },
        response_code: RedirectResponseCode::PermanentRedirect.into(),
        scheme_rewrite_specifier: Some(SchemeRewriteSpecifier::HttpsRedirect(true)),
        ..RedirectAction::default()
    };
    Route {
        r#match: Some(RouteMatch {
            headers: vec![HeaderMatcher {
                name: ":path".to_owned(),
                invert_match: true,
                header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(is_challenge)),
                ..HeaderMatcher::default()
            }],
            ..all()
        }),
        action: Some(Action::Redirect(redirect)),
        ..Route::default()
    }
}

fn all() -> RouteMatch {
    RouteMatch {
        path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
        ..RouteMatch::default()
    }
}

pub const fn answer(status: u32) -> Action {
    Action::DirectResponse(DirectResponseAction {
        status,
        body: None,
        body_format: None,
    })
}

/// The name that is every name.
const ANY: &str = "*";

/// RFC 9110 section 15.5.1.
const BAD_REQUEST: u32 = 400;

/// RFC 9110 section 15.5.20.
const MISDIRECTED: u32 = 421;

/// `..` beside an escaped slash or a semicolon.
const CLIMBING: &str =
    r"(?i).*(%2f|%5c|\\)(\.|%2e){2}(/|%2f|%5c|\\|;|$).*|.*/(\.|%2e){2}(%2f|%5c|\\|;).*";
