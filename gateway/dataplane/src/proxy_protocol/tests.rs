use proptest::prelude::*;

use super::*;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn four() -> Addresses {
    Addresses {
        source: at("192.0.2.7:56324"),
        destination: at("203.0.113.9:443"),
    }
}

fn six() -> Addresses {
    Addresses {
        source: at("[2001:db8::7]:56324"),
        destination: at("[2001:db8::9]:443"),
    }
}

fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, rest].concat()
}

/// Headers of all kinds, and what each says.
fn good() -> Vec<(Vec<u8>, Header)> {
    let ends = [192, 0, 2, 7, 203, 0, 113, 9, 0xdc, 0x04, 0x01, 0xbb];
    let tlv = [&ends[..], &[0x04, 0, 3, 1, 2, 3]].concat();
    let text = |line: &str| line.as_bytes().to_vec();
    vec![
        (
            text("PROXY TCP4 192.0.2.7 203.0.113.9 56324 443\r\n"),
            Header::Proxied(four()),
        ),
        (
            text("PROXY TCP6 2001:db8::7 2001:db8::9 56324 443\r\n"),
            Header::Proxied(six()),
        ),
        (text("PROXY UNKNOWN\r\n"), Header::Own),
        (text("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"), Header::Own),
        (binary(PROXY, TCP4, &ends), Header::Proxied(four())),
        (binary(PROXY, TCP4, &tlv), Header::Proxied(four())),
        (write(ClientIp::ProxyV2, &six()), Header::Proxied(six())),
        (binary(PROXY, UNSPEC, b""), Header::Own),
        (binary(PROXY, UNSPEC, b"what is unknown"), Header::Own),
        (binary(LOCAL, UNSPEC, b""), Header::Own),
        // What else a LOCAL header says is nobody's (section 2.2).
        (binary(LOCAL, TCP4, &ends), Header::Own),
        (binary(LOCAL, 0x31, &[0; 216]), Header::Own),
        (
            binary(PROXY, TCP4, &[&ends[..], &[0; MOST - HEAD - 12]].concat()),
            Header::Proxied(four()),
        ),
    ]
}

#[test]
fn every_header_is_read_and_what_follows_is_left() {
    for (bytes, header) in good() {
        assert_eq!(read(&bytes), Ok(Some((header, bytes.len()))), "{bytes:?}");
        let more = [&bytes[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        assert_eq!(read(&more), Ok(Some((header, bytes.len()))), "{bytes:?}");
    }
}

#[test]
fn a_header_that_is_cut_anywhere_is_waited_for() {
    for (bytes, _) in good() {
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Ok(None), "{end} of {bytes:?}");
        }
    }
}

#[test]
fn what_is_no_header_is_refused() {
    let text = |line: &str| line.as_bytes().to_vec();
    let long = format!("PROXY UNKNOWN {}", "x".repeat(MOST_TEXT));
    let ends = [0; 12];
    let table = [
        (text("GET / HTTP/1.1\r\n"), Wrong::NoHeader),
        (text("PROXi"), Wrong::NoHeader),
        (text("\x16\x03\x01"), Wrong::NoHeader),
        (text("\r\n\r\n\0\r\nQUIT\r"), Wrong::NoHeader),
        (text("PROXY \r\n"), Wrong::Invalid),
        (text("PROXY UNKNOWNS\r\n"), Wrong::Invalid),
        (text("PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n"), Wrong::Invalid),
        (text("PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n"), Wrong::Invalid),
        (text("PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n"), Wrong::Invalid),
        (text("PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n"), Wrong::Invalid),
        (text("PROXY TCP4 1.2.3.4 1.2.3.4 1 +2\r\n"), Wrong::Invalid),
        (text("PROXY TCP4 1.2.3.4 1.2.3.4 1 \r\n"), Wrong::Invalid),
        (
            text("PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n"),
            Wrong::Invalid,
        ),
        (text("PROXY TCP4 1.2.3.4 1.2.3.04 1 2\r\n"), Wrong::Invalid),
        (text("PROXY TCP4 ::1 ::1 1 2\r\n"), Wrong::Invalid),
        (text("PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n"), Wrong::Invalid),
        (text("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n\r\n"), Wrong::Invalid),
        (b"PROXY TCP4 \xff\r\n".to_vec(), Wrong::Invalid),
        (text(&long), Wrong::TooLong),
        (binary(0x11, TCP4, &ends), Wrong::Invalid),
        (binary(0x22, TCP4, &ends), Wrong::Invalid),
        // Datagrams, sockets of files, and addresses of which a byte is missing.
        (binary(PROXY, 0x12, &ends), Wrong::Invalid),
        (binary(PROXY, 0x31, &[0; 216]), Wrong::Invalid),
        (binary(PROXY, TCP4, &ends[1..]), Wrong::Invalid),
        (binary(PROXY, TCP6, &[0; 35]), Wrong::Invalid),
        (binary(PROXY, UNSPEC, &[0; MOST - HEAD + 1]), Wrong::TooLong),
    ];
    for (bytes, wrong) in table {
        let said = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(read(&bytes), Err(wrong), "{said:?}");
    }
}

