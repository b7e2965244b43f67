use std::time::Duration;

use netlink_packet_core::{Emitable as _, ParseableParametrized as _};
use netlink_packet_generic::{GenlHeader, GenlMessage};
use netlink_packet_wireguard::{
    WireguardAddressFamily, WireguardAllowedIp, WireguardAllowedIpAttr as Allowed,
    WireguardAttribute as Attribute, WireguardCmd, WireguardMessage, WireguardPeer,
    WireguardPeerAttribute as Peer, WireguardPeerFlags as Flags, WireguardTimeSpec,
};

use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn secret(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).unwrap()
}

/// What rust-netlink reads in a message.
fn read(message: &[u8]) -> Vec<Attribute> {
    let header = GenlHeader::parse(message).unwrap();
    let read = WireguardMessage::parse_with_param(&message[4..], header).unwrap();
    assert_eq!(read.cmd, WireguardCmd::SetDevice);
    read.attributes
}

fn allowed(text: &str) -> WireguardAllowedIp {
    let net = net(text);
    let family = match net {
        IpNet::V4(_) => WireguardAddressFamily::Ipv4,
        IpNet::V6(_) => WireguardAddressFamily::Ipv6,
    };
    WireguardAllowedIp(vec![
        Allowed::Family(family),
        Allowed::IpAddr(net.network()),
        Allowed::Cidr(net.prefix_len()),
    ])
}

