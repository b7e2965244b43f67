use std::{net::SocketAddr, time::Duration};

use proptest::prelude::*;

use super::{
    answer::{Secrets, Traffic},
    *,
};
use crate::keys::{PrivateKey, PublicKey};

/// The example of <https://www.wireguard.com/xplatform/>, with the last peer's removal.
const SET: &str = "\
set=1
private_key=e84b5a6d2717c1003a13b431570353dbaca9146cf150c5f8575680feba52027a
fwmark=0
listen_port=12912
replace_peers=true
public_key=b85996fecc9c7f1fc6d2572a76eda11d59bcd20be8e543b15ce4bd85a8e75a33
preshared_key=188515093e952f5f22e865cef3012e72f8b5f0b598ac0309d5dacce3b70fcf52
replace_allowed_ips=true
allowed_ip=192.168.4.4/32
endpoint=[abcd:23::33%2]:51820
public_key=58402e695ba1772b1cc9309755f043251ea77fdcf10fbe63989ceb7e19321376
replace_allowed_ips=true
allowed_ip=192.168.4.6/32
persistent_keepalive_interval=111
endpoint=182.122.22.19:3233
public_key=662e14fd594556f522604703340351258903b64f35553763f19426ab2a515c58
endpoint=5.152.198.39:51820
replace_allowed_ips=true
allowed_ip=192.168.4.10/32
allowed_ip=192.168.4.11/32
public_key=e818b58db5274087fcc1be5dc728cf53d3b5726b4cef6b9bab8f8f8c2452c25c
remove=true

";

const GET: &str = "\
private_key=e84b5a6d2717c1003a13b431570353dbaca9146cf150c5f8575680feba52027a
listen_port=12912
public_key=58402e695ba1772b1cc9309755f043251ea77fdcf10fbe63989ceb7e19321376
protocol_version=1
endpoint=182.122.22.19:3233
last_handshake_time_sec=0
last_handshake_time_nsec=0
tx_bytes=0
rx_bytes=0
persistent_keepalive_interval=111
allowed_ip=192.168.4.6/32
public_key=662e14fd594556f522604703340351258903b64f35553763f19426ab2a515c58
protocol_version=1
endpoint=5.152.198.39:51820
last_handshake_time_sec=1600000000
last_handshake_time_nsec=5
tx_bytes=1212111
rx_bytes=2212
persistent_keepalive_interval=0
allowed_ip=192.168.4.10/32
allowed_ip=192.168.4.11/32
public_key=b85996fecc9c7f1fc6d2572a76eda11d59bcd20be8e543b15ce4bd85a8e75a33
preshared_key=188515093e952f5f22e865cef3012e72f8b5f0b598ac0309d5dacce3b70fcf52
protocol_version=1
endpoint=[abcd:23::33%2]:51820
last_handshake_time_sec=0
last_handshake_time_nsec=0
tx_bytes=0
rx_bytes=0
persistent_keepalive_interval=0
allowed_ip=192.168.4.4/32
errno=0

";

fn scope(name: &str) -> Option<u32> {
    (name == "eth0").then_some(7)
}

/// Every outcome of a connection that says `bytes` in pieces of `size`.
fn read(bytes: &[u8], size: usize) -> Vec<Result<Request, Errno>> {
    let mut parser = Parser::new(scope);
    let mut outcomes = Vec::new();
    for mut piece in bytes.chunks(size.max(1)) {
        while let Some(outcome) = parser.next(&mut piece) {
            let over = outcome.as_ref().is_err_and(|errno| errno.ends_connection());
            outcomes.push(outcome);
            if over && piece.is_empty() {
                break;
            }
            if over {
                return outcomes;
            }
        }
    }
    outcomes
}

fn set(text: &str) -> Result<Set, Errno> {
    let mut outcomes = read(format!("set=1\n{text}\n").as_bytes(), usize::MAX);
    assert_eq!(outcomes.len(), 1, "{text:?}");
    outcomes.remove(0).map(|request| match request {
        Request::Set(set) => set,
        Request::Get => panic!("{text:?}"),
    })
}

fn applied(text: &str) -> Configuration {
    let mut configuration = Configuration::default();
    configuration.apply(set(text).unwrap());
    configuration
}

fn told(configuration: &Configuration) -> String {
    let silent = |_: &PublicKey| Traffic::default();
    answer::get(
        configuration,
        configuration.listen_port(),
        Secrets::Told,
        silent,
    )
    .to_string()
}

/// A key of hexadecimal digits that is no other's.
fn key(number: u8) -> String {
    format!("{number:02x}").repeat(32)
}

