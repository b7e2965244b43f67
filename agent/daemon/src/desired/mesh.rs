//! The other hosts that packets go to through the tunnel.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use kedge_control::agent::{DirectPath, MeshConfig, MeshPeer};
use kedge_core::{Code, Fix, Problem};
use kedge_tunnel_device::backend::Kind;
use kedge_tunnel_proto::{direct::Refusal, keys::PublicKey};

use super::tunnel::{TunnelWish, echo, is_allowed, next_key, outside};
use crate::{
    config::TunnelConfig,
    facts::Facts,
    report::{Rules, build},
};

/// The other hosts of this host's mesh.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeshWish {
    /// Who they are.
    pub peers: Vec<Neighbor>,
    /// Why packets go to none of them without a gateway between, if they do not.
    pub refusal: Option<Refusal>,
    /// The addresses of this host that it may be called at.
    pub hosts: Vec<IpAddr>,
    /// Where its configuration says that it may be called.
    pub endpoints: Vec<SocketAddr>,
}

/// Another host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Neighbor {
    /// Its name.
    pub name: String,
    /// Its key.
    pub public_key: PublicKey,
    /// The key it goes over to.
    pub next_key: Option<PublicKey>,
    /// Its overlay addresses.
    pub addresses: Vec<IpNet>,
    /// From where to where it is asked.
    pub ends: (IpAddr, IpAddr),
}

/// The mesh within the bounds of this host, which has that tunnel.
pub(super) fn plan(
    config: &TunnelConfig,
    wish: &MeshConfig,
    tunnel: &TunnelWish,
    facts: &Facts,
    problems: &mut Vec<Problem>,
) -> MeshWish {
    let mut peers: Vec<Neighbor> = Vec::new();
    for peer in &wish.peers {
        match accept(config, peer, tunnel, &peers) {
            Ok(neighbor) => peers.push(neighbor),
            Err(problem) => problems.push(*problem),
        }
    }
    let never = [config.direct_path, wish.direct_path].contains(&DirectPath::Never);
    let refusal = if config.data_plane.kind() == Kind::Kernel {
        Some(Refusal::Unsupported)
    } else {
        never.then_some(Refusal::Ordered)
    };
    let rules = Rules {
        tunnel: &tunnel.interface,
        ..Rules::default()
    };
    let reported = build(facts, &rules);
    let hosts = reported.iter().filter_map(|it| it.address.parse().ok());
    MeshWish {
        peers,
        refusal,
        hosts: hosts.collect(),
        endpoints: config.direct_endpoints.clone(),
    }
}

fn accept(
    config: &TunnelConfig,
    wish: &MeshPeer,
    tunnel: &TunnelWish,
    peers: &[Neighbor],
) -> Result<Neighbor, Box<Problem>> {
    let name: String = wish.name.escape_debug().take(80).collect();
    let object = format!("tunnels/{name}");
    let refuse = |code, why: String| {
        let problem = Problem::new(code, format!("the host {name} cannot be in the mesh"))
            .object(object.clone())
            .evidence(why)
            .consequence("no packet goes to it, and none that comes from it is taken")
            .fix(Fix::text("look at its record at the manager").command("kedge fleet hosts"));
        Err(Box::new(problem))
    };
    let key = match wish.public_key.parse::<PublicKey>() {
        Ok(key) => key,
        Err(error) => return refuse(Code::TunKey, error.to_string()),
    };
    let is_known = tunnel
        .peers
        .iter()
        .any(|it| it.name == wish.name || it.public_key == key)
        || peers
            .iter()
            .any(|it| it.name == wish.name || it.public_key == key);
    if is_known {
        let why = "another peer has the same name or key".to_owned();
        return refuse(Code::TunKey, why);
    }
    for address in &wish.addresses {
        if address.prefix_len() != address.max_prefix_len() || !is_allowed(config, *address) {
            let what = format!("the address {address} of another host");
            return Err(Box::new(outside(&object, &what, config)));
        }
        let taken = tunnel
            .addresses
            .iter()
            .any(|it| it.addr() == address.addr())
            || tunnel
                .peers
                .iter()
                .any(|it| it.allowed_ips.contains(address))
            || peers.iter().any(|it| it.addresses.contains(address));
        if taken {
            return refuse(
                Code::TunOutsideBounds,
                format!("{address} is somebody else's"),
            );
        }
    }
    let Some(ends) = echo(&tunnel.addresses, &wish.addresses) else {
        let why = "no address of it and none of this host are of one family".to_owned();
        return refuse(Code::TunOutsideBounds, why);
    };
    Ok(Neighbor {
        name: wish.name.clone(),
        public_key: key,
        next_key: next_key(wish.next_public_key.as_deref()),
        addresses: wish.addresses.clone(),
        ends,
    })
}
