//! What routers of a link say, and when: nothing panics, what can be read is written as it was read, the laws
//! of machines hold, this host says nothing too often, and nobody from behind a router is found.

use std::{net::Ipv6Addr, time::Duration};

use kedge_core::{Instant, Machine};
use kedge_vip_proto::{
    routers::{Input, Link, Output},
    wire::nd::router::{LEN, Message},
};

/// For each thing that happens a byte of what, one of how long after the last in tenths of a second, one of
/// whom it is from, one of a hop limit, and for what was heard one of a length and the bytes.
pub fn routers(bytes: &[u8]) {
    let mut link = Link::new(7);
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut opened_at = None;
    let mut said_at: Option<Instant> = None;
    let mut rest = bytes;
    while let &[what, wait, who, hops, length, ref after @ ..] = rest {
        rest = after;
        let until = now + Duration::from_millis(u64::from(wait) * 100);
        while let Some(due) = link.poll_timeout().filter(|due| *due <= until) {
            now = now.max(due);
            link.handle_timeout(now);
            assert!(
                link.poll_timeout().is_none_or(|next| next > now),
                "it stays due"
            );
            drain(&mut link, now, opened_at, &mut said_at);
        }
        now = until;
        let before = link.clone();
        link.handle_timeout(now);
        assert_eq!(link, before, "an early timeout did something");
        let input = match what & 0x07 {
            0 => {
                opened_at = Some(now);
                Input::Open(true)
            }
            1 => Input::Open(false),
            _ => {
                let (heard, after) = rest.split_at(usize::from(length).min(rest.len()));
                rest = after;
                let from = Ipv6Addr::new(
                    if what & 8 == 0 { 0xfe80 } else { 0x2001 },
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    who.into(),
                );
                let Ok(message) = Message::parse(from, hops, heard) else {
                    continue;
                };
                assert!(hops == 255 && from.is_unicast_link_local());
                let mut written = [0; LEN];
                let length = message.emit(None, &mut written);
                assert_eq!(Message::parse(from, 255, &written[..length]), Ok(message));
                Input::Heard {
                    from,
                    message,
                    in_use: what & 0x10 != 0,
                }
            }
        };
        let (before, known) = (link.clone(), link.found());
        if link.handle_input(now, input).is_err() {
            assert_eq!(link, before, "a refusal changed the state");
        }
        if let Input::Heard { in_use: true, .. } = input {
            assert!(
                known.is_none() || link.found() == known,
                "a session lost its neighbour"
            );
        }
        drain(&mut link, now, opened_at, &mut said_at);
    }
}

fn drain(link: &mut Link, now: Instant, opened_at: Option<Instant>, said_at: &mut Option<Instant>) {
    while let Some(output) = link.poll_output() {
        match output {
            Output::Found(address) => assert!(address.is_unicast_link_local()),
            Output::Send(Message::Solicitation) => assert_eq!(opened_at, Some(now)),
            Output::Send(Message::Advertisement { lifetime }) => {
                assert_eq!(lifetime, 0, "this host is a default router");
                let quick = said_at.is_some_and(|at| now.since(at) < Duration::from_secs(3));
                // A link that opens anew is told at once.
                assert!(!quick || opened_at == Some(now), "said too often");
                *said_at = Some(now);
            }
        }
    }
}
