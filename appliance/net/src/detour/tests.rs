use std::{
    io::{Read as _, Write as _},
    process::Command,
    time::Duration,
};

use super::*;
use crate::{
    link::Links,
    netns::{Lease, Namespace, tests::root},
};

/// A host with a default route, over which nobody answers.
fn in_a_host(test: impl FnOnce() + Send) {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let host = Namespace::create(&lease.namespace("a")).unwrap();
    host.run(|| {
        let mut links = Links::open().unwrap();
        links.veth("eth0", "far", None).unwrap();
        for link in ["lo", "eth0", "far"] {
            links.up(link).unwrap();
        }
        for net in ["10.20.14.11/24", "fd00:14::b/64"] {
            links.add_address("eth0", net.parse().unwrap()).unwrap();
        }
        for (to, via) in [("0.0.0.0/0", "10.20.14.1"), ("::/0", "fd00:14::1")] {
            let (to, via) = (to.parse().unwrap(), via.parse().unwrap());
            links.add_route(to, via).unwrap();
        }
        test();
    })
    .unwrap();
}

fn ip(line: &str) -> String {
    let output = Command::new("ip").args(line.split(' ')).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn dial(to: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&to, Duration::from_millis(300))
}

/// Dials, and sees that this host took it.
fn comes_here(to: SocketAddr, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = dial(to).unwrap();
    listener.set_nonblocking(false).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    assert_eq!(server.local_addr().unwrap(), to);
    carries(&mut client, &mut server);
    (client, server)
}

fn carries(client: &mut TcpStream, server: &mut TcpStream) {
    client.write_all(b"word").unwrap();
    let mut word = [0; 4];
    server.read_exact(&mut word).unwrap();
    server.write_all(&word).unwrap();
    client.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"word");
}

#[test]
fn one_port_of_an_address_is_led_here_and_the_rest_of_it_is_not() {
    in_a_host(|| {
        for (to, other) in [
            ("203.0.113.7:30001", "203.0.113.7:51820"),
            ("[2001:db8::7]:30001", "[2001:db8::7]:51820"),
        ] {
            let (to, other) = (at(to), at(other));
            let listener = listen(to).unwrap();
            assert!(dial(to).is_err(), "nothing stands yet");
            let mut detours = Detours::open().unwrap();
            detours.put_up(&[to]).unwrap();
            detours.put_up(&[to]).unwrap();
            assert_eq!(detours.standing, BTreeMap::from([(to, true)]));
            let (mut client, mut server) = comes_here(to, &listener);
            // The address is nobody's here: other ports of it, and datagrams, go out.
            let asked = |to: SocketAddr, protocol: &str| {
                let (ip_, port) = (to.ip(), to.port());
                ip(&format!("route get {ip_} ipproto {protocol} dport {port}"))
            };
            for (to, protocol) in [(other, "tcp"), (to, "udp"), (other, "udp")] {
                let way = asked(to, protocol);
                assert!(way.contains("dev eth0"), "{way}");
            }
            assert!(asked(to, "tcp").contains("local"));
            assert!(!ip("address").contains(&to.ip().to_string()));
            // Whoever asks for the way there as it was finds it.
            let mark = format!(
                "route get {} ipproto tcp dport 30001 mark {PASSES}",
                to.ip()
            );
            assert!(ip(&mark).contains("dev eth0"));
            assert!(Socket::from(passing(to).unwrap()).mark().unwrap() == PASSES);
            let link = ip(&format!("link show dev {LINK}"));
            assert!(link.contains("group 107"), "{link}");
            // What runs goes on, and nothing new comes.
            detours.narrow(&[to]).unwrap();
            assert!(dial(to).is_err());
            if keeps(to) {
                carries(&mut client, &mut server);
            }
            detours.take_down(&[to]).unwrap();
            assert!(!ip("link").contains(LINK));
            for family in ["-4", "-6"] {
                assert!(!ip(&format!("{family} rule")).contains("30001"));
            }
        }
    });
}

#[test]
fn a_process_that_dies_leaves_no_detour_and_the_next_one_clears_its_rules() {
    in_a_host(|| {
        let to = at("203.0.113.7:30001");
        let listener = listen(to).unwrap();
        let mut detours = Detours::open().unwrap();
        detours.put_up(&[to]).unwrap();
        let (_client, _server) = comes_here(to, &listener);
        ip("rule add pref 200 to 203.0.113.7 lookup main");
        drop(detours);
        let way = ip("route get 203.0.113.7 ipproto tcp dport 30001");
        assert!(way.contains("dev eth0"), "{way}");
        let mut next = Detours::open().unwrap();
        assert_eq!(next.clear().unwrap(), 2);
        assert_eq!(next.clear().unwrap(), 0);
        assert!(ip("rule").contains("200:"), "another's");
        next.put_up(&[to]).unwrap();
        comes_here(to, &listener);
    });
}

#[test]
fn two_ports_of_an_address_come_and_go_one_by_one() {
    in_a_host(|| {
        let (api, join) = (at("203.0.113.7:6443"), at("203.0.113.7:9345"));
        let (listens, joins) = (listen(api).unwrap(), listen(join).unwrap());
        let mut detours = Detours::open().unwrap();
        detours.put_up(&[api, join]).unwrap();
        comes_here(api, &listens);
        comes_here(join, &joins);
        detours.take_down(&[join]).unwrap();
        assert!(dial(join).is_err());
        comes_here(api, &listens);
        // Where somebody has the port of all addresses nothing is taken from him.
        let everywhere = TcpListener::bind("0.0.0.0:7000").unwrap();
        let taken = listen(at("203.0.113.7:7000")).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(everywhere);
    });
}
