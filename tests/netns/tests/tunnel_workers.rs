//! A gateway whose packets several workers move: each peer is one worker's, and nothing that peers can see
//! differs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use kedge_tunnel_device::{Device, DeviceConfig, PeerSpec, State, Workers};
use kedge_tunnel_proto::keys::{PrivateKey, PublicKey};
use tunnel::{
    crew::{WORKERS, in_order, keys},
    *,
};

const LIMIT: Duration = Duration::from_secs(5);

fn host_address(number: usize) -> String {
    format!("198.18.0.{}", 10 + number)
}

/// Each host has its own address of the gateway, so that all of them can be in one namespace.
fn gateway_address(number: usize) -> String {
    format!("198.18.1.{}", 10 + number)
}

fn route(address: &str) -> ipnet::IpNet {
    address.parse::<IpAddr>().unwrap().into()
}

/// The hosts as the gateway sees them.
fn specs(keys: &[PrivateKey], numbers: impl IntoIterator<Item = usize>) -> Vec<PeerSpec> {
    let spec = |number: usize| PeerSpec {
        name: format!("host-{number}"),
        public_key: keys[number].public(),
        allowed_ips: vec![route(&host_address(number))],
        ..host_peer()
    };
    numbers.into_iter().map(spec).collect()
}

struct Fleet {
    keys: Vec<PrivateKey>,
    gateway: Device,
    hosts: Vec<Device>,
    site: Site,
}

impl Fleet {
    fn new() -> Self {
        let (site, keys) = (Site::new(), keys());
        let addresses: Vec<String> = (0..4).map(gateway_address).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let gateway = DeviceConfig {
            workers: Workers::configured(WORKERS),
            ..config(2, PORT, &addresses)
        };
        let gateway = site.gateway.run(|| Device::open(gateway)).unwrap().unwrap();
        // Who calls before it is known has to call again, in five seconds.
        gateway.apply(specs(&keys, 0..4)).unwrap();
        let hosts = (0..4).map(|number| {
            let config = DeviceConfig {
                ifname: format!("kedge{number}"),
                private_key: keys[number].clone(),
                ..config(1, 0, &[&host_address(number)])
            };
            let host = site.host.run(|| Device::open(config)).unwrap().unwrap();
            let peer = PeerSpec {
                allowed_ips: vec![route(&gateway_address(number))],
                ..gateway_peer()
            };
            host.apply(vec![peer]).unwrap();
            host
        });
        let hosts = hosts.collect();
        Self {
            gateway,
            hosts,
            keys,
            site,
        }
    }

