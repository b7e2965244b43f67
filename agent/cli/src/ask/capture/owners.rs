//! Whose packet it is: the peer that its other end belongs to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use kedge_control::local::{Tunnel, TunnelList};
use kedge_tunnel_proto::allowed::Table;

/// The peers of the tunnel, by their prefixes.
#[derive(Default)]
pub(super) struct Owners {
    names: Vec<String>,
    table: Table<usize>,
}

impl Owners {
    pub(super) fn of(list: &TunnelList) -> Self {
        // Of several gateways to the same the active one has it.
        let is_active = |peer: &Tunnel| peer.gateway.as_ref().is_none_or(|it| it.active);
        let mut peers: Vec<&Tunnel> = list.items.iter().collect();
        peers.sort_by_key(|peer| is_active(peer));
        let prefixes = peers.iter().zip(0..).flat_map(|(peer, number)| {
            let nets = peer
                .allowed_ips
                .iter()
                .filter_map(|it| it.parse::<IpNet>().ok());
            nets.map(move |net| (net, number))
        });
        Self {
            table: prefixes.collect(),
            names: peers.iter().map(|peer| peer.name.clone()).collect(),
        }
    }

    pub(super) fn know(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The peer that a packet is to, or from when it came in.
    pub(super) fn of_packet(&self, packet: &[u8], outgoing: bool) -> Option<&str> {
        let (from, to) = ends(packet)?;
        let number = self.table.owner(if outgoing { to } else { from })?;
        self.names.get(number).map(String::as_str)
    }
}

fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let (from, to) = packet.get(12..20)?.split_first_chunk::<4>()?;
            let to: [u8; 4] = to.try_into().ok()?;
            Some((Ipv4Addr::from(*from).into(), Ipv4Addr::from(to).into()))
        }
        6 => {
            let (from, to) = packet.get(8..40)?.split_first_chunk::<16>()?;
            let to: [u8; 16] = to.try_into().ok()?;
            Some((Ipv6Addr::from(*from).into(), Ipv6Addr::from(to).into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kedge_control::local::GatewayUse;

    use super::*;

    fn list() -> TunnelList {
        let peer = |name: &str, nets: &[&str], active| Tunnel {
            name: name.to_owned(),
            allowed_ips: nets.iter().map(ToString::to_string).collect(),
            gateway: Some(GatewayUse {
                active,
                ..GatewayUse::default()
            }),
            ..Tunnel::default()
        };
        TunnelList {
            items: vec![
                peer("a", &["198.18.0.1/32", "10.0.0.0/8"], true),
                peer("b", &["198.18.0.2/32", "10.0.0.0/8", "fd00::/8"], false),
            ],
            ..TunnelList::default()
        }
    }

    fn v4(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&from);
        packet[16..20].copy_from_slice(&to);
        packet
    }

    #[test]
    fn a_packet_is_its_other_ends_and_of_several_gateways_the_active_ones() {
        let owners = Owners::of(&list());
        let packet = v4([10, 1, 2, 3], [198, 18, 0, 2]);
        assert_eq!(owners.of_packet(&packet, true), Some("b"));
        assert_eq!(owners.of_packet(&packet, false), Some("a"));
        let mut v6 = vec![0; 40];
        (v6[0], v6[24]) = (0x60, 0xfd);
        assert_eq!(owners.of_packet(&v6, true), Some("b"));
        assert_eq!(owners.of_packet(&v6, false), None, "from nobody's address");
        assert!(owners.know("b") && !owners.know("c"));
    }

    #[test]
    fn what_is_no_packet_is_nobodys() {
        let owners = Owners::of(&list());
        let packet = v4([10, 1, 2, 3], [10, 1, 2, 3]);
        for length in 0..20 {
            assert_eq!(owners.of_packet(&packet[..length], true), None);
        }
        assert_eq!(owners.of_packet(&[0x55; 40], true), None);
    }
}
