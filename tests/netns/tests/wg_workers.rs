//! `kedge wg --workers 2`: each peer is one worker's, its packets stay in order, and whatever tools change
//! about the device loses none of them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;
use crate::wg;

use std::fs;

use kedge_tunnel_device::{Device, DeviceConfig, PeerSpec};
use kedge_tunnel_proto::{directory::owner, keys::PrivateKey};
use tunnel::{
    crew::{WORKERS, in_order, keys},
    *,
};
use wg::{
    LIMIT, Maker, Wg,
    train::{Arrived, Train, lossless},
};

fn host_address(number: usize) -> String {
    format!("198.18.0.{}", 10 + number)
}

/// Each host has its own address of the gateway, so that all of them can be in one namespace.
fn gateway_address(number: usize) -> String {
    format!("198.18.1.{}", 10 + number)
}

/// What the gateway is told: the hosts with these numbers, each with `more`.
fn told(keys: &[PrivateKey], numbers: impl IntoIterator<Item = usize>, more: &str) -> String {
    let own = key(2);
    let mut text = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n",
        own.to_base64().as_str()
    );
    for number in numbers {
        let (key, address) = (keys[number].public(), host_address(number));
        text += &format!("[Peer]\nPublicKey = {key}\nAllowedIPs = {address}/32\n{more}");
    }
    text
}

/// A plain device with two workers, and four hosts, of which each worker has two.
struct Fleet<'a> {
    keys: Vec<PrivateKey>,
    gateway: Wg<'a>,
    hosts: Vec<Device>,
    site: &'a Site,
}

impl<'a> Fleet<'a> {
    fn new(site: &'a Site) -> Self {
        let keys = keys();
        let addresses: Vec<String> = (0..4)
            .map(|number| format!("{}/16", gateway_address(number)))
            .collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let gateway = Wg::make(&site.gateway, Maker::KedgeCrew);
        let gateway = gateway.up(&told(&keys, 0..4, ""), &addresses);
        let hosts = (0..4).map(|number| {
            let config = DeviceConfig {
                ifname: format!("kedge{number}"),
                private_key: keys[number].clone(),
                ..config(1, 0, &[&host_address(number)])
            };
            let host = site.host.run(|| Device::open(config)).unwrap().unwrap();
            let to = gateway_address(number);
            let peer = PeerSpec {
                allowed_ips: vec![to.parse::<std::net::IpAddr>().unwrap().into()],
                ..gateway_peer()
            };
            host.apply(vec![peer]).unwrap();
            host
        });
        let hosts = hosts.collect();
        let fleet = Self {
            keys,
            gateway,
            hosts,
            site,
        };
        let echo = fleet.echo();
        for number in 0..4 {
            fleet.up(number);
        }
        drop(echo);
        fleet
    }

    fn told(&self, numbers: impl IntoIterator<Item = usize>, more: &str) -> String {
        told(&self.keys, numbers, more)
    }

    fn up(&self, number: usize) {
        let probe = socket(&self.site.host, &host_address(number));
        eventually("an answer", LIMIT, || {
            answered(&probe, &gateway_address(number))
        });
    }

    fn echo(&self) -> UdpEcho {
        let addresses: Vec<String> = (0..4).map(gateway_address).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        UdpEcho::start(&self.site.gateway, &addresses)
    }

    fn train(&self, number: usize) -> Train {
        let (host, gateway) = (host_address(number), gateway_address(number));
        Train::start((&self.site.host, &host), (&self.site.gateway, &gateway))
    }

    fn handshakes(&self) -> Vec<u64> {
        let keys = self.keys.iter();
        keys.map(|key| self.gateway.handshake(key)).collect()
    }
}

/// The threads that move packets, of the process whose device this is.
fn workers(device: &Wg<'_>) -> usize {
    let processes = fs::read_dir("/proc").unwrap();
    let ours = processes.filter_map(|process| {
        let process = process.ok()?.path();
        let line = fs::read(process.join("cmdline")).ok()?;
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&device.name.as_bytes()).then_some(process)
    });
    let threads = ours.filter_map(|process| fs::read_dir(process.join("task")).ok());
    let names = threads.flatten().filter_map(|thread| {
        let name = fs::read_to_string(thread.ok()?.path().join("comm")).ok()?;
        name.starts_with("kedge-tunnel-").then_some(name)
    });
    names.count()
}