    fn specs(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<PeerSpec> {
        specs(&self.keys, numbers)
    }

    fn probe(&self, number: usize) -> UdpSocket {
        socket(&self.site.host, &host_address(number))
    }

    fn up(&self) {
        for number in 0..4 {
            let probe = self.probe(number);
            eventually("an answer", LIMIT, || {
                answered(&probe, &gateway_address(number))
            });
        }
    }

    fn echo(&self) -> UdpEcho {
        let addresses: Vec<String> = (0..4).map(gateway_address).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        UdpEcho::start(&self.site.gateway, &addresses)
    }
}

#[test]
fn every_peer_s_packets_come_in_order_through_two_workers_in_both_directions() {
    if !ready() {
        return;
    }
    let fleet = Fleet::new();
    let workers = fleet.gateway.device_stats().workers.unwrap();
    assert_eq!(workers.count, WORKERS);
    let echo = fleet.echo();
    fleet.up();
    drop(echo);
    let pairs: Vec<[UdpSocket; 2]> = (0..4)
        .map(|number| {
            let gateway = socket(&fleet.site.gateway, &gateway_address(number));
            [fleet.probe(number), gateway]
        })
        .collect();
    in_order(&pairs);
    for peer in fleet.gateway.stats() {
        assert_eq!(peer.drops, [], "{}", peer.name);
    }
}

#[test]
fn tcp_runs_through_two_workers_at_once() {
    if !ready() {
        return;
    }
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };
    const MANY: usize = 8 << 20;
    let fleet = Fleet::new();
    let _echo = fleet.echo();
    fleet.up();
    let ends: Vec<(TcpStream, TcpStream)> = (0..4)
        .map(|number| {
            let at = SocketAddr::new(gateway_address(number).parse().unwrap(), 9);
            let gateway = fleet.site.gateway.run(|| TcpListener::bind(at));
            let gateway = gateway.unwrap().unwrap();
            let host = fleet.site.host.run(|| TcpStream::connect(at)).unwrap();
            (host.unwrap(), gateway.accept().unwrap().0)
        })
        .collect();
    let begun = Instant::now();
    thread::scope(|scope| {
        for (host, gateway) in &ends {
            for (mut from, mut to) in [(host, gateway), (gateway, host)] {
                let text = |at: usize| (at * 31 / 1_000).to_le_bytes()[0];
                scope.spawn(move || {
                    let bytes: Vec<u8> = (0..MANY).map(text).collect();
                    from.write_all(&bytes).unwrap();
                });
                scope.spawn(move || {
                    let mut bytes = vec![0; MANY];
                    to.read_exact(&mut bytes).unwrap();
                    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == text(at)));
                });
            }
        }
    });
    let rate = (8 * MANY) as f64 * 8.0 / begun.elapsed().as_secs_f64() / 1e6;
    println!("{rate:.0} Mbit/s in eight streams of four hosts");
}

#[test]
fn peers_come_and_go_and_move_while_others_go_on() {
    if !ready() {
        return;
    }
    let fleet = Fleet::new();
    let _echo = fleet.echo();
    fleet.up();
    let works = |number: usize| answered(&fleet.probe(number), &gateway_address(number));
    for gone in 0..4 {
        let others = || (0..4).filter(move |number| *number != gone);
        fleet.gateway.apply(fleet.specs(others())).unwrap();
        if let Some(back) = gone.checked_sub(1) {
            // Its session is forgotten, which nobody tells it.
            fleet.hosts[back].rehandshake("gw-0").unwrap();
        }
        for number in others() {
            eventually("those that stay", LIMIT, || works(number));
        }
        assert!(!works(gone), "{gone}");
    }
    fleet.gateway.apply(fleet.specs(0..4)).unwrap();
    fleet.hosts[3].rehandshake("gw-0").unwrap();
    for number in 0..4 {
        eventually("who was away is back", LIMIT, || works(number));
    }
    // All of them get another address at the NAT, and nobody needs a handshake.
    let handshakes = |fleet: &Fleet| -> Vec<_> {
        let stats = fleet.gateway.stats().into_iter();
        stats.map(|peer| peer.last_handshake).collect()
    };
    let before = handshakes(&fleet);
    let flush = "flush ruleset; add table ip nat; \
        add chain ip nat post { type nat hook postrouting priority 100; }; \
        add rule ip nat post oifname wan meta l4proto udp masquerade to :40000-40010";
    run(&fleet.site.router, "ip", &["link", "set", "wan", "down"]);
    run(&fleet.site.router, "nft", &[flush]);
    run(&fleet.site.router, "ip", &["link", "set", "wan", "up"]);
    for number in 0..4 {
        eventually("the way back moved", LIMIT, || works(number));
    }
    for peer in fleet.gateway.stats() {
        assert_eq!(peer.state, State::Connected);
        let port = peer.endpoint.unwrap().port();
        assert!((40_000..=40_010).contains(&port), "{port}");
    }
    assert_eq!(handshakes(&fleet), before);
    // What is known of each of them outlives the device.
    let handle = fleet.gateway.handle();
    fleet.gateway.close().unwrap();
    let learned = handle.learned().unwrap();
    for key in &fleet.keys {
        let known: &PublicKey = &key.public();
        assert!(learned.0[known].endpoint.is_some());
    }
}
