//! Clusters.

use std::{net::IpAddr, time::Duration};

use envoy_types::pb::envoy::{
    config::{
        cluster::v3::{
            CircuitBreakers, Cluster, UpstreamConnectionOptions,
            circuit_breakers::Thresholds,
            cluster::{
                ClusterDiscoveryType, CommonLbConfig, DiscoveryType, EdsClusterConfig, LbPolicy,
            },
        },
        core::v3::{
            BindConfig, ExtraSourceAddress, HealthCheck, Http1ProtocolOptions,
            Http2ProtocolOptions, HttpProtocolOptions as Common, KeepaliveSettings,
            ProxyProtocolConfig, SocketAddress, TransportSocket,
            health_check::{HealthChecker, TcpHealthCheck},
            proxy_protocol_config,
            socket_address::PortSpecifier,
            transport_socket,
        },
    },
    extensions::{
        transport_sockets::{
            proxy_protocol::v3::ProxyProtocolUpstreamTransport, raw_buffer::v3::RawBuffer,
        },
        upstreams::http::v3::{
            HttpProtocolOptions,
            http_protocol_options::{
                ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
            },
        },
    },
    r#type::v3::Percent,
};
use kedge_control::{
    frontend::{Affinity, ClientIp, Health, Limits, Policy, Pool},
    site::HttpVersion,
};
use serde::Serialize;

use super::{
    Here, Way,
    proto::{any, keepalive, number, over_ads, span},
};
use crate::{Kind, resource::Resource};

/// What a cluster is made of.
#[derive(Serialize)]
struct Made<'a> {
    policy: Policy,
    affinity: Affinity,
    health: Option<Health>,
    limits: Limits,
    client_ip: ClientIp,
    namespace: Option<&'a String>,
}

impl<'a> Made<'a> {
    fn of(pool: &Pool, client_ip: ClientIp, here: &'a Here) -> Self {
        Self {
            policy: pool.policy,
            affinity: pool.affinity,
            health: pool.health.map(|health| how_often(health, here)),
            limits: pool.limits,
            client_ip,
            namespace: here.namespace(pool),
        }
    }
}

/// The cluster that connections are carried to.
pub fn render(way: &Way<'_>, here: &Here) -> Resource {
    let made = Made::of(way.pool, way.frontend.client_ip, here);
    let cluster = cluster(&way.cluster, way.pool, &made);
    Resource::new(Kind::Cluster, way.cluster.as_str(), &made, &cluster)
}

/// The cluster that requests are carried to.
pub fn http(name: &str, pool: &Pool, here: &Here) -> Resource {
    let made = Made::of(pool, ClientIp::Hidden, here);
    let mut cluster = cluster(name, pool, &made);
    // Three at a time is few where a host is gone that the tunnel has not missed yet.
    for threshold in cluster
        .circuit_breakers
        .iter_mut()
        .flat_map(|breakers| &mut breakers.thresholds)
    {
        threshold.max_retries = Some(number(made.limits.connections));
    }
    let options = (HTTP.to_owned(), any(&options(pool.http)));
    cluster.typed_extension_protocol_options.extend([options]);
    Resource::new(Kind::Cluster, name, &(&made, pool.http), &cluster)
}

fn cluster(name: &str, pool: &Pool, made: &Made<'_>) -> Cluster {
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(over_ads()),
            service_name: String::new(),
        }),
        connect_timeout: Some(span(CONNECT)),
        lb_policy: policy(made).into(),
        circuit_breakers: Some(breakers(made.limits)),
        // A member that is removed gets no new connections, whatever its checks said last.
        ignore_health_on_host_removal: true,
        common_lb_config: Some(CommonLbConfig {
            // Members that the tunnel says are dead get nothing, and if all of them are.
            healthy_panic_threshold: Some(Percent { value: 0.0 }),
            // A member is used when it is told, not a second later.
            update_merge_window: Some(span(Duration::ZERO)),
            ..CommonLbConfig::default()
        }),
        upstream_connection_options: Some(UpstreamConnectionOptions {
            tcp_keepalive: Some(keepalive()),
            ..UpstreamConnectionOptions::default()
        }),
        upstream_bind_config: made.namespace.map(|path| bind(path, pool)),
        health_checks: made.health.iter().map(check).collect(),
        transport_socket: transport(made.client_ip),
        ..Cluster::default()
    }
}

/// What is spoken with members.
fn options(version: HttpVersion) -> HttpProtocolOptions {
    let config = match version {
        HttpVersion::One => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
        HttpVersion::Two => ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {
            connection_keepalive: Some(KeepaliveSettings {
                interval: Some(span(Duration::from_secs(30))),
                timeout: Some(span(Duration::from_secs(10))),
                ..KeepaliveSettings::default()
            }),
            ..Http2ProtocolOptions::default()
        }),
    };
    HttpProtocolOptions {
        common_http_protocol_options: Some(Common {
            idle_timeout: Some(span(IDLE)),
            ..Common::default()
        }),
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(
            ExplicitHttpConfig {
                protocol_config: Some(config),
            },
        )),
        ..HttpProtocolOptions::default()
    }
}

