//! What is said last: it reaches a neighbour that is slow, and one that talks all the while.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use kedge_core::bgp::{Asn, RouterId, SessionState};
use kedge_tests_netns::{
    eventually,
    lan::{Host, Lan},
    millis, ready, secs,
    tor::spec,
};
use kedge_vip_proto::wire::bgp::{
    Capability, Context, Family, Frame, Message, Notification, Open, keepalive,
};
use kedge_vip_speaker::bgp::{Bgp, HoldTime, Offer, Offers, PORT, Prefix, Text};

const ROUTES: u32 = 2_000;
const NEAR: &str = "10.20.14.11";
const FAR: &str = "10.20.14.12";

/// A neighbour of few words and a small window: it agrees on a session.
fn agree(host: &Host) -> TcpStream {
    let listener = host.run(|| {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_recv_buffer_size(4 * 1024).unwrap();
        let any: std::net::SocketAddr = format!("{FAR}:{PORT}").parse().unwrap();
        socket.bind(&any.into()).unwrap();
        socket.listen(4).unwrap();
        TcpListener::from(socket)
    });
    let (mut stream, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), NEAR);
    let open = Open {
        asn: Asn::new(65_014).unwrap(),
        hold_time: HoldTime::from_secs(90).unwrap(),
        router_id: RouterId::new(0x0a14_0e0c).unwrap(),
        capabilities: vec![
            Capability::of(Family::Ipv4),
            Capability::FourOctetAs(Asn::new(65_014).unwrap()),
        ],
    };
    let mut words = Vec::new();
    open.put(&mut words);
    words.extend(keepalive().bytes);
    stream.write_all(&words).unwrap();
    stream
}

fn offers() -> Offers {
    let route = |number: u32| {
        let [a, b, c, d] = (0x0a80_0000 + number).to_be_bytes();
        let address = std::net::Ipv4Addr::new(a, b, c, d);
        // Each of a path of its own, so that no two share a message.
        let offer = Offer {
            med: Some(number),
            ..Offer::default()
        };
        (Prefix::host(address.into()), offer)
    };
    (0..ROUTES).map(route).collect()
}

/// All that was sent, to its end, and what was said last.
fn last_word(mut stream: TcpStream) -> (usize, Option<Notification>) {
    stream.set_read_timeout(Some(secs(5))).unwrap();
    let mut bytes = Vec::new();
    // A connection that was reset is an error here.
    stream.read_to_end(&mut bytes).unwrap();
    let context = Context {
        internal: false,
        four_octet: true,
        extended_next_hop: false,
    };
    let (mut rest, mut count, mut last) = (&bytes[..], 0, None);
    while let Some((frame, after)) = Frame::split(rest).unwrap() {
        count += 1;
        last = match Message::parse(&frame, &context).unwrap() {
            Message::Notification(notification) => Some(notification),
            _ => None,
        };
        rest = after;
    }
    assert!(rest.is_empty(), "the last message is cut");
    (count, last)
}

/// The session, and what its end takes; `meanwhile` is what the neighbour does.
fn leave(meanwhile: impl FnOnce(&mut TcpStream) + Send + 'static) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let peer = thread::spawn(move || {
        let mut stream = agree(&b);
        meanwhile(&mut stream);
        last_word(stream)
    });
    let mut bgp = a.run(|| {
        let mut bgp = Bgp::new(PORT);
        bgp.offer(offers());
        bgp.apply(vec![spec(FAR)]);
        bgp
    });
    eventually("established", secs(10), || {
        bgp.snapshot()
            .first()
            .is_some_and(|it| it.view.state == SessionState::Established)
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let begun = Instant::now();
    runtime.block_on(bgp.shutdown(Text::new("rack moves"), millis(500)));
    let asked = begun.elapsed();
    drop(bgp);
    let gone = begun.elapsed();
    let (count, last) = peer.join().unwrap();
    println!(
        "  {count} messages; whoever asked waited for {asked:?}, the thread was there for {gone:?}"
    );
    assert!(asked < millis(900), "{asked:?}");
    assert!(gone < millis(2_500), "{gone:?}");
    let last = last.unwrap().to_string();
    assert!(last.contains("rack moves"), "{last}");
}

#[test]
fn a_neighbour_that_reads_late_hears_why_the_session_ended() {
    if !ready() {
        return;
    }
    leave(|_| thread::sleep(millis(900)));
}

#[test]
fn a_neighbour_that_talks_all_the_while_hears_why_the_session_ended() {
    if !ready() {
        return;
    }
    leave(|stream| {
        // As much as it can say for a while, and nothing is read.
        let words = keepalive().bytes.repeat(64);
        stream.set_write_timeout(Some(millis(50))).unwrap();
        let until = Instant::now() + Duration::from_millis(700);
        while Instant::now() < until {
            // What was cut by the time is gone on with later, so that it stays a message.
            let mut rest = &words[..];
            while !rest.is_empty() && Instant::now() < until + secs(1) {
                match stream.write(rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(_) if rest.len() < words.len() => {}
                    Err(_) => break,
                }
            }
        }
    });
}
