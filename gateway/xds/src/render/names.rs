//! What resources are called.

use std::net::SocketAddr;

use kedge_control::frontend::ClientIp;

/// The listener of a TCP frontend.
#[must_use]
pub fn tcp_listener(at: SocketAddr) -> String {
    format!("tcp/{at}")
}

/// The listener and the routes of all sites that are served plain there.
pub(super) fn http_listener(at: SocketAddr) -> String {
    format!("http/{at}")
}

/// The cluster that requests are carried to.
pub(super) fn http_cluster(tenant: &str, pool: &str) -> String {
    format!("h/{tenant}/{pool}")
}

/// The listener of all frontends that pass TLS through there, and of all sites that are served over it.
pub(super) fn tls_listener(at: SocketAddr) -> String {
    format!("tls/{at}")
}

/// The cluster a TCP frontend leads to: pools that are told of clients are others.
#[must_use]
pub fn cluster(tenant: &str, pool: &str, client_ip: ClientIp) -> String {
    let told = match client_ip {
        ClientIp::Hidden => "",
        ClientIp::ProxyV1 => "/proxy-v1",
        ClientIp::ProxyV2 => "/proxy-v2",
    };
    format!("t/{tenant}/{pool}{told}")
}

/// The cluster that TLS for a name is passed through to there; `name` may be what Envoy puts in its place. At another
/// address the name may be somebody else's.
pub(super) fn passthrough(at: SocketAddr, name: &str) -> String {
    format!("sni/{at}/{name}")
}
