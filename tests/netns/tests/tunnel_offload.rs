//! What is left to the kernel and what is not, each way, against wireguard-go, which knows nothing of
//! it: every byte arrives whatever is switched off.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;

use std::{
    io::{IoSlice, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use kedge_net::{
    netns::Namespace,
    tun::Rung,
    udp::{Family, Form, Inbox, Sockets},
};
use kedge_tunnel_device::{
    Device, DropReason,
    offload::{Allowed, Because, Part},
};
use tunnel::{wireguard_go::WireGuardGo, *};

const LIMIT: Duration = Duration::from_secs(20);

/// Bytes of each transfer: many super packets.
const BYTES: usize = 4 << 20;

const VXLAN_HOST: &str = "172.20.0.10";
const VXLAN_GATEWAY: &str = "172.20.0.1";

#[test]
fn with_everything_each_direction_goes_in_pieces_as_large_as_can_be() {
    let Some(end) = Ends::connected(Allowed::ALL) else {
        return;
    };
    let offload = end.device.device_stats().offload.unwrap();
    println!("{offload:?}");
    assert_eq!((offload.gso, offload.gro), (Part::On, Part::On));
    let link = run(&end.site.host, "ip", &["-d", "link", "show", "kedge0"]);
    let tunnels = offload.tun == Rung::UsoTunnel;
    // 45 segments of 1348 bytes and their headers; of what is inside datagrams, as large as it comes.
    let largest = if tunnels { 65_536 } else { 60_732 };
    assert!(link.contains(&format!("gso_max_size {largest} ")), "{link}");
    assert_eq!(offload.coalesce_tcp, Part::On);
    let carried = end.carry();
    assert!(carried.out > 3.0, "no super packets: {carried:?}");
    if tunnels {
        assert!(carried.out_in_vxlan > 3.0, "none in VXLAN: {carried:?}");
    }
}

#[test]
fn without_super_packets_inside_datagrams() {
    let Some(end) = Ends::connected(Allowed {
        tun: Rung::Uso,
        ..Allowed::ALL
    }) else {
        return;
    };
    assert_eq!(end.device.device_stats().offload.unwrap().tun, Rung::Uso);
    let carried = end.carry();
    assert!(carried.out_in_vxlan <= 1.1, "super packets: {carried:?}");
}

#[test]
fn without_super_packets_of_udp() {
    let Some(end) = Ends::connected(Allowed {
        tun: Rung::Tso,
        ..Allowed::ALL
    }) else {
        return;
    };
    let offload = end.device.device_stats().offload.unwrap();
    assert_eq!(offload.tun, Rung::Tso);
    assert!(offload.tun_because.is_some());
    end.carry();
}

#[test]
fn without_super_packets() {
    let Some(end) = Ends::connected(Allowed {
        tun: Rung::Plain,
        ..Allowed::ALL
    }) else {
        return;
    };
    let offload = end.device.device_stats().offload.unwrap();
    assert_eq!(offload.tun, Rung::Plain);
    assert_eq!(offload.tun_because, Some(Because::Configured));
    let carried = end.carry();
    assert!(carried.out <= 1.0, "super packets: {carried:?}");
}

#[test]
fn without_runs_of_datagrams() {
    let Some(end) = Ends::connected(Allowed {
        gso: false,
        gro: false,
        ..Allowed::ALL
    }) else {
        return;
    };
    let offload = end.device.device_stats().offload.unwrap();
    let off = Part::Off(Because::Configured);
    assert_eq!((offload.gso, offload.gro), (off, off));
    end.carry();
}

#[test]
fn without_anything() {
    let Some(end) = Ends::connected(Allowed::NONE) else {
        return;
    };
    let offload = end.device.device_stats().offload.unwrap();
    let off = Part::Off(Because::Configured);
    assert_eq!((offload.coalesce_tcp, offload.coalesce_udp), (off, off));
    let carried = end.carry();
    assert!(carried.out <= 1.0 && carried.inward <= 1.0, "{carried:?}");
}

#[test]
fn two_of_us_with_everything() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let (device, gateway) = site.open();
    let end = Ends {
        device,
        theirs: Theirs::Kedge(gateway),
        site,
    };
    end.wait();
    let carried = end.carry();
    assert!(carried.out > 3.0 && carried.inward > 3.0, "{carried:?}");
}

#[test]
fn a_link_too_small_for_runs_costs_no_packet() {
    let Some(end) = Ends::connected(Allowed::ALL) else {
        return;
    };
    // A sealed packet is larger than the link: it goes in fragments, which runs cannot.
    for (namespace, link) in [(&end.site.host, "eth0"), (&end.site.router, "lan")] {
        run(namespace, "ip", &["link", "set", link, "mtu", "1300"]);
    }
    end.tcp(&end.site.host, HOST_V4, &end.site.gateway, GATEWAY_V4);
    eventually("it is told", LIMIT, || {
        end.device.device_stats().offload.unwrap().gso == Part::OnBut(1)
    });
    end.check_drops();
}

/// A device of ours at the host, and something else at the gateway.
struct Ends {
    device: Device,
    theirs: Theirs,
    site: Site,
}

enum Theirs {
    WireGuardGo(WireGuardGo),
    Kedge(#[expect(dead_code, reason = "it runs as long as this")] Device),
}

/// How many packets the device took for one that the host gave, and gave to the host in one.
#[derive(Debug)]
struct Carried {
    out: f64,
    inward: f64,
    out_in_vxlan: f64,
}

impl Ends {
    fn connected(offload: Allowed) -> Option<Self> {
        if !ready() {
            return None;
        }
        let site = Site::new();
        let configuration = format!(
            "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n\
             [Peer]\nPublicKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n",
            key(2).to_base64().as_str(),
            key(1).public(),
        );
        let theirs = WireGuardGo::start(
            &site.gateway,
            &configuration,
            &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
        );
        let device = site.open_host_with(offload);
        device.apply(vec![gateway_peer()]).unwrap();
        let ends = Self {
            device,
            theirs: Theirs::WireGuardGo(theirs),
            site,
        };
        ends.wait();
        Some(ends)
    }

    fn wait(&self) {
        let _echo = self.site.echo();
        let probe = socket(&self.site.host, HOST);
        eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    }

    /// Sends TCP, UDP, and TCP in VXLAN through the tunnel, in both directions and families, and
    /// compares every byte.
    fn carry(&self) -> Carried {
        let Site { host, gateway, .. } = &self.site;
        let before = self.counts();
        for (ours, other) in [(HOST, GATEWAY), (HOST_V4, GATEWAY_V4)] {
            self.tcp(host, ours, gateway, other);
            self.tcp(gateway, other, host, ours);
        }
        let after = self.counts();
        for (ours, other) in [(HOST, GATEWAY), (HOST_V4, GATEWAY_V4)] {
            udp(host, gateway, other);
            udp(gateway, host, ours);
        }
        self.add_vxlan();
        let begun = self.counts();
        self.tcp(host, VXLAN_HOST, gateway, VXLAN_GATEWAY);
        let done = self.counts();
        self.tcp(gateway, VXLAN_GATEWAY, host, VXLAN_HOST);
        self.check_drops();
        let grown = |at: usize| after[at] - before[at];
        let carried = Carried {
            out: grown(0) / grown(1),
            inward: grown(2) / grown(3),
            out_in_vxlan: (done[0] - begun[0]) / (done[1] - begun[1]),
        };
        println!("{carried:?}");
        carried
    }

    /// Sealed and sent by the device, given to it by the host, opened by it, given to the host.
    fn counts(&self) -> [f64; 4] {
        let peer = peer(&self.device);
        let shown = run(
            &self.site.host,
            "ip",
            &["-j", "-s", "link", "show", "kedge0"],
        );
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let kernel = |way: &str| shown[0]["stats64"][way]["packets"].as_f64().unwrap();
        let count = |packets: u64| f64::from(u32::try_from(packets).unwrap());
        [
            count(peer.tx_packets),
            kernel("tx"),
            count(peer.rx_packets),
            kernel("rx"),
        ]
    }

    /// A VXLAN over the tunnel, whose outer UDP has no checksum, as every overlay of Kubernetes.
    fn add_vxlan(&self) {
        let theirs = match &self.theirs {
            Theirs::WireGuardGo(theirs) => theirs.name.as_str(),
            Theirs::Kedge(_) => "kedge0",
        };
        let Site { host, gateway, .. } = &self.site;
        for (namespace, link, own, other, address) in [
            (host, "kedge0", HOST_V4, GATEWAY_V4, VXLAN_HOST),
            (gateway, theirs, GATEWAY_V4, HOST_V4, VXLAN_GATEWAY),
        ] {
            let add = format!(
                "link add vx0 type vxlan id 7 dstport 4789 local {own} remote {other} dev {link} \
                 noudpcsum"
            );
            run(namespace, "ip", &add.split(' ').collect::<Vec<_>>());
            let address = format!("{address}/24");
            run(namespace, "ip", &["address", "add", &address, "dev", "vx0"]);
            run(
                namespace,
                "ip",
                &["link", "set", "vx0", "mtu", "1370", "up"],
            );
        }
    }

    /// Sends [`BYTES`] over TCP and back at once, and compares them.
    fn tcp(&self, client: &Namespace, from: &str, server: &Namespace, to: &str) {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let listener = server.run(|| TcpListener::bind((to, 0))).unwrap().unwrap();
        let at = listener.local_addr().unwrap();
        let sent: Vec<u8> = (0..BYTES)
            .map(|at| (at * 7 + (at >> 11)).to_le_bytes()[0])
            .collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, peer) = accept(&listener);
                assert_eq!(peer.ip(), from);
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                let mut came = vec![0; BYTES];
                stream.read_exact(&mut came).unwrap();
                stream.write_all(&came).unwrap();
            });
            let mut stream = client
                .run(|| TcpStream::connect_timeout(&at, LIMIT))
                .unwrap()
                .unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.set_write_timeout(Some(LIMIT)).unwrap();
            stream.write_all(&sent).unwrap();
            let mut came = vec![0; BYTES];
            stream.read_exact(&mut came).unwrap();
            assert!(came == sent, "{from} to {to}: other bytes came back");
        });
    }

    /// Nothing was refused by the host or the network.
    fn check_drops(&self) {
        let drops = peer(&self.device).drops;
        let ours = [
            DropReason::SendFailed,
            DropReason::DeliverFailed,
            DropReason::Oversized,
        ];
        let lost = drops.iter().find(|(reason, _)| ours.contains(reason));
        assert_eq!(lost, None, "{drops:?}");
        assert_eq!(self.device.device_stats().drops, []);
    }
}

