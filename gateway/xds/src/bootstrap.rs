//! What an Envoy is started with; everything else it is told.

use std::path::Path;

use serde_json::{Value, json};

/// Where an Envoy finds the gateway, and how it is called.
#[derive(Clone, Copy, Debug)]
pub struct Bootstrap<'a> {
    /// The name of the gateway instance.
    pub node: &'a str,
    /// The socket of [`Ads`](crate::Ads).
    pub ads: &'a Path,
    /// The socket that Envoy is to make for its administration.
    pub admin: &'a Path,
    /// How many connections of clients it takes at most.
    pub connections: u32,
}

impl Bootstrap<'_> {
    /// The configuration, for `--config-path` of a file that ends in `.json`.
    #[must_use]
    pub fn render(&self) -> Value {
        let over_ads = json!({"resource_api_version": "V3", "ads": {}});
        json!({
            "node": {"id": self.node, "cluster": "kedge"},
            "admin": {"address": {"pipe": {"path": self.admin, "mode": 0o600}}},
            "dynamic_resources": {
                "ads_config": {
                    "api_type": "DELTA_GRPC",
                    "transport_api_version": "V3",
                    "set_node_on_first_message_only": true,
                    "grpc_services": [{"envoy_grpc": {
                        "cluster_name": ADS,
                        // A gateway that was restarted is found within a second, not within five.
                        "retry_policy": {"retry_back_off": {"base_interval": "0.1s", "max_interval": "1s"}},
                    }}],
                },
                "cds_config": over_ads,
                "lds_config": over_ads,
            },
            "static_resources": {"clusters": [self.ads()]},
            "layered_runtime": {"layers": [{"name": "gateway", "static_layer": {
                // Regular expressions are bounded before they are told; Envoy's own bound is a few dozen
                // characters.
                "re2.max_program_size.error_level": 1_000_000,
            }}]},
            // Statistics are most of the memory of a listener and a cluster.
            "deferred_stat_options": {"enable_deferred_creation_stats": true},
            "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": [
                {"prefix": "cluster_manager"},
                {"prefix": "listener_manager"},
                {"prefix": "control_plane"},
                {"prefix": "server"},
                {"safe_regex": {"regex": KEPT}},
            ]}}},
            "overload_manager": {"resource_monitors": [{
                "name": "envoy.resource_monitors.global_downstream_max_connections",
                "typed_config": {
                    "@type": DOWNSTREAM_CONNECTIONS,
                    "max_active_downstream_connections": self.connections,
                },
            }]},
        })
    }

    fn ads(&self) -> Value {
        let endpoint = json!({"endpoint": {"address": {"pipe": {"path": self.ads}}}});
        json!({
            "name": ADS,
            "type": "STATIC",
            "connect_timeout": "1s",
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {
                        "connection_keepalive": {"interval": "10s", "timeout": "5s"},
                    }},
                },
            },
            "load_assignment": {
                "cluster_name": ADS,
                "endpoints": [{"lb_endpoints": [endpoint]}],
            },
        })
    }
}

/// A name that no resource of a tenant has.
const ADS: &str = "xds";

const DOWNSTREAM_CONNECTIONS: &str = "type.googleapis.com/\
     envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig";

/// The statistics of listeners and clusters that are kept.
const KEPT: &str = ".*(upstream_cx_active|upstream_cx_total|upstream_cx_connect_fail|upstream_cx_none_healthy|\
     downstream_cx_total|downstream_cx_active|no_filter_chain_match|membership_healthy|bytes_total)$";