#[test]
fn the_example_of_the_protocol_is_read_and_told() {
    for size in [1, 2, 7, 64, 4_096] {
        let mut outcomes = read(format!("{SET}get=1\n\n").as_bytes(), size);
        assert_eq!(outcomes.len(), 2, "pieces of {size}");
        assert!(matches!(outcomes.remove(1), Ok(Request::Get)));
        let Ok(Request::Set(set)) = outcomes.remove(0) else {
            panic!("pieces of {size}")
        };
        let mut configuration = Configuration::default();
        configuration.apply(set);
        let busy: SocketAddr = "5.152.198.39:51820".parse().unwrap();
        let busy = configuration
            .peers()
            .find(|(_, peer)| peer.endpoint == Some(busy));
        let busy = *busy.unwrap().0;
        let traffic = |key: &PublicKey| {
            if *key == busy {
                Traffic {
                    last_handshake: Duration::new(1_600_000_000, 5),
                    rx_bytes: 2_212,
                    tx_bytes: 1_212_111,
                }
            } else {
                Traffic::default()
            }
        };
        let text = answer::get(
            &configuration,
            configuration.listen_port(),
            Secrets::Told,
            traffic,
        );
        assert_eq!(text.as_str(), GET);
        let kept = answer::get(
            &configuration,
            configuration.listen_port(),
            Secrets::Kept,
            traffic,
        );
        assert!(!kept.contains("private_key") && !kept.contains("preshared_key"));
        assert!(kept.contains("public_key=") && kept.ends_with("errno=0\n\n"));
    }
}

#[test]
fn what_is_no_set_is_refused_with_its_errno() {
    let peer = format!("public_key={}\n", key(1));
    for (lines, errno) in [
        ("listen_port=65536\n", Errno::Invalid),
        ("listen_port=-1\n", Errno::Invalid),
        ("listen_port=+1\n", Errno::Invalid),
        ("listen_port=\n", Errno::Invalid),
        ("listen_port=0x10\n", Errno::Invalid),
        ("fwmark=4294967296\n", Errno::Invalid),
        ("replace_peers=false\n", Errno::Invalid),
        ("private_key=00\n", Errno::Invalid),
        ("endpoint=1.2.3.4:5\n", Errno::Invalid),
        ("no such key\n", Errno::Protocol),
        ("unknown=1\n", Errno::Invalid),
        ("=\n", Errno::Invalid),
        (&format!("public_key={}\n", key(0)), Errno::Invalid),
        (&format!("{peer}listen_port=1\n"), Errno::Invalid),
        (&format!("{peer}remove=false\n"), Errno::Invalid),
        (&format!("{peer}update_only=1\n"), Errno::Invalid),
        (
            &format!("{peer}preshared_key={}\n", &key(1)[1..]),
            Errno::Invalid,
        ),
        (&format!("{peer}protocol_version=2\n"), Errno::Invalid),
        (&format!("{peer}endpoint=1.2.3.4\n"), Errno::Invalid),
        (&format!("{peer}endpoint=host.example:1\n"), Errno::Invalid),
        (
            &format!("{peer}endpoint=[fe80::1%nosuch]:1\n"),
            Errno::Invalid,
        ),
        (
            &format!("{peer}persistent_keepalive_interval=off\n"),
            Errno::Invalid,
        ),
        (&format!("{peer}allowed_ip=1.2.3.4\n"), Errno::Invalid),
        (&format!("{peer}allowed_ip=1.2.3.4/33\n"), Errno::Invalid),
        (&format!("{peer}allowed_ip=::/129\n"), Errno::Invalid),
        (&format!("{peer}allowed_ip=--::/0\n"), Errno::Invalid),
        (&format!("{peer}allowed_ip=1.2.3.4/+8\n"), Errno::Invalid),
    ] {
        assert_eq!(set(lines).map(drop), Err(errno), "{lines:?}");
        // The connection goes on behind it.
        if errno == Errno::Invalid {
            let two = format!("set=1\n{lines}listen_port=1\n\nget=1\n\n");
            let outcomes = read(two.as_bytes(), 5);
            assert!(matches!(outcomes.as_slice(), [Err(_), Ok(Request::Get)]));
        }
    }
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let long = format!("set=1\nprivate_key={}\n\n", "0".repeat(MAX_LINE));
    for (bytes, errno) in [
        (b"hello\n\n".as_slice(), Errno::Protocol),
        (b"get=2\n\n", Errno::Protocol),
        (b"GET / HTTP/1.1\r\n\r\n", Errno::Protocol),
        (&[0xff; 1_000], Errno::Protocol),
        (long.as_bytes(), Errno::Protocol),
    ] {
        let outcomes = read(bytes, 64);
        assert_eq!(outcomes.last().unwrap().as_ref().err(), Some(&errno));
        assert!(errno.ends_connection());
    }
    let mut parser = Parser::new(scope);
    let mut bytes = b"hello\nget=1\n\n".as_slice();
    for _ in 0..3 {
        assert!(matches!(
            parser.next(&mut bytes),
            Some(Err(Errno::Protocol))
        ));
    }
}

