//! Listeners.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{
                DataSource, SubstitutionFormatString, data_source,
                substitution_format_string::Format,
            },
            listener::v3::{
                Filter, FilterChain, FilterChainMatch, Listener, ListenerFilter, filter,
                listener_filter,
            },
        },
        extensions::filters::{
            common::set_filter_state::v3::{
                FilterStateValue,
                filter_state_value::{Key, Value},
            },
            listener::tls_inspector::v3::TlsInspector,
            network::{
                set_filter_state::v3::Config as SetFilterState,
                tcp_proxy::v3::{TcpProxy, tcp_proxy::ClusterSpecifier},
            },
        },
        r#type::v3::{
            HashPolicy,
            hash_policy::{PolicySpecifier, SourceIp},
        },
    },
    google::protobuf::Any,
};
use kedge_control::frontend::{Affinity, Frontend, Limits, Pool, ProxyProtocol};

use super::{
    names, outer,
    proto::{address, any, keepalive, number, span, yes},
    ranges::{self, matcher},
    site::{Chain, FORM, covers},
};
use crate::resource::Resource;

/// The listener of one TCP frontend.
pub fn tcp(frontend: &Frontend, pool: &Pool, outer: Option<&ProxyProtocol>) -> Resource {
    let at = SocketAddr::new(frontend.address, frontend.port.get());
    let name = names::tcp_listener(at);
    let cluster = names::cluster(&pool.tenant, &pool.name, frontend.client_ip);
    let made = (at, &cluster, pool.limits.idle_seconds, pool.affinity);
    let proxy = TcpProxy {
        hash_policy: match pool.affinity {
            Affinity::None => Vec::new(),
            Affinity::ClientIp => vec![by_client()],
        },
        ..proxy(cluster.clone(), pool.limits)
    };
    let from = &frontend.source_ranges;
    let listener = Listener {
        filter_chains: vec![FilterChain {
            // It has a name before anybody asks for it: the first ranges leave what is open as it is. An Envoy that
            // knows it without one is not told of the name alone, it is not in `made`.
            name: ranges::CHAIN.to_owned(),
            filters: vec![network("envoy.filters.network.tcp_proxy", any(&proxy))],
            ..FilterChain::default()
        }],
        filter_chain_matcher: (!from.is_empty()).then(|| matcher(from, outer)),
        ..listener(name, at)
    };
    if from.is_empty() {
        return outer::listener(listener, &made, outer);
    }
    outer::listener(listener, &(made, from), outer)
}

/// The listener of everything with TLS on this address and port: of the names in `passed`, which are
/// passed through, and of those of `chains`, which are served.
///
/// It does not know the names that are passed through, and none that comes or goes changes it; but for
/// wildcards, and those that a wildcard would have.
pub fn tls(
    at: SocketAddr,
    passed: &BTreeSet<&str>,
    chains: &[Chain],
    outer: Option<&ProxyProtocol>,
) -> Resource {
    let name = names::tls_listener(at);
    let served = chains.iter().flat_map(|chain| &chain.names);
    let served: Vec<&str> = served.map(String::as_str).collect();
    let (wild, exact): (Vec<&str>, Vec<&str>) = passed.iter().partition(|it| it.starts_with('*'));
    let is_covered = |name: &&str| served.iter().chain(&wild).any(|wide| covers(wide, name));
    let own: Vec<&str> = exact.iter().copied().filter(is_covered).collect();
    let rest = !exact.is_empty() && !served.contains(&"*");
    let mut all = Vec::new();
    if rest {
        all.push(passthrough(at, &[]));
    }
    if !own.is_empty() {
        all.push(FilterChain {
            name: "passed".to_owned(),
            ..passthrough(at, &own)
        });
    }
    all.extend(wild.iter().map(|name| below(at, name)));
    all.extend(chains.iter().flat_map(|chain| chain.render(&name)));
    let listener = Listener {
        listener_filters: vec![first(
            "envoy.filters.listener.tls_inspector",
            any(&TlsInspector::default()),
        )],
        filter_chains: all,
        ..listener(name, at)
    };
    // Its clusters are called after where it is, which they once were not: it is another one since.
    let to = names::passthrough(at, "");
    if chains.is_empty() && wild.is_empty() {
        return outer::listener(listener, &to, outer);
    }
    outer::listener(listener, &(to, rest, own, wild, chains, FORM), outer)
}

