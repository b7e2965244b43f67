//! One router on a bench: inputs in, what happened as short words out.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use kedge_core::{
    Instant, Machine,
    vip::{AdvertInterval, Priority, RouterState, Vrid},
};

use crate::{
    auth,
    vrrp::{
        AddressRefused, Command, Config, Event, Input, Lead, Link, LinkLoss, Orphan, Output,
        Reject, Router, Ticket, Tracked, Verdict,
    },
    wire::{
        Addresses, Mac, Neighbor,
        checksum::{Form, Forms},
        ip,
        vrrp::{Advert, Received, Version},
    },
};

pub(super) const VIP: IpAddr = IpAddr::V4(VIP_V4);
pub(super) const VIP_V4: Ipv4Addr = Ipv4Addr::new(10, 20, 14, 10);
pub(super) const OWN: IpAddr = address(12);
pub(super) const OWN_MAC: Mac = mac(12);
/// A source address below ours.
pub(super) const LOW: IpAddr = address(11);
/// A source address above ours.
pub(super) const HIGH: IpAddr = address(13);
/// A host that speaks no VRRP.
pub(super) const STRANGER: Mac = mac(99);
/// Our priority while healthy.
pub(super) const PRIORITY: u8 = 220;

/// The host `last` of our LAN.
pub(super) const fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 20, 14, last))
}

/// The link-local address of the same host.
pub(super) fn address_v6(last: u8) -> IpAddr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last.into()).into()
}

/// The number of a host of our LAN.
fn host(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    }
}

pub(super) const fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

pub(super) fn priority(value: u8) -> Priority {
    Priority::new(value).unwrap()
}

/// Far from the clock's zero, so that nothing rests on it.
const EPOCH: Instant = Instant::from_nanos(3_600_000_000_000);

/// A configuration without any wait: the plain protocol.
pub(super) fn plain() -> Config {
    let addresses = Addresses::new(&[VIP]).unwrap();
    let vrid = Vrid::new(51).unwrap();
    Config {
        startup_wait: Duration::ZERO,
        link_up_wait: Duration::ZERO,
        ..Config::new(vrid, addresses, priority(PRIORITY))
    }
}

pub(super) fn link_up() -> Input {
    Input::Link(Link::Up {
        source: OWN,
        mac: OWN_MAC,
    })
}

pub(super) fn link_down() -> Input {
    Input::Link(Link::Down(LinkLoss::Carrier))
}

/// An advert of `src`, with 0 for a goodbye, every 100 ms for our address.
pub(super) fn advert(src: IpAddr, value: u8) -> Received {
    Received {
        src,
        dst: ip::group(src.is_ipv6()),
        ttl: ip::TTL,
        mac: mac(host(src)),
        forms: Forms::PseudoHeader,
        advert: Advert {
            version: Version::Three,
            vrid: Vrid::new(51).unwrap(),
            priority: Priority::new(value).ok(),
            interval: AdvertInterval::DEFAULT,
            addresses: Addresses::new(&[VIP]).unwrap(),
        },
    }
}

/// A gratuitous ARP of `mac` for our address.
pub(super) fn claim(mac: Mac) -> Input {
    announced(VIP, mac)
}

/// The last packet of an announcement.
pub(super) fn announced(address: IpAddr, mac: Mac) -> Input {
    Input::Neighbor(Neighbor::announcements(address, mac).last().unwrap())
}

pub(super) fn refused() -> AddressRefused {
    AddressRefused {
        address: VIP,
        errno: 99,
    }
}

pub(super) fn assert_words(found: &[String], expected: &[&str]) {
    assert_eq!(found, expected);
}

#[derive(Clone)]
pub(super) struct Bench {
    pub(super) router: Router,
    pub(super) now: Instant,
    base: Instant,
    ticket: Ticket,
}

impl Bench {
    /// A router whose link is up and that was started at 0 ms.
    pub(super) fn started(config: Config) -> Self {
        let source = if config.addresses.is_ipv6() {
            address_v6(12)
        } else {
            OWN
        };
        let mut bench = Self::new(config);
        let mac = OWN_MAC;
        bench.input(0, Input::Link(Link::Up { source, mac }));
        bench.input(0, Input::Heard);
        bench.input(0, Input::Command(Command::Start));
        bench
    }

    pub(super) fn new(config: Config) -> Self {
        let router = Router::new(config).unwrap();
        Self {
            router,
            now: EPOCH,
            base: EPOCH,
            ticket: Ticket::default(),
        }
    }

    /// A Backup that follows `LOW` with `value` since 0 ms.
    pub(super) fn following(config: Config, value: u8) -> Self {
        let mut bench = Self::started(config);
        bench.advert(0, LOW, value);
        bench
    }

    /// An Active whose addresses the kernel holds; it took over just before 0 ms.
    pub(super) fn active(config: Config) -> Self {
        let mut bench = Self::started(config);
        let due = bench.router.poll_timeout().unwrap();
        bench.timeout_at(due);
        bench.owned();
        bench.begin();
        bench
    }

    /// An Active whose process ends at 1 000 ms, `silent` ms after its last advert, and what is known
    /// of it then.
    pub(super) fn ended(silent: u64) -> (Self, Instant, Orphan) {
        let mut bench = Self::active(plain());
        bench.run(1_000);
        let now = bench.now;
        let orphan = Orphan {
            source: OWN,
            mac: OWN_MAC,
            sent_at: now - Duration::from_millis(silent),
            both_checksums: false,
        };
        (bench, now, orphan)
    }

    /// Makes this instant 0 ms.
    pub(super) fn begin(&mut self) {
        self.base = self.now;
    }