const fn policy(made: &Made<'_>) -> LbPolicy {
    match (made.affinity, made.policy) {
        (Affinity::ClientIp, _) | (Affinity::None, Policy::Maglev) => LbPolicy::Maglev,
        (Affinity::None, Policy::RoundRobin) => LbPolicy::RoundRobin,
        (Affinity::None, Policy::LeastConnections) => LbPolicy::LeastRequest,
    }
}

/// Without these a cluster takes 1 024 connections.
fn breakers(limits: Limits) -> CircuitBreakers {
    let most = Some(number(limits.connections));
    CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: most,
            max_pending_requests: most,
            max_requests: most,
            ..Thresholds::default()
        }],
        ..CircuitBreakers::default()
    }
}

/// Connections begin in the tenant's namespace.
fn bind(path: &str, pool: &Pool) -> BindConfig {
    let source = |address: &str| SocketAddress {
        address: address.to_owned(),
        network_namespace_filepath: path.to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(0)),
        ..SocketAddress::default()
    };
    let is =
        |wanted: fn(&IpAddr) -> bool| pool.members.iter().any(|member| wanted(&member.address));
    let both = is(IpAddr::is_ipv4) && is(IpAddr::is_ipv6);
    let first = if is(IpAddr::is_ipv6) && !both {
        "::"
    } else {
        "0.0.0.0"
    };
    BindConfig {
        source_address: Some(source(first)),
        extra_source_addresses: both.then(|| extra(source("::"))).into_iter().collect(),
        ..BindConfig::default()
    }
}

const fn extra(address: SocketAddress) -> ExtraSourceAddress {
    ExtraSourceAddress {
        address: Some(address),
        socket_options: None,
    }
}

/// Where there are many checks none is made more often than in [`RELAXED_SECONDS`].
fn how_often(health: Health, here: &Here) -> Health {
    let least = if here.relaxed { RELAXED_SECONDS } else { 0.0 };
    Health {
        interval_seconds: health.interval_seconds.max(least),
        ..health
    }
}

fn check(health: &Health) -> HealthCheck {
    let seconds = |seconds| span(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    HealthCheck {
        timeout: Some(seconds(health.timeout_seconds)),
        interval: Some(seconds(health.interval_seconds)),
        // Not all members of all pools in the same instant; but until the first checks are over Envoy
        // answers nothing about clusters, of whomever they are.
        initial_jitter: Some(seconds(health.interval_seconds.min(JITTER_SECONDS))),
        unhealthy_interval: Some(seconds(health.interval_seconds)),
        no_traffic_interval: Some(seconds(health.interval_seconds)),
        unhealthy_threshold: Some(number(u32::from(health.fall))),
        healthy_threshold: Some(number(u32::from(health.rise))),
        health_checker: Some(HealthChecker::TcpHealthCheck(TcpHealthCheck::default())),
        ..HealthCheck::default()
    }
}

fn transport(client_ip: ClientIp) -> Option<TransportSocket> {
    let version = match client_ip {
        ClientIp::Hidden => return None,
        ClientIp::ProxyV1 => proxy_protocol_config::Version::V1,
        ClientIp::ProxyV2 => proxy_protocol_config::Version::V2,
    };
    let socket = |name: &str, config| TransportSocket {
        name: name.to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(config)),
    };
    let raw = socket("envoy.transport_sockets.raw_buffer", any(&RawBuffer {}));
    let proxied = ProxyProtocolUpstreamTransport {
        config: Some(ProxyProtocolConfig {
            version: version.into(),
            ..ProxyProtocolConfig::default()
        }),
        transport_socket: Some(raw),
        ..ProxyProtocolUpstreamTransport::default()
    };
    let name = "envoy.transport_sockets.upstream_proxy_protocol";
    Some(socket(name, any(&proxied)))
}

/// Between two checks of a member, where others find out first that its host is silent.
const RELAXED_SECONDS: f64 = 10.0;

/// The most by which first checks are spread, seconds.
const JITTER_SECONDS: f64 = 0.1;

/// How long a member may take to answer the first packet. It is near, or the tunnel knows that it is gone.
const CONNECT: Duration = Duration::from_millis(500);

/// How long a connection that carries no request is kept: less than most servers keep it, so that few
/// requests meet one that is being closed.
const IDLE: Duration = Duration::from_secs(30);

/// The name under which Envoy looks for what is spoken.
const HTTP: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