/// The chain of these names, or of all of which no other chain knows.
fn passthrough(at: SocketAddr, names: &[&str]) -> FilterChain {
    let format = names::passthrough(at, "%REQUESTED_SERVER_NAME%");
    let state = SetFilterState {
        on_new_connection: vec![FilterStateValue {
            key: Some(Key::ObjectKey("envoy.tcp_proxy.cluster".to_owned())),
            value: Some(Value::FormatString(SubstitutionFormatString {
                format: Some(Format::TextFormatSource(DataSource {
                    specifier: Some(data_source::Specifier::InlineString(format)),
                    ..DataSource::default()
                })),
                ..SubstitutionFormatString::default()
            })),
            ..FilterStateValue::default()
        }],
        ..SetFilterState::default()
    };
    let proxy = TcpProxy {
        // For those of the clusters that keep a client with a member.
        hash_policy: vec![by_client()],
        ..proxy(names::passthrough(at, NOBODY), Limits::default())
    };
    FilterChain {
        // Bytes that are not TLS reach nobody.
        filter_chain_match: Some(FilterChainMatch {
            transport_protocol: "tls".to_owned(),
            server_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..FilterChainMatch::default()
        }),
        filters: vec![
            network("envoy.filters.network.set_filter_state", any(&state)),
            network("envoy.filters.network.tcp_proxy", any(&proxy)),
        ],
        ..FilterChain::default()
    }
}

/// The chain of all names below one, that no closer chain has: they lead to one cluster.
fn below(at: SocketAddr, wildcard: &str) -> FilterChain {
    let proxy = TcpProxy {
        hash_policy: vec![by_client()],
        ..proxy(names::passthrough(at, wildcard), Limits::default())
    };
    FilterChain {
        name: format!("passed/{wildcard}"),
        filters: vec![network("envoy.filters.network.tcp_proxy", any(&proxy))],
        ..passthrough(at, &[wildcard])
    }
}

pub fn listener(name: String, at: SocketAddr) -> Listener {
    Listener {
        stat_prefix: name.clone(),
        name,
        address: Some(address(at.ip(), at.port())),
        // A gateway whose VIP is elsewhere has the listener already.
        freebind: Some(yes()),
        tcp_keepalive: Some(keepalive()),
        per_connection_buffer_limit_bytes: Some(number(BUFFER)),
        ..Listener::default()
    }
}

fn proxy(cluster: String, limits: Limits) -> TcpProxy {
    TcpProxy {
        stat_prefix: cluster.clone(),
        max_connect_attempts: Some(number(ATTEMPTS)),
        idle_timeout: Some(span(Duration::from_secs(limits.idle_seconds.into()))),
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster)),
        ..TcpProxy::default()
    }
}

const fn by_client() -> HashPolicy {
    HashPolicy {
        policy_specifier: Some(PolicySpecifier::SourceIp(SourceIp {})),
    }
}

/// What looks at a connection before anything is made of it.
pub fn first(name: &str, config: Any) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(config)),
        ..ListenerFilter::default()
    }
}

pub fn network(name: &str, config: Any) -> Filter {
    Filter {
        name: name.to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(config)),
    }
}

/// A name that no server has: there is never a cluster for it.
const NOBODY: &str = "-";

/// Members that are tried before a client is refused.
const ATTEMPTS: u32 = 3;

/// What is kept of a connection whose other side is slow, bytes.
const BUFFER: u32 = 1 << 20;