#[test]
fn a_request_without_end_is_cut_off() {
    let mut parser = Parser::new(scope);
    let line = format!("public_key={}\n", key(1));
    assert!(parser.next(&mut b"set=1\nno\n".as_slice()).is_none());
    let mut length = 9;
    let outcome = loop {
        length += line.len();
        if let Some(outcome) = parser.next(&mut line.as_bytes()) {
            break outcome;
        }
        assert!(length <= MAX_REQUEST);
    };
    assert!(matches!(outcome, Err(Errno::TooBig)));
}

#[test]
fn a_name_behind_a_link_local_address_is_its_interface() {
    let set = set(&format!(
        "public_key={}\nendpoint=[fe80::1%eth0]:1\n",
        key(1)
    ))
    .unwrap();
    assert_eq!(set.peers[0].endpoint, "[fe80::1%7]:1".parse().ok());
}

#[test]
fn a_prefix_moves_to_whoever_is_given_it_last() {
    let (a, b) = (key(1), key(2));
    let mut configuration = applied(&format!(
        "public_key={a}\nallowed_ip=10.0.0.1/32\nallowed_ip=10.0.0.9/24\n\
         public_key={b}\nallowed_ip=10.0.0.1/32\n"
    ));
    let prefixes = |configuration: &Configuration| -> Vec<Vec<String>> {
        let texts =
            |peer: &PeerConfiguration| peer.allowed_ips.iter().map(ToString::to_string).collect();
        configuration.peers().map(|(_, peer)| texts(peer)).collect()
    };
    assert_eq!(
        prefixes(&configuration),
        [vec!["10.0.0.0/24"], vec!["10.0.0.1/32"]]
    );
    // Whoever has lost it cannot take it away, and loses nothing more.
    let more = format!("public_key={a}\nallowed_ip=-10.0.0.1/32\nreplace_allowed_ips=true\n");
    let more = set(&format!("{more}public_key={b}\nallowed_ip=-10.0.0.1/32\n")).unwrap();
    assert!(
        more.peers[0].allowed_ips.is_empty(),
        "replaced by what follows"
    );
    configuration.apply(more);
    assert_eq!(prefixes(&configuration), [vec![""; 0], vec![]]);
    configuration.apply(set(&format!("public_key={a}\nallowed_ip=10.0.0.1/32\n")).unwrap());
    assert_eq!(prefixes(&configuration), [vec!["10.0.0.1/32"], vec![]]);
}

#[test]
fn a_peer_is_added_changed_and_removed() {
    let (a, b) = (key(1), key(2));
    let mut configuration = applied(&format!(
        "public_key={a}\nupdate_only=true\npublic_key={b}\nendpoint=1.2.3.4:5\n\
         persistent_keepalive_interval=25\npreshared_key={a}\n"
    ));
    assert_eq!(configuration.peers().count(), 1, "only an update");
    configuration.apply(set(&format!("public_key={b}\nupdate_only=true\n")).unwrap());
    let (_, peer) = configuration.peers().next().unwrap();
    assert_eq!(
        (peer.keepalive, peer.endpoint),
        (25, "1.2.3.4:5".parse().ok())
    );
    assert!(peer.preshared_key.is_some());
    let zeros = key(0);
    let off = format!("public_key={b}\npreshared_key={zeros}\npersistent_keepalive_interval=0\n");
    configuration.apply(set(&off).unwrap());
    let (_, peer) = configuration.peers().next().unwrap();
    assert_eq!((peer.keepalive, peer.preshared_key.clone()), (0, None));
    let again = format!("public_key={b}\nremove=true\npublic_key={b}\nallowed_ip=::/0\n");
    configuration.apply(set(&again).unwrap());
    let (_, peer) = configuration.peers().next().unwrap();
    assert_eq!((peer.endpoint, peer.allowed_ips.len()), (None, 1));
    configuration.apply(set("replace_peers=true\n").unwrap());
    assert_eq!(configuration.peers().count(), 0);
}

#[test]
fn the_device_is_no_peer_of_itself() {
    let private = key(0x48);
    let mut own = String::new();
    let public = PrivateKey::from_hex(private.as_bytes()).unwrap().unwrap();
    public.public().write_hex(&mut own);
    // First the peer, then the key; and the other way round.
    let mut configuration = applied(&format!("public_key={own}\nallowed_ip=10.0.0.1/32\n"));
    assert_eq!(configuration.peers().count(), 1);
    assert_eq!(configuration.specs(), [], "no key, no handshakes");
    configuration.apply(set(&format!("private_key={private}\n")).unwrap());
    assert_eq!(configuration.peers().count(), 0);
    let both = format!(
        "public_key={own}\npublic_key={}\nallowed_ip=10.0.0.1/32\n",
        key(3)
    );
    configuration.apply(set(&both).unwrap());
    assert_eq!(configuration.peers().count(), 1);
    assert_eq!(configuration.specs()[0].allowed_ips.len(), 1);
    configuration.apply(set(&format!("private_key={}\n", key(0))).unwrap());
    assert!(configuration.private_key().is_none() && configuration.public_key().is_none());
}

