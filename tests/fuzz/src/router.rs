//! A life of a virtual router: any inputs at any times.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use kedge_core::{
    Instant, Machine,
    vip::{AdvertInterval, Priority, RouterState, Vrid},
};
use kedge_vip_proto::{
    vrrp::{
        AddressRefused, Command, Config, Evidence, Input, Link, LinkLoss, Output, Router, Ticket,
        Tracked, Verdict,
    },
    wire::{
        Addresses, Mac, Neighbor,
        arp::{Operation, Packet},
        checksum::Forms,
        ip,
        vrrp::{Advert, Received, Version},
    },
};

/// Reads a configuration and then three bytes for each thing that happens: what, to or by whom, and
/// how long after the last.
pub fn router(bytes: &[u8]) {
    let Some((setting, rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let mut life = Life::new(*setting);
    for word in rest.chunks_exact(3).take(400) {
        life.happens([word[0], word[1], word[2]]);
    }
}

struct Life {
    router: Router,
    now: Instant,
    ticket: Ticket,
    held: bool,
}

impl Life {
    fn new([flags, priority]: [u8; 2]) -> Self {
        let flag = |bit: u8| flags & 1 << bit != 0;
        let addresses = Addresses::new(&[VIP]).unwrap();
        let base = Priority::new(192 + priority % 63).unwrap();
        let mut config = Config::new(Vrid::new(51).unwrap(), addresses, base);
        config.preempt = flag(0);
        config.gated = flag(1);
        config.first_claim = flag(2);
        config.preempt_delay = Duration::from_millis(if flag(3) { 500 } else { 0 });
        config.proves = flag(5);
        config.link_up_wait = Duration::from_millis(if flag(4) { 1_000 } else { 0 });
        Self {
            router: Router::new(config).unwrap(),
            now: Instant::from_nanos(1_000_000_000),
            ticket: Ticket::default(),
            held: false,
        }
    }

    fn happens(&mut self, [what, who, wait]: [u8; 3]) {
        // Up to half a second, in steps that meet deadlines.
        let until = self.now + Duration::from_millis(u64::from(wait) * 2);
        while let Some(due) = self.router.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.router.handle_timeout(self.now);
            self.drain();
            let next = self.router.poll_timeout();
            assert!(next.is_none_or(|next| next > due), "a deadline stays due");
        }
        self.now = until;
        let input = self.input(what, who);
        let before = self.router.view();
        match self.router.handle_input(self.now, input) {
            Ok(()) => self.drain(),
            Err(_) => assert_eq!(self.router.view(), before, "a refused input changed it"),
        }
    }

    fn input(&self, what: u8, who: u8) -> Input {
        let mac = Mac([2, 0, 0, 0, 0, who % 4]);
        let source = IpAddr::V4(Ipv4Addr::new(10, 20, 14, who % 4));
        match what % 16 {
            0 => Input::Link(Link::Up {
                source: OWN,
                mac: OWN_MAC,
            }),
            1 => Input::Link(Link::Down(LinkLoss::Carrier)),
            2 => Input::Command(Command::Start),
            3 => Input::Command(Command::Stop),
            4 => Input::Command(Command::HandOver),
            5 => Input::Heard,
            6 => Input::Health(match who % 3 {
                0 => Verdict::Unproven,
                1 => Verdict::Healthy,
                _ => Verdict::Failing,
            }),
            7 => Input::Probed {
                healthy: who.is_multiple_of(2),
            },
            8 => Input::Owned {
                ticket: self.ticket,
                result: Ok(()),
            },
            9 => {
                let refused = AddressRefused {
                    address: VIP,
                    errno: 99,
                };
                Input::Owned {
                    ticket: self.ticket,
                    result: Err(refused),
                }
            }
            10 => {
                let operation = if who % 8 < 4 {
                    Operation::Request
                } else {
                    Operation::Reply
                };
                let Some(vip) = ipv4(VIP) else {
                    return Input::Heard;
                };
                Input::Neighbor(Neighbor::Arp(Packet::announcement(operation, vip, mac)))
            }
            11 => Input::Tracked(Tracked {
                cost: u16::from(who % 128),
                critical: who >= 128,
            }),
            12 => Input::Command(Command::Take),
            13 => Input::Evidence(if who.is_multiple_of(2) {
                Evidence::Arrived
            } else {
                Evidence::NobodyToAsk
            }),
            _ => Input::Advert(Received {
                src: source,
                dst: ip::group(false),
                ttl: 255,
                mac,
                forms: if who & 64 == 0 {
                    Forms::PseudoHeader
                } else {
                    Forms::Message
                },
                advert: Advert {
                    version: Version::Three,
                    vrid: Vrid::new(51).unwrap(),
                    priority: Priority::new(who).ok(),
                    interval: AdvertInterval::from_centis(1 + u16::from(who) * 4).unwrap(),
                    addresses: Addresses::new(&[VIP]).unwrap(),
                },
            }),
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.router.poll_output() {
            match output {
                Output::Own { hold, ticket } => {
                    if hold {
                        self.ticket = ticket;
                    } else {
                        self.held = false;
                    }
                }
                Output::Announce(_) => {
                    let view = self.router.view();
                    assert!(view.held, "announced before the kernel held it");
                    assert_eq!(view.state, RouterState::Active);
                }
                Output::Send(transmit) => {
                    assert_eq!(transmit.src, OWN, "sent without a link");
                }
                _ => {}
            }
        }
        let view = self.router.view();
        let holder = matches!(view.state, RouterState::Active | RouterState::Releasing);
        assert!(holder || !view.held, "held in {:?}", view.state);
    }
}

fn ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    }
}

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 20, 14, 10));
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 20, 14, 12));
const OWN_MAC: Mac = Mac([2, 0, 0, 0, 0, 12]);
