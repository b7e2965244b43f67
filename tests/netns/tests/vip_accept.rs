//! Whether packets to a VIP are for the host that holds it (RFC 9568 section 6.1, `Accept_Mode`).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
};

use kedge_core::vip::RouterState;
use kedge_tests_netns::{
    client, eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
};
use kedge_vip_speaker::VipSpec;

const VIPS: [&str; 2] = ["10.20.14.10", "fd00:14::10"];

/// A host with a service, and its client.
fn served(lan: &Lan) -> (Host, Host) {
    let (a, c) = (
        lan.host("a", "10.20.14.11/24"),
        lan.host("c", "10.20.14.13/24"),
    );
    c.add_address("fd00:14::13/64");
    (a, c)
}

/// A holder of both addresses.
fn holder(host: &Host, accept: bool) -> Speaking {
    host.add_address("fd00:14::11/64");
    let mut dual = vip(51, 254, VIPS[0]);
    dual.addresses.push(VIPS[1].parse().unwrap());
    let speaker = Speaking::start(host, VipSpec { accept, ..dual });
    speaker.becomes(RouterState::Active, secs(3));
    eventually("the fence stands", secs(3), || {
        host.run(|| !kedge_net::fence::standing().unwrap().is_empty())
    });
    speaker
}

fn connects(client: &Host, to: &str) -> io::Result<()> {
    let to = SocketAddr::new(to.parse::<IpAddr>().unwrap(), 7777);
    client.run(move || TcpStream::connect_timeout(&to, millis(700)).map(drop))
}

fn listen(host: &Host) -> TcpListener {
    host.run(|| TcpListener::bind("[::]:7777").unwrap())
}

#[test]
fn by_default_a_service_behind_the_vip_is_reached() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, c) = served(&lan);
        let _service = listen(&a);
        let _speaker = holder(&a, true);
        for address in VIPS {
            connects(&c, address).unwrap();
        }
    });
}

#[test]
fn without_accept_the_address_is_found_and_nothing_answers_from_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, c) = served(&lan);
        let _service = listen(&a);
        let _speaker = holder(&a, false);
        for address in VIPS {
            let refused = connects(&c, address).unwrap_err();
            assert_eq!(
                refused.kind(),
                io::ErrorKind::TimedOut,
                "{address}: {refused}"
            );
            assert_eq!(client::neighbor(&c, address), Some(a.mac()), "{address}");
        }
        // What is the host's own still is.
        connects(&c, "10.20.14.11").unwrap();
        connects(&c, "fd00:14::11").unwrap();
    });
}