/// What the kernel writes, by rust-netlink.
fn told(attributes: Vec<Attribute>) -> Vec<u8> {
    let message = GenlMessage::from_payload(WireguardMessage {
        cmd: WireguardCmd::GetDevice,
        attributes,
    });
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

#[test]
fn a_change_is_read_by_rust_netlink_as_it_was_meant() {
    let set = Set {
        private_key: Some(secret(1)),
        listen_port: Some(51_820),
        fwmark: Some(0x1234_5678),
        peers: vec![
            PeerSet {
                preshared_key: Some(Some(secret(3))),
                endpoint: Some("203.0.113.7:51820".parse().unwrap()),
                keepalive: Some(25),
                replace_allowed_ips: true,
                allowed_ips: vec![net("10.9.0.0/24"), net("fd00::1/128")],
                ..PeerSet::of([2; 32])
            },
            PeerSet {
                update_only: true,
                preshared_key: Some(None),
                endpoint: Some("[fd00::7]:443".parse().unwrap()),
                ..PeerSet::of([4; 32])
            },
            PeerSet {
                remove: true,
                ..PeerSet::of([5; 32])
            },
        ],
    };
    let messages = requests(7, &set, 8_192);
    assert_eq!(messages.len(), 1);
    let expected = vec![
        Attribute::IfIndex(7),
        Attribute::PrivateKey([1; 32]),
        Attribute::ListenPort(51_820),
        Attribute::Fwmark(0x1234_5678),
        Attribute::Peers(vec![
            WireguardPeer(vec![
                Peer::PublicKey([2; 32]),
                Peer::PresharedKey([3; 32]),
                Peer::Flags(Flags::ReplaceAllowedIps),
                Peer::Endpoint("203.0.113.7:51820".parse().unwrap()),
                Peer::PersistentKeepalive(25),
                Peer::AllowedIps(vec![allowed("10.9.0.0/24"), allowed("fd00::1/128")]),
            ]),
            WireguardPeer(vec![
                Peer::PublicKey([4; 32]),
                Peer::PresharedKey([0; 32]),
                Peer::Flags(Flags::UpdateOnly),
                Peer::Endpoint("[fd00::7]:443".parse().unwrap()),
            ]),
            WireguardPeer(vec![Peer::PublicKey([5; 32]), Peer::Flags(Flags::RemoveMe)]),
        ]),
    ];
    assert_eq!(read(&messages[0]), expected);
    let theirs = WireguardMessage {
        cmd: WireguardCmd::SetDevice,
        attributes: expected,
    };
    let mut bytes = vec![0; theirs.buffer_len()];
    theirs.emit(&mut bytes);
    assert_eq!(messages[0][4..], bytes, "to the byte");
}

#[test]
fn what_rust_netlink_writes_is_read_as_it_was_meant() {
    let time = WireguardTimeSpec {
        seconds: 1_700_000_000,
        nano_seconds: 5,
    };
    let first = told(vec![
        Attribute::ListenPort(51_820),
        Attribute::Fwmark(9),
        Attribute::IfIndex(7),
        Attribute::IfName("kedge0".to_owned()),
        Attribute::PrivateKey([1; 32]),
        Attribute::PublicKey([6; 32]),
        Attribute::Peers(vec![
            WireguardPeer(vec![
                Peer::PublicKey([2; 32]),
                Peer::PresharedKey([3; 32]),
                Peer::LastHandshake(time),
                Peer::PersistentKeepalive(25),
                Peer::TxBytes(11),
                Peer::RxBytes(12),
                Peer::ProtocolVersion(1),
                Peer::Endpoint("[fe80::7%3]:443".parse().unwrap()),
                Peer::AllowedIps(vec![allowed("10.9.0.0/24")]),
            ]),
            WireguardPeer(vec![
                Peer::PublicKey([4; 32]),
                Peer::PresharedKey([0; 32]),
                Peer::LastHandshake(WireguardTimeSpec::default()),
                Peer::AllowedIps(vec![allowed("0.0.0.0/0")]),
            ]),
        ]),
    ]);
    let second = told(vec![Attribute::Peers(vec![
        WireguardPeer(vec![
            Peer::PublicKey([4; 32]),
            Peer::AllowedIps(vec![allowed("::/0"), allowed("fd00::1/128")]),
        ]),
        WireguardPeer(vec![Peer::PublicKey([5; 32])]),
    ])]);
    let mut dump = Dump::default();
    dump.take(&first).unwrap();
    dump.take(&second).unwrap();
    let observed = dump.finish();
    let handshake = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 5);
    assert_eq!(
        observed,
        Observed {
            ifindex: 7,
            ifname: "kedge0".to_owned(),
            private_key: Some(secret(1)),
            public_key: Some([6; 32]),
            listen_port: 51_820,
            fwmark: 9,
            peers: vec![
                ObservedPeer {
                    public_key: [2; 32],
                    preshared_key: Some(secret(3)),
                    endpoint: Some("[fe80::7%3]:443".parse().unwrap()),
                    keepalive: 25,
                    last_handshake: Some(handshake),
                    rx_bytes: 12,
                    tx_bytes: 11,
                    allowed_ips: vec![net("10.9.0.0/24")],
                },
                ObservedPeer {
                    public_key: [4; 32],
                    allowed_ips: vec![net("0.0.0.0/0"), net("::/0"), net("fd00::1/128")],
                    ..ObservedPeer::default()
                },
                ObservedPeer {
                    public_key: [5; 32],
                    ..ObservedPeer::default()
                },
            ],
        }
    );
    for key in ["01, 01", "[1, 1", "03, 03", "[3, 3"] {
        assert!(!format!("{observed:?}").contains(key), "{observed:?}");
    }
}

