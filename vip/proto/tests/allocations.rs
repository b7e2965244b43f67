//! Adverts cost no allocation: neither sending nor receiving them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test code")]

use std::{alloc::System, net::Ipv4Addr, time::Duration};

use kedge_core::{
    Instant, Machine,
    vip::{Priority, RouterState, Vrid},
};
use kedge_vip_proto::{
    vrrp::{Command, Config, Input, Link, Output, Router, Transmit},
    wire::{
        Addresses, Mac, ip,
        vrrp::{Advert, MAX_LEN},
    },
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn started(priority: u8, last: u8) -> Router {
    let vip = Addresses::new(&[Ipv4Addr::new(10, 20, 14, 10).into()]).unwrap();
    let priority = Priority::new(priority).unwrap();
    let config = Config {
        startup_wait: Duration::ZERO,
        link_up_wait: Duration::ZERO,
        ..Config::new(Vrid::new(51).unwrap(), vip, priority)
    };
    let mut router = Router::new(config).unwrap();
    let source = Ipv4Addr::new(10, 20, 14, last).into();
    let link = Link::Up {
        source,
        mac: Mac([2, 0, 0, 0, 0, last]),
    };
    router
        .handle_input(Instant::ZERO, Input::Link(link))
        .unwrap();
    router
        .handle_input(Instant::ZERO, Input::Command(Command::Start))
        .unwrap();
    while router.poll_output().is_some() {}
    router
}

/// Lets `router` act until it sends an advert.
fn next_advert(router: &mut Router, now: &mut Instant) -> Transmit {
    loop {
        while let Some(output) = router.poll_output() {
            match output {
                Output::Send(transmit) => return transmit,
                Output::Own { hold: true, ticket } => {
                    router
                        .handle_input(
                            *now,
                            Input::Owned {
                                ticket,
                                result: Ok(()),
                            },
                        )
                        .unwrap();
                }
                Output::Own { .. }
                | Output::Announce(_)
                | Output::ProbeAddress(_)
                | Output::ProbeHealth
                | Output::Prove { .. }
                | Output::Event(_) => {}
            }
        }
        *now = router.poll_timeout().unwrap();
        router.handle_timeout(*now);
    }
}

fn main() {
    a_thousand_adverts_are_sent_parsed_and_followed_without_an_allocation();
}

fn a_thousand_adverts_are_sent_parsed_and_followed_without_an_allocation() {
    let mut active = started(254, 11);
    let mut backup = started(220, 12);
    let mut now = Instant::ZERO;
    // The take-over, its announcements and the first advert may allocate.
    for _ in 0..100 {
        next_advert(&mut active, &mut now);
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..1_000 {
        let transmit = next_advert(&mut active, &mut now);
        let mut buffer = [0; MAX_LEN];
        let length = transmit.emit(&mut buffer);
        let src = transmit.src;
        let header = ip::Header {
            src,
            dst: ip::group(false),
            ttl: 255,
            protocol: 112,
        };
        let (advert, forms) = Advert::parse(&header, &buffer[..length]).unwrap();
        let mac = Mac([2, 0, 0, 0, 0, 11]);
        let received = kedge_vip_proto::wire::vrrp::Received {
            src,
            dst: ip::group(false),
            ttl: 255,
            mac,
            forms,
            advert,
        };
        backup.handle_input(now, Input::Advert(received)).unwrap();
        backup.handle_timeout(now);
        assert!(backup.poll_output().is_none());
    }
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0));
    assert_eq!(
        (active.state(), backup.state()),
        (RouterState::Active, RouterState::Backup)
    );
}