/// Takes a connection, if there is one within the limit.
fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    let start = Instant::now();
    while accepted.is_none() && start.elapsed() < LIMIT {
        accepted = listener.accept().ok();
        thread::sleep(Duration::from_millis(1));
    }
    let (stream, peer) = accepted.expect("nobody called");
    stream.set_nonblocking(false).unwrap();
    (stream, peer)
}

/// Sends runs of datagrams, each in one system call, and compares what comes.
fn udp(from: &Namespace, to: &Namespace, address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let open = |namespace: &Namespace| namespace.run(|| Sockets::bind(0)).unwrap().unwrap();
    let (sender, receiver) = (open(from), open(to));
    let at = SocketAddr::new(address, receiver.port());
    let mut inbox = Inbox::new();
    for (round, (count, size)) in (0_u8..).zip([(1, 1), (40, 1_000), (33, 1_372), (64, 17)]) {
        let run: Vec<Vec<u8>> = (0..count)
            .map(|number| vec![number ^ round; usize::from(size)])
            .collect();
        let parts: Vec<_> = run.iter().map(|datagram| IoSlice::new(datagram)).collect();
        let segment = (count > 1).then_some(size);
        // A machine that stands still may lose one of them: then the run is sent again.
        eventually("a run arrives", LIMIT, || {
            while inbox.fill(&receiver, Family::of(address)).is_ok() {}
            sender
                .send(at, None, &parts, Form::segments(segment))
                .unwrap();
            arrives(&mut inbox, &receiver, Family::of(address), &run)
        });
    }
}

/// Whether exactly these datagrams come within a second.
fn arrives(inbox: &mut Inbox, receiver: &Sockets, family: Family, run: &[Vec<u8>]) -> bool {
    let mut came: Vec<Vec<u8>> = Vec::new();
    let start = Instant::now();
    while came.len() < run.len() && start.elapsed() < Duration::from_secs(1) {
        if inbox.fill(receiver, family).is_err() {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        for received in inbox.received() {
            came.extend(received.unwrap().datagrams().map(|bytes| bytes.to_vec()));
        }
    }
    let whole = came == run;
    if !whole {
        println!("{} of {} datagrams", came.len(), run.len());
    }
    whole
}