#[test]
fn members_are_told_in_the_version_they_expect() {
    assert_eq!(write(ClientIp::Hidden, &four()), b"");
    assert_eq!(
        write(ClientIp::ProxyV1, &four()),
        b"PROXY TCP4 192.0.2.7 203.0.113.9 56324 443\r\n"
    );
    assert_eq!(write(ClientIp::ProxyV2, &four()).len(), 28);
    // IPv4 on a socket of IPv6 is IPv4.
    let mapped = Addresses {
        source: at("[::ffff:192.0.2.7]:56324"),
        destination: at("[::ffff:203.0.113.9]:443"),
    };
    for told in [ClientIp::ProxyV1, ClientIp::ProxyV2] {
        assert_eq!(write(told, &mapped), write(told, &four()));
        for ends in [four(), six()] {
            let header = write(told, &ends);
            assert_eq!(
                read(&header),
                Ok(Some((Header::Proxied(ends), header.len())))
            );
        }
    }
    // An end in each family.
    let both = Addresses {
        source: at("192.0.2.7:1"),
        destination: at("[2001:db8::9]:2"),
    };
    assert_eq!(
        write(ClientIp::ProxyV1, &both),
        b"PROXY TCP6 ::ffff:192.0.2.7 2001:db8::9 1 2\r\n"
    );
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(
        version in 0..3_usize,
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let begin = [&b""[..], WORD, SIGNATURE][version];
        let bytes = [begin, &rest].concat();
        if let Ok(Some((_, end))) = read(&bytes) {
            prop_assert!(end <= bytes.len());
            // As it is cut, it is waited for or refused, and never another header.
            for cut in 0..end {
                prop_assert!(!matches!(read(&bytes[..cut]), Ok(Some(_))), "{cut}");
            }
        }
    }

    #[test]
    fn lines_of_words_are_read_or_refused(
        words in proptest::collection::vec("(PROXY|UNKNOWN|TCP[46]|[0-9.:a-f]{0,12}|\\PC{0,4})", 0..8),
    ) {
        let line = format!("PROXY {}\r\n", words.join(" "));
        let read = read(line.as_bytes());
        prop_assert!(!matches!(read, Ok(None)), "{line}: {read:?}");
    }

    #[test]
    fn what_is_written_is_read(
        source in any::<(IpAddr, u16)>(),
        destination in any::<(IpAddr, u16)>(),
    ) {
        let ends = Addresses { source: source.into(), destination: destination.into() };
        for told in [ClientIp::ProxyV1, ClientIp::ProxyV2] {
            let header = write(told, &ends);
            let Ok(Some((Header::Proxied(back), end))) = read(&header) else {
                panic!("{ends:?}: {header:?}");
            };
            prop_assert_eq!(end, header.len());
            let plain = |at: SocketAddr| (at.ip().to_canonical(), at.port());
            prop_assert_eq!(plain(back.source), plain(ends.source));
            prop_assert_eq!(plain(back.destination), plain(ends.destination));
        }
    }
}
