//! What a BGP neighbour says, and when: nothing panics, the laws of machines hold, and it is told
//! only what is offered and may be told.

use std::{sync::Arc, time::Duration};

use kedge_core::{
    Instant, Machine,
    bfd::Liveness,
    bgp::{Asn, RouterId},
};
use kedge_vip_proto::{
    bgp::{
        Command, Config, DialError, Farewell, Input, Offer, Offers, Output, Place, Session, Side,
    },
    wire::bgp::{Context, Frame, Message, Prefix},
};

/// A byte of configuration, then for each thing that happens a byte of what, one of how long after
/// the last in tenths of a second, and for what was heard two of a length and the bytes.
pub fn neighbour(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else {
        return;
    };
    let mut now = Instant::from_nanos(1_000_000_000);
    let offered: Vec<Prefix> = ["192.0.2.1", "192.0.2.2", "2001:db8::1"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    let offers = |count: u8| -> Arc<Offers> {
        let some = offered.iter().take(usize::from(count % 4));
        Arc::new(some.map(|prefix| (*prefix, Offer::default())).collect())
    };
    let mut session = Session::new(now, config(*first), offers(3), 7);
    drain(&mut session, &offered);
    while let &[what, wait, ref after @ ..] = rest {
        rest = after;
        now += Duration::from_millis(u64::from(wait) * 100);
        let due = session.poll_timeout().is_some_and(|due| due <= now);
        let before = session.clone();
        session.handle_timeout(now);
        if due {
            assert!(
                session.poll_timeout().is_none_or(|next| next > now),
                "a deadline stays due"
            );
        } else {
            assert_eq!(session, before, "an early timeout did something");
        }
        drain(&mut session, &offered);
        let side = if what & 0x10 == 0 {
            Side::Ours
        } else {
            Side::Theirs
        };
        let input = match what & 0x0f {
            0 => Input::Connected(place()),
            1 => Input::DialFailed(DialError::Refused),
            2 => Input::Accepted(place()),
            3 => Input::Closed(side),
            4 => Input::Written(side, what & 0x20 == 0),
            5 => Input::Offers(offers(what >> 5)),
            6 => Input::Config(Box::new(config(what >> 4))),
            7 => Input::Command(Command::Reset),
            8 => match what >> 5 {
                1 => Input::Found,
                2 => Input::Bfd(Liveness::Lost),
                3 => Input::Bfd(Liveness::Alive),
                4 => Input::Bfd(Liveness::Unknown),
                _ => Input::Command(Command::Leave(Farewell::Deconfigured)),
            },
            _ => {
                let &[high, low, ref after @ ..] = rest else {
                    return;
                };
                let length = usize::from(u16::from_be_bytes([high, low])).min(after.len());
                let (stream, after) = after.split_at(length);
                rest = after;
                hear(&mut session, now, side, stream, &offered);
                continue;
            }
        };
        give(&mut session, now, input, &offered);
    }
}

/// Hands over what a stream holds, as a shell does.
fn hear(session: &mut Session, now: Instant, side: Side, mut stream: &[u8], offered: &[Prefix]) {
    loop {
        let heard = match Frame::split(stream) {
            Ok(None) => return,
            Ok(Some((frame, rest))) => {
                stream = rest;
                session.read(side, &frame)
            }
            Err(refusal) => {
                stream = &[];
                Err(refusal)
            }
        };
        give(session, now, Input::Heard(side, heard), offered);
    }
}

fn give(session: &mut Session, now: Instant, input: Input, offered: &[Prefix]) {
    let before = session.clone();
    if session.handle_input(now, input).is_err() {
        assert_eq!(*session, before, "a refusal changed the state");
    }
    drain(session, offered);
}

fn drain(session: &mut Session, offered: &[Prefix]) {
    let is_internal = session.config().is_internal();
    while let Some(output) = session.poll_output() {
        let Output::Send(_, bytes) = output else {
            continue;
        };
        let mut stream = bytes.as_slice();
        while let Some((frame, rest)) = Frame::split(stream).unwrap() {
            stream = rest;
            let read = [true, false].map(|four_octet| {
                let context = Context {
                    internal: is_internal,
                    four_octet,
                    extended_next_hop: true,
                };
                Message::parse(&frame, &context).unwrap()
            });
            for message in read {
                if let Message::Update(update) = message {
                    let mut said = update.announced.iter().map(|route| route.prefix);
                    assert!(
                        said.all(|prefix| offered.contains(&prefix)),
                        "nobody offers that"
                    );
                }
            }
        }
        assert!(stream.is_empty(), "half a message");
    }
    let _ = session.view();
}

fn config(byte: u8) -> Config {
    let asn = |number| Asn::new(number).unwrap();
    let peer = if byte & 1 == 0 {
        asn(65_014)
    } else {
        asn(65_001)
    };
    Config {
        passive: byte & 2 != 0,
        max_prefixes: (byte & 4 != 0).then_some(2),
        graceful: Duration::from_secs(u64::from(byte >> 3 & 1)),
        strict_bfd: byte & 16 != 0,
        ..Config::new(asn(65_001), peer, RouterId::new(5).unwrap())
    }
}

fn place() -> Place {
    Place {
        v4: Some("10.0.0.5".parse().unwrap()),
        v6: Some("2001:db8::5".parse().unwrap()),
        link_local: None,
    }
}
