use std::sync::Arc;

use proptest::prelude::*;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;

/// The hello of a real client.
fn hello(name: &str, sni: bool) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = sni;
    let name = name.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The same handshake in records of at most `size` bytes.
fn cut(hello: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in hello[HEADER..].chunks(size) {
        bytes.extend_from_slice(&hello[..3]);
        bytes.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

fn heard(bytes: &[u8]) -> Heard {
    Hello::new().take(bytes)
}

/// What is heard of bytes that come in parts.
fn heard_in_parts(bytes: &[u8], mut length: impl FnMut() -> usize) -> Heard {
    let mut hello = Hello::new();
    let (mut rest, mut heard) = (bytes, Heard::NeedMore);
    while !rest.is_empty() {
        let (part, later) = rest.split_at(length().clamp(1, rest.len()));
        let now = hello.take(part);
        assert!(heard == Heard::NeedMore || heard == now, "an answer stays");
        (heard, rest) = (now, later);
    }
    assert_eq!(hello.into_bytes(), bytes, "the member gets every byte");
    heard
}

#[test]
fn a_name_is_heard_or_it_is_said_why_not() {
    let name = |name: &str| Heard::Name(name.to_owned());
    let refused = Heard::Refused;
    let whole = hello("a.example", true);
    let mut longer = whole.clone();
    longer.extend_from_slice(&whole);
    let mut other = whole.clone();
    other[0] = 23;
    let mut broken = whole.clone();
    let length = broken.len();
    broken[HEADER + 4..length].fill(0xff);
    // A handshake message of 32 KiB.
    let mut long = vec![22, 3, 1, 0x10, 0, 1, 0, 0x80, 0];
    long.resize(HEADER + 0x1000, 0);
    for _ in 0..3 {
        long.extend_from_slice(&[22, 3, 1, 0x10, 0]);
        long.resize(long.len() + 0x1000, 0);
    }
    let table: [(&str, Vec<u8>, Heard); 14] = [
        ("a name", whole.clone(), name("a.example")),
        (
            "capitals",
            hello("WWW.A.Example", true),
            name("www.a.example"),
        ),
        ("more after it", longer, name("a.example")),
        ("small records", cut(&whole, 7), name("a.example")),
        (
            "no name",
            hello("a.example", false),
            refused(Refused::NoName),
        ),
        (
            "an address",
            hello("192.0.2.1", true),
            refused(Refused::NoName),
        ),
        ("nothing", Vec::new(), Heard::NeedMore),
        ("a part", whole[..40].to_vec(), Heard::NeedMore),
        (
            "plain text",
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            refused(Refused::NoTls),
        ),
        ("one letter", b"G".to_vec(), refused(Refused::NoTls)),
        ("no handshake", other, refused(Refused::NoTls)),
        (
            "an empty record",
            vec![22, 3, 1, 0, 0],
            refused(Refused::NoTls),
        ),
        ("broken inside", broken, refused(Refused::NoTls)),
        (
            "a record too long",
            vec![22, 3, 1, 0xff, 0xff],
            refused(Refused::TooLong),
        ),
    ];
    for (what, bytes, wanted) in table {
        assert_eq!(heard(&bytes), wanted, "{what}");
        assert_eq!(heard_in_parts(&bytes, || 1), wanted, "{what}, byte by byte");
    }
    assert!(
        matches!(heard(&long), Heard::Refused(_)),
        "never more than {MOST}"
    );
}

#[test]
fn nobody_is_listened_to_for_longer_than_a_hello_may_be() {
    // A message that goes on, in records that are all well.
    let whole = hello(&format!("{}.example", "a".repeat(60)), true);
    let mut endless = cut(&whole[..whole.len() - 1], 1);
    assert_eq!(heard(&endless), Heard::NeedMore);
    endless.resize(MOST, 22);
    let mut hello = Hello::new();
    assert_ne!(hello.room(), 0);
    hello.take(&endless);
    assert_eq!(hello.room(), 0);
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_makes_no_difference(
        size in 1_usize..600, lengths in prop::collection::vec(1_usize..200, 1..20), end in 0_usize..2_000,
    ) {
        let mut bytes = cut(&hello("a.example", true), size);
        bytes.truncate(bytes.len().saturating_sub(end).max(1));
        let mut next = lengths.iter().copied().cycle();
        prop_assert_eq!(heard_in_parts(&bytes, || next.next().unwrap()), heard(&bytes));
    }

    #[test]
    fn any_bytes_are_answered(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        lengths in prop::collection::vec(1_usize..200, 1..20),
        looks_like_tls in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if looks_like_tls {
            // A header of a record and of a hello, so that what is behind them is read.
            let length = u16::try_from(bytes.len() + 4).unwrap().to_be_bytes();
            let [high, low] = u16::try_from(bytes.len()).unwrap().to_be_bytes();
            let mut all = vec![22, 3, 1, length[0], length[1], 1, 0, high, low];
            all.append(&mut bytes);
            bytes = all;
        }
        let mut next = lengths.iter().copied().cycle();
        prop_assert_eq!(heard_in_parts(&bytes, || next.next().unwrap()), heard(&bytes));
    }

    #[test]
    fn a_hello_with_changed_bytes_is_answered(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        lengths in prop::collection::vec(1_usize..200, 1..20),
    ) {
        let mut bytes = hello("a.example", true);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut next = lengths.iter().copied().cycle();
        prop_assert_eq!(heard_in_parts(&bytes, || next.next().unwrap()), heard(&bytes));
    }
}
