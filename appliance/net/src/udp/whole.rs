//! Datagrams that arrive in one piece or not at all.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, SocketAddr, UdpSocket},
};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

use super::{Family, Form, Sockets};

impl Sockets {
    /// Sends one datagram that nobody may cut, neither this host nor a router (`IP_PMTUDISC_PROBE`,
    /// `IPV6_PMTUDISC_PROBE`): what the kernel was told of the path's MTU does not count.
    ///
    /// It leaves from the port of all others, so it takes the same way through NAT. The socket is
    /// switched over for this one and back: nobody else may send on it meanwhile.
    ///
    /// # Errors
    ///
    /// The kernel's answer: `EMSGSIZE` when it is larger than the first link's MTU.
    pub fn send_whole(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        datagram: &[u8],
    ) -> io::Result<()> {
        let family = Family::of(to.ip());
        let Some(socket) = self.socket(family) else {
            return self.send(to, from, &[IoSlice::new(datagram)], Form::ONE);
        };
        discover(socket, family, true)?;
        let sent = self.send(to, from, &[IoSlice::new(datagram)], Form::ONE);
        discover(socket, family, false)?;
        sent
    }
}

fn discover(socket: &UdpSocket, family: Family, probe: bool) -> io::Result<()> {
    match (family, probe) {
        (Family::V4, true) => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?,
        (Family::V4, false) => set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT)?,
        (Family::V6, true) => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?,
        (Family::V6, false) => set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{ip_mtu_discover, ipv6_mtu_discover};

    use super::*;

    #[test]
    fn after_a_datagram_in_one_piece_the_next_may_be_cut_again() {
        for to in ["127.0.0.1:9", "[::1]:9"] {
            let sockets = Sockets::bind(0).unwrap();
            let to: SocketAddr = to.parse().unwrap();
            let Some(socket) = sockets.socket(Family::of(to.ip())) else {
                continue;
            };
            // Nobody listens: who is told of that is told at the next datagram.
            let _ = sockets.send_whole(to, None, &[0; 1000]);
            if to.is_ipv4() {
                assert_eq!(ip_mtu_discover(socket).unwrap(), Ipv4PathMtuDiscovery::DONT);
            } else {
                assert_eq!(
                    ipv6_mtu_discover(socket).unwrap(),
                    Ipv6PathMtuDiscovery::DONT
                );
            }
        }
    }
}