#[test]
fn each_host_s_packets_come_in_order_through_two_workers() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let fleet = Fleet::new(&site);
    assert_eq!(workers(&fleet.gateway), 2);
    let pairs: Vec<_> = (0..4)
        .map(|number| {
            let host = socket(&site.host, &host_address(number));
            [host, socket(&site.gateway, &gateway_address(number))]
        })
        .collect();
    in_order(&pairs);
    for host in &fleet.hosts {
        assert_eq!(peer(host).drops, []);
    }
}

#[test]
fn whatever_tools_change_about_it_loses_no_packet_of_either_worker() {
    for worker in 0..WORKERS {
        let mut keys = keys().into_iter();
        let of_worker = |key: PrivateKey| owner(&key.public(), WORKERS) == worker;
        let number = keys.position(of_worker).unwrap();
        lossless(|| changed(number));
    }
}

fn changed(number: usize) -> Arrived {
    let site = Site::new();
    let fleet = Fleet::new(&site);
    let before = fleet.handshakes();
    let train = fleet.train(number);
    for round in 0..6 {
        train.go_on(100);
        let others = (0..4).filter(|it| *it == number || it % 3 != round % 3);
        let keepalive = format!("PersistentKeepalive = {}\n", 20 + round);
        let configuration = fleet.told(others, &keepalive);
        fleet.gateway.configure("syncconf", &configuration);
        fleet.gateway.set(&format!("fwmark {}", round % 2));
    }
    train.go_on(100);
    let arrived = train.finish();
    let after = fleet.handshakes();
    assert_eq!(after[number], before[number], "the session is the first");
    arrived
}

#[test]
fn another_port_and_a_link_that_comes_back_are_heard_by_both_workers() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let fleet = Fleet::new(&site);
    let _echo = fleet.echo();
    let before = fleet.handshakes();
    let listening = |port: u16| {
        let all = fleet.gateway.run("ss", &["-H", "-u", "-l", "-n"]);
        let there = format!(":{port} ");
        all.lines().filter(|line| line.contains(&there)).count()
    };
    for (port, former) in [(5_555, PORT), (PORT, 5_555)] {
        fleet.gateway.set(&format!("listen-port {port}"));
        // A door and two workers, each for both families.
        assert_eq!(listening(port), 6);
        eventually("the former is closed", LIMIT, || listening(former) == 0);
    }
    for number in 0..4 {
        fleet.up(number);
    }
    assert_eq!(fleet.handshakes(), before, "the sessions go on");
    let name = fleet.gateway.name.as_str();
    for (state, sockets) in [("down", 0), ("up", 6)] {
        fleet.gateway.run("ip", &["link", "set", name, state]);
        eventually(state, LIMIT, || listening(PORT) == sockets);
    }
    for number in 0..4 {
        fleet.up(number);
    }
}

#[test]
fn another_key_is_every_worker_s_and_the_interface_ends_all_of_them() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let fleet = Fleet::new(&site);
    let _echo = fleet.echo();
    let file = fleet.gateway.file("key", key(9).to_base64().as_str());
    fleet
        .gateway
        .set(&format!("private-key {}", file.display()));
    for (number, host) in fleet.hosts.iter().enumerate() {
        let to = gateway_address(number);
        let peer = PeerSpec {
            public_key: key(9).public(),
            allowed_ips: vec![to.parse::<std::net::IpAddr>().unwrap().into()],
            ..gateway_peer()
        };
        host.apply(vec![peer]).unwrap();
    }
    for number in 0..4 {
        fleet.up(number);
    }
    let socket = fleet.gateway.socket();
    let name = fleet.gateway.name.as_str();
    fleet.gateway.run("ip", &["link", "delete", name]);
    eventually("the process has ended", LIMIT, || !socket.exists());
    eventually("no thread is left", LIMIT, || workers(&fleet.gateway) == 0);
}
