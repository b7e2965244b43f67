//! BFD sessions as an agent sends them.

use kedge_control::local::{BfdRemote, BfdSession, BfdSessionList};
use kedge_core::{
    Code, Problem,
    bfd::{Liveness, SessionState},
};

pub(crate) fn sessions() -> BfdSessionList {
    let up = BfdSession {
        name: "core".into(),
        peer: "fe80::1".parse().unwrap(),
        interface: Some("eth0".into()),
        source: None,
        multihop: false,
        state: SessionState::Up,
        liveness: Liveness::Alive,
        because: "the peer and this host hear each other".into(),
        since: "2026-11-21T09:00:00Z".into(),
        state_seconds: 3_600.0,
        transmit_interval_seconds: 0.3,
        detection_seconds: Some(0.9),
        detect_multiplier: 3,
        local_discriminator: 0x1122_3344,
        diagnostic: "no diagnostic".into(),
        remote: Some(BfdRemote {
            discriminator: 0x22,
            state: SessionState::Up,
            diagnostic: "no diagnostic".into(),
            desired_min_tx_seconds: 0.3,
            required_min_rx_seconds: 0.3,
            detect_multiplier: 3,
            last_heard_seconds: 0.1,
        }),
        ups: 1,
        losses: 0,
        packets_sent: 14_000,
        packets_received: 14_001,
        packets_refused: [("ttl".into(), 2)].into(),
        problems: Vec::new(),
    };
    let lost = BfdSession {
        name: "tor".into(),
        peer: "10.20.14.1".parse().unwrap(),
        interface: None,
        state: SessionState::Down,
        liveness: Liveness::Lost,
        because: "the peer was not heard for 901.0 ms, its detection time is 900.0 ms".into(),
        state_seconds: 12.0,
        transmit_interval_seconds: 1.0,
        detection_seconds: None,
        remote: None,
        losses: 1,
        problems: vec![
            Problem::new(Code::BfdLost, "the BFD session tor has lost its peer").object("bfd/tor"),
        ],
        ..up.clone()
    };
    BfdSessionList {
        items: vec![up, lost],
    }
}