    /// The instant `millis` after 0 ms of this bench.
    pub(super) fn at(&self, millis: u64) -> Instant {
        self.base + Duration::from_millis(millis)
    }

    pub(super) fn input(&mut self, millis: u64, input: Input) -> Vec<String> {
        self.try_input(millis, input).unwrap()
    }

    pub(super) fn try_input(&mut self, millis: u64, input: Input) -> Result<Vec<String>, Reject> {
        self.now = self.at(millis);
        self.router.handle_input(self.now, input)?;
        Ok(self.drain())
    }

    pub(super) fn input_at_micros(&mut self, micros: u64, input: Input) -> Vec<String> {
        self.now = self.base + Duration::from_micros(micros);
        self.router.handle_input(self.now, input).unwrap();
        self.drain()
    }

    pub(super) fn advert(&mut self, millis: u64, src: IpAddr, value: u8) -> Vec<String> {
        self.input(millis, Input::Advert(advert(src, value)))
    }

    /// An advert of `src` that proves nothing.
    pub(super) fn unverified(&mut self, millis: u64, src: IpAddr) -> Vec<String> {
        let (mac, why) = (mac(host(src)), auth::Reject::Missing);
        self.input(millis, Input::Unverified { src, mac, why })
    }

    pub(super) fn command(&mut self, millis: u64, command: Command) -> Vec<String> {
        self.input(millis, Input::Command(command))
    }

    pub(super) fn health(&mut self, millis: u64, verdict: Verdict) -> Vec<String> {
        self.input(millis, Input::Health(verdict))
    }

    /// What is tracked costs `cost`; `critical` says whether it bars the VIP from here.
    pub(super) fn tracked(&mut self, millis: u64, cost: u16, critical: bool) -> Vec<String> {
        self.input(millis, Input::Tracked(Tracked { cost, critical }))
    }

    /// The leader of its group is in `state` with `value`.
    pub(super) fn lead(&mut self, millis: u64, state: RouterState, value: u8) -> Vec<String> {
        let priority = priority(value);
        self.input(millis, Input::Lead(Lead { state, priority }))
    }

    /// The kernel holds the addresses that were last asked for.
    pub(super) fn owned(&mut self) -> Vec<String> {
        let input = Input::Owned {
            ticket: self.ticket,
            result: Ok(()),
        };
        self.router.handle_input(self.now, input).unwrap();
        self.drain()
    }

    /// The kernel refused them.
    pub(super) fn refuse(&mut self, millis: u64) -> Vec<String> {
        self.input(
            millis,
            Input::Owned {
                ticket: self.ticket,
                result: Err(refused()),
            },
        )
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(super) fn timeout(&mut self, millis: u64) -> Vec<String> {
        self.timeout_at(self.at(millis))
    }

    pub(super) fn timeout_at(&mut self, now: Instant) -> Vec<String> {
        self.now = now;
        self.router.handle_timeout(now);
        self.drain()
    }

    /// Acts on every deadline up to and including `millis`, answering the kernel's part.
    pub(super) fn run(&mut self, millis: u64) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(due) = self
            .router
            .poll_timeout()
            .filter(|due| *due <= self.at(millis))
        {
            let done = self.timeout_at(due.max(self.now));
            let next = self.router.poll_timeout();
            assert!(
                next.is_none_or(|next| next > self.now),
                "a deadline that was met stays: {next:?} at {:?}",
                self.now
            );
            let own = done.iter().any(|word| word == "own");
            all.extend(done);
            if own {
                all.extend(self.owned());
            }
        }
        self.now = self.at(millis);
        all
    }

    pub(super) fn state(&self) -> RouterState {
        self.router.state()
    }

    /// The next deadline in milliseconds, to the microsecond.
    pub(super) fn deadline(&self) -> Option<f64> {
        let due = self.router.poll_timeout()?;
        let micros = u32::try_from(due.since(self.base).as_micros()).unwrap();
        Some(f64::from(micros) / 1_000.0)
    }

    pub(super) fn drain(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(output) = self.router.poll_output() {
            if let Output::Own { hold: true, ticket } = output {
                self.ticket = ticket;
            }
            words.push(word(&output));
        }
        words
    }
}

/// An output in a few words.
fn word(output: &Output) -> String {
    match output {
        Output::Send(transmit) => {
            let value = transmit.advert.priority.map_or(0, Priority::get);
            let form = if transmit.form == Form::Message {
                " by message sum"
            } else {
                ""
            };
            let to = match transmit.dst {
                group if group.is_multicast() => String::new(),
                peer => format!(" to {peer}"),
            };
            format!("send {value}{form}{to}")
        }
        Output::Own { hold: true, .. } => "own".to_owned(),
        Output::Own { hold: false, .. } => "disown".to_owned(),
        Output::Announce(Neighbor::Arp(packet)) => {
            format!("announce {} {:?}", packet.sender, packet.operation)
        }
        Output::Announce(Neighbor::Nd(packet)) => format!("announce {}", packet.target),
        Output::ProbeAddress(Neighbor::Arp(packet)) => format!("ask for {}", packet.target),
        Output::ProbeAddress(Neighbor::Nd(packet)) => format!("ask for {}", packet.target),
        Output::ProbeHealth => "probe health".to_owned(),
        Output::Prove { look: true } => "look".to_owned(),
        Output::Prove { look: false } => "look away".to_owned(),
        Output::Event(Event::State { from, to, because }) => format!("{from} -> {to}: {because}"),
        Output::Event(Event::Priority { from, to, because }) => {
            format!("priority {from} -> {to}: {because}")
        }
        Output::Event(Event::Notice(notice)) => format!("notice: {notice}"),
    }
}
