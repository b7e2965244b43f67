//! A WireGuard device as a kernel tells it: nothing panics, and what can be read is read again from the
//! messages that would make such a device.

use kedge_net::wireguard::{Dump, Observed, ObservedPeer, PeerSet, Set, requests};

/// A byte that bounds messages, then messages, each after its length in two bytes.
pub fn wg_dump(bytes: &[u8]) {
    let Some((limit, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut dump = Dump::default();
    while let Some((length, more)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(more.len());
        let (message, more) = more.split_at(length);
        rest = more;
        if dump.take(message).is_err() {
            return;
        }
    }
    let told = dump.finish();
    let set = Set {
        private_key: told.private_key.clone(),
        listen_port: Some(told.listen_port),
        fwmark: Some(told.fwmark),
        peers: told.peers.iter().map(change).collect(),
    };
    let limit = usize::from(*limit) * 64;
    let mut again = Dump::default();
    for message in requests(7, &set, limit) {
        assert!(message.len() <= limit.max(512), "{}", message.len());
        again.take(&message).unwrap();
    }
    let again = again.finish();
    assert_eq!(kept(&again), kept(&told));
}

fn change(peer: &ObservedPeer) -> PeerSet {
    PeerSet {
        preshared_key: Some(peer.preshared_key.clone()),
        endpoint: peer.endpoint,
        keepalive: Some(peer.keepalive),
        allowed_ips: peer.allowed_ips.clone(),
        ..PeerSet::of(peer.public_key)
    }
}

/// What a change can say.
fn kept(observed: &Observed) -> Observed {
    let peers = observed.peers.iter().map(|peer| ObservedPeer {
        last_handshake: None,
        rx_bytes: 0,
        tx_bytes: 0,
        ..peer.clone()
    });
    Observed {
        ifindex: 0,
        ifname: String::new(),
        public_key: None,
        peers: peers.collect(),
        ..observed.clone()
    }
}
