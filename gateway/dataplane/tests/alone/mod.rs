//! A plane with one listener, and one member behind it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use kedge_control::balance::{Listener, Member};
use kedge_gateway_dataplane::DataPlane;

use crate::waiting::eventually;

/// On the loopback, and led to that server; any port where it is 0.
pub fn listener(name: &str, port: u16, member: SocketAddr) -> Listener {
    Listener {
        name: name.to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port,
        members: vec![Member {
            host: "a".to_owned(),
            address: member.ip(),
            port: member.port(),
            draining: false,
        }],
    }
}

/// Where it is bound, as soon as it is.
pub async fn bound(plane: &DataPlane) -> SocketAddr {
    eventually("the listener is bound", || {
        let status = plane.status().remove(0);
        let at = SocketAddr::new(status.address, status.port);
        status.bound.then_some(at)
    })
    .await
}
