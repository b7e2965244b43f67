use std::{io::IoSlice, iter};

use super::*;

/// Sockets that talk to each other in every family the host has.
fn pair() -> (Sockets, Sockets, Vec<(Family, SocketAddr)>) {
    let (a, b) = (Sockets::bind(0).unwrap(), Sockets::bind(0).unwrap());
    let at = |family, address: IpAddr| (family, SocketAddr::new(address, b.port()));
    let ways = [
        at(Family::V4, Ipv4Addr::LOCALHOST.into()),
        at(Family::V6, Ipv6Addr::LOCALHOST.into()),
    ];
    let ways = ways
        .into_iter()
        .filter(|(family, _)| b.fd(*family).is_some());
    let ways = ways.collect();
    (a, b, ways)
}

/// What waits, datagram by datagram, and how many buffers it took.
fn take(inbox: &mut Inbox, sockets: &Sockets, family: Family) -> (Vec<Vec<u8>>, usize) {
    let (mut datagrams, mut bundles) = (Vec::new(), 0);
    while let Ok(arrived) = inbox.fill(sockets, family) {
        bundles += arrived.bundles;
        for received in inbox.received() {
            datagrams.extend(received.unwrap().datagrams().map(|bytes| bytes.to_vec()));
        }
    }
    (datagrams, bundles)
}

/// Datagrams that differ, of these sizes.
fn datagrams(sizes: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    let numbered = sizes.into_iter().zip((0..=u8::MAX).cycle());
    numbered.map(|(size, number)| vec![number; size]).collect()
}

#[test]
fn both_families_get_the_same_port_and_talk() {
    let (a, b, ways) = pair();
    assert_ne!(a.port(), 0);
    let mut inbox = Inbox::new();
    for (family, to) in ways {
        a.send(
            to,
            None,
            &[IoSlice::new(b"hel"), IoSlice::new(b"lo")],
            Form::ONE,
        )
        .unwrap();
        let arrived = inbox.fill(&b, family).unwrap();
        assert_eq!((arrived.bundles, arrived.more), (1, false));
        let received: Vec<_> = inbox.received().map(Option::unwrap).collect();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].bytes, b"hello");
        assert_eq!(received[0].from, SocketAddr::new(to.ip(), a.port()));
        let none = inbox.fill(&b, family).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(inbox.received().count(), 0, "what came is gone");
    }
}

#[test]
fn many_datagrams_come_in_their_order_and_an_empty_one_is_one() {
    let (a, b, ways) = pair();
    let mut inbox = Inbox::new();
    for (family, to) in ways {
        let sent = datagrams((0..70).map(|number| number % 7 * 100));
        for datagram in &sent {
            a.send(to, None, &[IoSlice::new(datagram)], Form::ONE)
                .unwrap();
        }
        assert!(inbox.fill(&b, family).unwrap().more);
        let mut came: Vec<Vec<u8>> = Vec::new();
        for received in inbox.received() {
            came.extend(received.unwrap().datagrams().map(|bytes| bytes.to_vec()));
        }
        came.extend(take(&mut inbox, &b, family).0);
        assert_eq!(came, sent);
    }
}

#[test]
fn a_run_is_cut_into_its_datagrams_with_and_without_gro() {
    let (a, b, ways) = pair();
    let mut inbox = Inbox::new();
    for gro in [false, true] {
        b.set_gro(gro).unwrap();
        for &(family, to) in &ways {
            let sent = datagrams(iter::repeat_n(1_000, LONGEST_RUN - 1).chain([17]));
            let parts: Vec<_> = sent.iter().map(|datagram| IoSlice::new(datagram)).collect();
            a.send(to, None, &parts, Form::segments(Some(1_000)))
                .unwrap();
            let (came, bundles) = take(&mut inbox, &b, family);
            assert_eq!(came, sent);
            println!("gro {gro}, {family:?}: {bundles} buffers");
            assert!(gro && bundles < 8 || !gro && bundles == LONGEST_RUN);
        }
    }
}

#[test]
fn the_traffic_class_goes_along_and_parts_runs() {
    let (a, b, ways) = pair();
    b.set_gro(true).unwrap();
    let mut inbox = Inbox::new();
    for &(family, to) in &ways {
        for (traffic_class, segment) in [(0, None), (2, None), (3, Some(100)), (0xba, Some(100))] {
            let sent = datagrams([100, 100]);
            let parts: Vec<_> = sent.iter().map(|datagram| IoSlice::new(datagram)).collect();
            let form = Form {
                segment,
                traffic_class,
            };
            a.send(to, None, &parts, form).unwrap();
            inbox.fill(&b, family).unwrap();
            let told: Vec<u8> = inbox
                .received()
                .map(|received| received.unwrap().traffic_class)
                .collect();
            assert!(told.iter().all(|class| *class == traffic_class), "{told:?}");
        }
    }
}

#[test]
fn what_one_call_refuses_goes_one_by_one() {
    let (a, _b, ways) = pair();
    for (_, to) in ways {
        let sent = datagrams(iter::repeat_n(600, LONGEST_RUN * 4));
        let parts: Vec<_> = sent.iter().map(|datagram| IoSlice::new(datagram)).collect();
        let error = a
            .send(to, None, &parts, Form::segments(Some(600)))
            .unwrap_err();
        assert!(refuses_segments(&error), "{error}");
    }
    assert!(!refuses_segments(&Errno::ACCESS.into()));
}

#[test]
fn a_taken_port_is_told_with_its_number() {
    let first = Sockets::bind(0).unwrap();
    let error = Sockets::bind(first.port()).unwrap_err();
    let problem = error.problem();
    assert_eq!(problem.code, Code::TunPortInUse);
    assert!(problem.what.contains(&first.port().to_string()));
    assert!(problem.fix.unwrap().command.is_some());
}