#[test]
fn many_prefixes_go_over_several_messages_and_come_together_again() {
    let prefixes: Vec<IpNet> = (0_u32..3_000)
        .map(|n| match n % 3 {
            0 => IpNet::new((0x0a00_0000 + n).to_be_bytes().into(), 32).unwrap(),
            _ => IpNet::new(
                (0xfd00_u128 << 112 | u128::from(n)).to_be_bytes().into(),
                128,
            )
            .unwrap(),
        })
        .collect();
    let set = Set {
        private_key: Some(secret(1)),
        peers: (1..=9)
            .map(|n| PeerSet {
                preshared_key: Some(Some(secret(n))),
                endpoint: Some("[fd00::7]:443".parse().unwrap()),
                keepalive: Some(25),
                replace_allowed_ips: true,
                allowed_ips: if n % 3 == 0 {
                    prefixes.clone()
                } else {
                    prefixes[..5].to_vec()
                },
                ..PeerSet::of([n; 32])
            })
            .collect(),
        ..Set::default()
    };
    for limit in [0, 500, 8_192, 32_768] {
        let messages = requests(7, &set, limit);
        let longest = messages.iter().map(|message| message.len()).max().unwrap();
        assert!(longest <= limit.max(400), "{longest} of {limit}");
        let mut dump = Dump::default();
        for (at, message) in messages.iter().enumerate() {
            dump.take(message).unwrap();
            let attributes = read(message);
            assert_eq!(attributes[0], Attribute::IfIndex(7));
            let keys = attributes
                .iter()
                .filter(|it| matches!(it, Attribute::PrivateKey(_)));
            assert_eq!(
                keys.count(),
                usize::from(at == 0),
                "the device is changed once"
            );
        }
        let observed = dump.finish();
        assert_eq!(observed.peers.len(), 9);
        for (peer, set) in observed.peers.iter().zip(&set.peers) {
            assert_eq!(peer.allowed_ips, set.allowed_ips);
            assert_eq!(Some(&peer.preshared_key), set.preshared_key.as_ref());
        }
    }
    assert!(requests(7, &Set::default(), 8_192).is_empty());
}

#[test]
fn a_peer_that_goes_on_is_only_updated_there() {
    let set = Set {
        peers: vec![PeerSet {
            replace_allowed_ips: true,
            preshared_key: Some(None),
            keepalive: Some(1),
            allowed_ips: (0..30)
                .map(|n| IpNet::new([10, 0, 0, n].into(), 32).unwrap())
                .collect(),
            ..PeerSet::of([2; 32])
        }],
        ..Set::default()
    };
    let messages = requests(7, &set, 0);
    assert!(messages.len() > 1);
    for (at, message) in messages.iter().enumerate() {
        let attributes = read(message);
        let Some(Attribute::Peers(peers)) = attributes.last() else {
            panic!("{attributes:?}")
        };
        let flags = if at == 0 {
            Flags::ReplaceAllowedIps
        } else {
            Flags::UpdateOnly
        };
        assert!(peers[0].0.contains(&Peer::Flags(flags)), "{peers:?}");
        let keepalive = peers[0].0.contains(&Peer::PersistentKeepalive(1));
        assert_eq!(keepalive, at == 0);
    }
}

#[test]
fn truncated_and_flipped_answers_are_errors_or_others_and_never_a_panic() {
    let set = Set {
        private_key: Some(secret(1)),
        peers: vec![PeerSet {
            preshared_key: Some(Some(secret(3))),
            endpoint: Some("[fd00::7]:443".parse().unwrap()),
            allowed_ips: vec![net("10.9.0.0/24"), net("fd00::1/128")],
            ..PeerSet::of([2; 32])
        }],
        ..Set::default()
    };
    let whole = requests(7, &set, 8_192).remove(0);
    let mut plain = Dump::default();
    plain.take(&whole).unwrap();
    for length in 0..whole.len() {
        let mut dump = Dump::default();
        let outcome = dump.take(&whole[..length]);
        assert!(
            outcome.is_err() || dump.finish().peers.is_empty(),
            "{length}"
        );
        for bit in 0..8 {
            let mut flipped = whole.to_vec();
            flipped[length] ^= 1 << bit;
            let _ = Dump::default().take(&flipped);
        }
    }
    let mut long = Dump::default();
    let wrong = [0, 1, 0, 0, 40, 0, 3, 0, 1, 2, 3, 4];
    assert_eq!(long.take(&wrong), Err(ParseError::Truncated));
    assert_eq!(long.take(&wrong[..3]), Err(ParseError::Truncated));
    let short_key = [0, 1, 0, 0, 8, 0, 3, 0, 1, 2, 3, 4];
    assert_eq!(long.take(&short_key), Err(ParseError::Length));
}

#[test]
fn secrets_do_not_print() {
    let set = PeerSet {
        preshared_key: Some(Some(secret(77))),
        ..PeerSet::default()
    };
    assert!(format!("{set:?}").contains("Some(Some(***))"), "{set:?}");
    assert_eq!(SecretKey::from_bytes(&[0; 32]), None);
}
