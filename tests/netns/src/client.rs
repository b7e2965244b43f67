//! A host that uses a VIP: what it knows of where the address is.

use std::{
    net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket},
    process::Command,
};

use crate::lan::Host;

/// Sends the address something, so that the host must learn where it is.
pub fn send(client: &Host, address: &str) {
    let ifindex = client.ifindex();
    let to: SocketAddr = match address.parse().unwrap() {
        IpAddr::V4(v4) => (v4, 9).into(),
        IpAddr::V6(v6) => SocketAddrV6::new(v6, 9, 0, ifindex).into(),
    };
    client.run(move || {
        let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        UdpSocket::bind(any).unwrap().send_to(&[0], to).unwrap();
    });
}

/// Where the host believes an address to be.
#[must_use]
pub fn neighbor(client: &Host, address: &str) -> Option<[u8; 6]> {
    let address = address.to_owned();
    client.run(move || {
        let mut ip = Command::new("ip");
        ip.args(["neighbor", "show", "to", &address, "dev", "eth0"]);
        let text = String::from_utf8(ip.output().unwrap().stdout).unwrap();
        let mac = text.split("lladdr ").nth(1)?.split_whitespace().next()?;
        let bytes: Vec<u8> = mac
            .split(':')
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        bytes.try_into().ok()
    })
}