/// A `get` as the `set` that makes a device say it.
fn as_set(told: &str) -> String {
    let kept = told.lines().filter(|line| {
        let counted = ["last_", "tx_", "rx_", "errno="];
        !line.is_empty() && !counted.iter().any(|start| line.starts_with(start))
    });
    kept.map(|line| format!("{line}\n")).collect()
}

prop_compose! {
    fn peer()(
        number in 1_u8..9,
        secret in prop::option::of(1_u8..9),
        endpoint in prop::option::of(any::<SocketAddr>()),
        keepalive: u16,
        prefixes in prop::collection::vec((any::<std::net::IpAddr>(), 0_u8..=128), 0..5),
        flags in 0_u8..8,
    ) -> String {
        let mut text = format!("public_key={}\n", key(number));
        if flags == 1 {
            text += "remove=true\n";
        }
        if flags & 2 != 0 {
            text += "replace_allowed_ips=true\n";
        }
        if let Some(secret) = secret {
            text += &format!("preshared_key={}\n", key(secret));
        }
        if let Some(mut endpoint) = endpoint {
            // What it tells nobody writes: flow labels.
            if let SocketAddr::V6(v6) = &mut endpoint {
                v6.set_flowinfo(0);
            }
            text += &format!("endpoint={endpoint}\n");
        }
        text += &format!("persistent_keepalive_interval={keepalive}\n");
        for (address, length) in prefixes {
            let length = if address.is_ipv4() { length % 33 } else { length };
            text += &format!("allowed_ip={address}/{length}\n");
        }
        text
    }
}

proptest! {
    #[test]
    fn what_a_device_tells_makes_another_one_like_it(
        port: u16,
        mark: u32,
        private in 1_u8..9,
        peers in prop::collection::vec(peer(), 0..8),
    ) {
        let text = format!(
            "private_key={}\nlisten_port={port}\nfwmark={mark}\n{}",
            key(private),
            peers.concat()
        );
        let first = applied(&text);
        let second = applied(&as_set(&told(&first)));
        prop_assert_eq!(told(&second), told(&first));
        // Applied once more over itself, with and without replacing, nothing changes.
        for replace in ["", "replace_peers=true\n"] {
            let mut again = first.clone();
            let (device, peers) = as_set(&told(&first)).split_once("public_key=").map_or_else(
                || (as_set(&told(&first)), String::new()),
                |(device, peers)| (device.to_owned(), format!("public_key={peers}")),
            );
            again.apply(set(&format!("{device}{replace}{peers}")).unwrap());
            prop_assert_eq!(again.specs(), first.specs());
        }
        // Each prefix has one owner.
        let mut seen = std::collections::BTreeSet::new();
        for (_, peer) in first.peers() {
            prop_assert!(peer.allowed_ips.iter().all(|prefix| seen.insert(*prefix)));
        }
    }

    #[test]
    fn any_bytes_in_any_pieces_are_the_same_requests(bytes: Vec<u8>, size in 1_usize..40) {
        let outcomes = |size| -> Vec<Option<Errno>> {
            read(&bytes, size).into_iter().map(Result::err).collect()
        };
        prop_assert_eq!(outcomes(size).first().copied(), outcomes(usize::MAX).first().copied());
    }

    #[test]
    fn lines_of_the_protocol_in_any_order_never_panic(
        lines in prop::collection::vec(prop::sample::select(LINES), 0..40),
        size in 1_usize..40,
    ) {
        let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
        let mut configuration = Configuration::default();
        for outcome in read(text.as_bytes(), size) {
            if let Ok(Request::Set(set)) = outcome {
                configuration.apply(set);
            }
        }
        let _ = told(&configuration);
    }
}

const LINES: &[&str] = &[
    "",
    "get=1",
    "set=1",
    "private_key=0101010101010101010101010101010101010101010101010101010101010101",
    "listen_port=1",
    "fwmark=1",
    "replace_peers=true",
    "public_key=0202020202020202020202020202020202020202020202020202020202020202",
    "public_key=0303030303030303030303030303030303030303030303030303030303030303",
    "update_only=true",
    "remove=true",
    "replace_allowed_ips=true",
    "allowed_ip=10.0.0.0/8",
    "allowed_ip=-10.0.0.0/8",
    "endpoint=[::1]:1",
    "protocol_version=1",
];
