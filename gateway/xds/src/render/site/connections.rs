//! What is made of connections whose HTTP is served.

use std::{net::SocketAddr, time::Duration};

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{
                Http2ProtocolOptions, HttpProtocolOptions, KeepaliveSettings, TransportSocket,
                http_protocol_options::HeadersWithUnderscoresAction, transport_socket,
            },
            listener::v3::{Filter, FilterChain, FilterChainMatch, Listener},
        },
        extensions::{
            filters::{
                http::router::v3::Router,
                network::http_connection_manager::v3::{
                    HttpConnectionManager, HttpFilter, Rds,
                    http_connection_manager::{
                        InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier,
                        ServerHeaderTransformation, UpgradeConfig,
                    },
                    http_filter,
                },
            },
            transport_sockets::tls::v3::{
                CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, TlsParameters,
                tls_parameters::TlsProtocol,
            },
        },
    },
    google::protobuf::Any,
};
use kedge_control::frontend::ProxyProtocol;
use serde::Serialize;

use super::cors;
use crate::{
    render::{
        listener::{listener, network},
        names, outer,
        proto::{any, number, over_ads, span, yes},
    },
    resource::Resource,
};

/// The names of one certificate on a listener of TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// The certificate.
    pub secret: String,
    /// The names it is shown for.
    pub names: Vec<String>,
    /// What they serve.
    pub routes: String,
}

/// The listener of everything that is served plain on this address and port.
pub fn plain(at: SocketAddr, outer: Option<&ProxyProtocol>) -> Resource {
    let name = names::http_listener(at);
    let listener = Listener {
        filter_chains: vec![FilterChain {
            filters: vec![manager(&name, &name)],
            ..FilterChain::default()
        }],
        per_connection_buffer_limit_bytes: Some(number(BUFFER)),
        ..listener(name, at)
    };
    outer::listener(listener, &(at, FORM), outer)
}

impl Chain {
    /// It, as Envoy is told it: a chain for all names that it names, and another for all the others if it
    /// is shown for all.
    pub fn render(&self, listener: &str) -> Vec<FilterChain> {
        let names = self.names.iter().filter(|name| *name != "*");
        let names: Vec<String> = names.cloned().collect();
        let is_any = names.len() < self.names.len();
        let any = is_any.then(|| (format!("{}/any", self.secret), Vec::new()));
        let named = (!names.is_empty()).then(|| (self.secret.clone(), names));
        let both = named.into_iter().chain(any);
        both.map(|(name, names)| self.chain(listener, name, names))
            .collect()
    }

    fn chain(&self, listener: &str, name: String, names: Vec<String>) -> FilterChain {
        FilterChain {
            name,
            filter_chain_match: Some(FilterChainMatch {
                server_names: names,
                transport_protocol: "tls".to_owned(),
                ..FilterChainMatch::default()
            }),
            transport_socket: Some(self.tls()),
            transport_socket_connect_timeout: Some(span(HANDSHAKE)),
            filters: vec![manager(listener, &self.routes)],
            ..FilterChain::default()
        }
    }

    fn tls(&self) -> TransportSocket {
        let context = DownstreamTlsContext {
            common_tls_context: Some(CommonTlsContext {
                tls_params: Some(TlsParameters {
                    tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
                    ..TlsParameters::default()
                }),
                tls_certificate_sds_secret_configs: vec![SdsSecretConfig {
                    name: self.secret.clone(),
                    sds_config: Some(over_ads()),
                }],
                alpn_protocols: ["h2", "http/1.1"].map(str::to_owned).into(),
                ..CommonTlsContext::default()
            }),
            ..DownstreamTlsContext::default()
        };
        TransportSocket {
            name: "envoy.transport_sockets.tls".to_owned(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(any(&context))),
        }
    }
}

/// As Envoy's documentation has it for the edge of a network, but for what would break what people run:
/// requests and answers may take as long as they are told to, and slashes stay as they are.
fn manager(listener: &str, routes: &str) -> Filter {
    let router = Router {
        suppress_envoy_headers: true,
        ..Router::default()
    };
    let filter = |(name, config): (&str, Any)| HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager {
        stat_prefix: listener.to_owned(),
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(over_ads()),
            route_config_name: routes.to_owned(),
        })),
        http_filters: [
            (cors::FILTER, cors::filter()),
            ("envoy.filters.http.router", any(&router)),
        ]
        .map(filter)
        .into(),
        // The client is who has the connection; what it says of others before it is handed on.
        use_remote_address: Some(yes()),
        xff_num_trusted_hops: 0,
        // No client is trusted for its address.
        internal_address_config: Some(InternalAddressConfig::default()),
        server_header_transformation: ServerHeaderTransformation::PassThrough.into(),
        normalize_path: Some(yes()),
        merge_slashes: false,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::KeepUnchanged.into(),
        strip_trailing_host_dot: true,
        max_request_headers_kb: Some(number(60)),
        request_headers_timeout: Some(span(HEADERS)),
        stream_idle_timeout: Some(span(IDLE)),
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(span(IDLE)),
            max_headers_count: Some(number(100)),
            headers_with_underscores_action: HeadersWithUnderscoresAction::DropHeader.into(),
            ..HttpProtocolOptions::default()
        }),
        http2_protocol_options: Some(Http2ProtocolOptions {
            max_concurrent_streams: Some(number(100)),
            initial_stream_window_size: Some(number(64 << 10)),
            initial_connection_window_size: Some(number(1 << 20)),
            // A client that is gone without a word is noticed.
            connection_keepalive: Some(KeepaliveSettings {
                interval: Some(span(Duration::from_secs(60))),
                timeout: Some(span(Duration::from_secs(20))),
                ..KeepaliveSettings::default()
            }),
            ..Http2ProtocolOptions::default()
        }),
        upgrade_configs: vec![UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..UpgradeConfig::default()
        }],
        ..HttpConnectionManager::default()
    };
    network(
        "envoy.filters.network.http_connection_manager",
        any(&manager),
    )
}

/// Which form of listeners is made where HTTP is served: another number has Envoy told of them anew, and drain their
/// connections, after an upgrade that makes another one.
pub const FORM: u32 = 2;

/// What is kept of a connection whose other side is slow, bytes.
const BUFFER: u32 = 256 << 10;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// How long a client may take for the headers of a request.
const HEADERS: Duration = Duration::from_secs(30);

/// How long a connection is kept without a request, and a request that leads nowhere yet without a byte.
const IDLE: Duration = Duration::from_secs(300);
