use std::{collections::BTreeMap, sync::LazyLock};

use kedge_tunnel_proto::{
    directory::{Directory, PeerSpec},
    keys::PrivateKey,
};

use super::*;

/// Ids of fifty peers, as a directory gives them out.
static IDS: LazyLock<Vec<PeerId>> = LazyLock::new(|| {
    let key = |number| PrivateKey::from_random([number; 32]).public();
    let spec = |number| PeerSpec {
        name: format!("peer-{number}"),
        public_key: key(number),
        endpoint: None,
        preshared_key: None,
        allowed_ips: Vec::new(),
        keepalive: None,
        always_up: false,
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    };
    let change = Directory::new(key(99)).plan((0..50).map(spec).collect());
    change.unwrap().add.iter().map(|entry| entry.id).collect()
});

fn endpoint(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 51_820))
}

/// Puts a datagram in that is told apart by its first bytes.
fn put(outbox: &mut Outbox, peer: u8, length: usize, mark: u32) {
    let slot = outbox.slot();
    slot[..length].fill(peer);
    slot[..4].copy_from_slice(&mark.to_be_bytes());
    outbox.push(Transmit {
        to: endpoint(peer),
        from: None,
        length,
        peer: IDS[usize::from(peer)],
        ecn: Ecn::NOT_ECT,
    });
}

/// Counts and sizes of the runs, after every law was checked.
fn checked(outbox: &Outbox) -> Vec<(u8, u16, usize)> {
    let mut last_mark = BTreeMap::new();
    let mut count = 0;
    let mut told = Vec::new();
    for run in outbox.runs() {
        let datagrams: Vec<&[u8]> = outbox.datagrams(&run).collect();
        assert_eq!(datagrams.len(), usize::from(run.count));
        assert!(run.count as usize <= LONGEST_RUN);
        let (last, others) = datagrams.split_last().unwrap();
        assert!(others.iter().all(|datagram| datagram.len() == run.size));
        assert!(last.len() <= run.size);
        let joined = datagrams.concat();
        assert!(joined.len() <= LARGEST_RUN);
        assert_eq!(outbox.pieces(&run).collect::<Vec<_>>().concat(), joined);
        for datagram in datagrams {
            let mark = u32::from_be_bytes(datagram[..4].try_into().unwrap());
            let before = last_mark.insert(run.to, mark);
            assert!(before.is_none_or(|before| before < mark), "out of order");
            count += 1;
        }
        let SocketAddr::V4(to) = run.to else { panic!() };
        told.push((to.ip().octets()[3], run.count, run.size));
    }
    assert_eq!(count, outbox.len());
    told
}

#[test]
fn equal_sizes_go_together_and_a_shorter_one_ends_the_run() {
    let mut outbox = Outbox::new();
    for (mark, length) in (0..).zip([1_000, 1_000, 1_000, 500, 1_000, 200, 300]) {
        put(&mut outbox, 1, length, mark);
    }
    assert_eq!(
        checked(&outbox),
        [(1, 4, 1_000), (1, 2, 1_000), (1, 1, 300)]
    );
    let run = outbox.runs().next().unwrap();
    assert_eq!(outbox.pieces(&run).count(), 1, "made one behind the other");
    outbox.clear();
    assert_eq!((outbox.len(), outbox.runs().count()), (0, 0));
    put(&mut outbox, 1, 500, 1);
    assert_eq!(
        checked(&outbox),
        [(1, 1, 500)],
        "what is gone is not gone on with"
    );
}

#[test]
fn peers_that_take_turns_have_a_run_each() {
    let mut outbox = Outbox::new();
    for mark in 0..60 {
        put(&mut outbox, u8::try_from(mark % 3).unwrap(), 100, mark);
    }
    assert_eq!(checked(&outbox), [(0, 20, 100), (1, 20, 100), (2, 20, 100)]);
}

#[test]
fn a_run_has_as_many_datagrams_and_bytes_as_the_kernel_takes() {
    let mut outbox = Outbox::new();
    for mark in 0..100 {
        put(&mut outbox, 1, 100, mark);
    }
    assert_eq!(checked(&outbox), [(1, 64, 100), (1, 36, 100)]);
    outbox.clear();
    for mark in 0..50 {
        put(&mut outbox, 1, 1_452, mark);
    }
    assert_eq!(checked(&outbox), [(1, 45, 1_452), (1, 5, 1_452)]);
}

#[test]
fn what_packets_say_of_congestion_parts_their_runs() {
    let mut outbox = Outbox::new();
    for ecn in [Ecn::ECT_0, Ecn::ECT_0, Ecn::NOT_ECT] {
        outbox.push(Transmit {
            to: endpoint(1),
            from: None,
            length: 100,
            peer: IDS[1],
            ecn,
        });
    }
    let runs: Vec<_> = outbox.runs().map(|run| (run.ecn, run.count)).collect();
    assert_eq!(runs, [(Ecn::ECT_0, 2), (Ecn::NOT_ECT, 1)]);
}

#[test]
fn two_peers_at_one_place_are_counted_apart() {
    let mut outbox = Outbox::new();
    for peer in [1, 2, 1] {
        outbox.push(Transmit {
            to: endpoint(9),
            from: None,
            length: 100,
            peer: IDS[peer],
            ecn: Ecn::NOT_ECT,
        });
    }
    let peers: Vec<_> = outbox.runs().map(|run| run.peer.unwrap()).collect();
    assert_eq!(peers, [1, 2, 1].map(|peer| IDS[peer]));
}

#[test]
fn a_full_box_takes_no_more_until_it_is_emptied() {
    let mut outbox = Outbox::new();
    while !outbox.is_full() {
        assert!(outbox.slot().len() >= SLACK);
        let mark = u32::try_from(outbox.len()).unwrap();
        put(&mut outbox, 1, 9_000, mark);
    }
    checked(&outbox);
    assert!(!outbox.copy(endpoint(1), None, &[0; 64]));
    outbox.clear();
    for _ in 0..CAPACITY {
        assert!(outbox.copy(endpoint(1), None, &[0; 64]));
    }
    assert!(!outbox.copy(endpoint(1), None, &[0; 64]));
}

#[test]
fn whatever_comes_in_whatever_order_every_law_holds() {
    let mut state = 7_u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut outbox = Outbox::new();
    for _ in 0..200 {
        let sizes = [32, 96, 1_452, 1_452, 9_000];
        for mark in 0..random(400) {
            if outbox.is_full() {
                break;
            }
            let length = sizes[usize::try_from(random(5)).unwrap()];
            put(&mut outbox, u8::try_from(random(40)).unwrap(), length, mark);
        }
        checked(&outbox);
        outbox.clear();
    }
}
