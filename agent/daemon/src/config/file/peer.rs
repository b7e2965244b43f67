//! What may stand in `agent.yaml` of a static tunnel peer.

use ipnet::IpNet;
use kedge_host::section;
use kedge_tunnel_proto::keys::PublicKey;

use super::super::values::{Endpoint, Keepalive};

section! {
    /// A static tunnel peer.
    PeerFile {
        /// Its public key, base64.
        public_key: PublicKey,
        /// The key it goes over to, base64: accepted beside the other one, and tried.
        next_public_key: PublicKey,
        /// Where it is, `host:port`; left out where it calls us.
        endpoint: Endpoint,
        /// Where it is by another UDP port, `host:port`, for when UDP passes to that one alone. Only a gateway
        /// that is asked whether it lives is called there.
        other_endpoint: Endpoint,
        /// Where it is over TLS, `host:port`, for when UDP does not reach it. Only a gateway that is asked
        /// whether it lives is called there, and only with the certificate of its manager.
        tls_endpoint: Endpoint,
        /// The prefixes that belong to it.
        #[schemars(with = "Option<Vec<String>>")]
        allowed_ips: Vec<IpNet>,
        /// The time between keepalives: 1s to 18h, or 0s for none.
        keepalive: Keepalive,
    }
}
