//! Every state × every input → state, outputs and deadline.
//!
//! The table is `table.txt`.

use std::{fmt::Write as _, net::IpAddr, time::Duration};

use kedge_core::{
    Machine,
    vip::{AdvertInterval, RouterState},
};

use super::bench::{
    Bench, HIGH, LOW, OWN, OWN_MAC, PRIORITY, STRANGER, VIP, VIP_V4, address, advert, claim,
    link_down, link_up, mac, plain, priority, refused,
};
use crate::{
    vrrp::{Command, Config, Input, Lead, Link, LinkLoss, Ticket, Tracked, Verdict},
    wire::{
        Addresses, Neighbor,
        arp::{Operation, Packet},
        checksum::Forms,
        vrrp::Received,
    },
};

/// A health-gated member of a Kedge group, which is the usual case.
fn config() -> Config {
    Config {
        gated: true,
        ..plain()
    }
}

/// Each state, as it is at 0 ms.
fn states() -> Vec<(&'static str, Bench)> {
    let healthy = |config: Config| {
        let mut bench = Bench::started(config);
        bench.health(0, Verdict::Healthy);
        bench
    };
    let following = |value: u8| {
        let mut bench = healthy(config());
        bench.advert(0, LOW, value);
        bench
    };
    let active = || {
        let mut bench = Bench::active(config());
        bench.health(0, Verdict::Healthy);
        bench
    };
    let mut initialize = Bench::new(config());
    initialize.input(0, link_up());
    initialize.health(0, Verdict::Healthy);
    let mut pulling = following(40);
    pulling.input(0, Input::Probed { healthy: true });
    let mut asked = healthy(Config {
        owner: true,
        priority: priority(255),
        ..config()
    });
    asked.input(0, Input::Config(config()));
    let mut announced = active();
    announced.run(11_000);
    announced.begin();
    let mut deaf = Bench::new(Config {
        startup_wait: Duration::from_secs(30),
        ..config()
    });
    deaf.input(0, link_up());
    deaf.health(0, Verdict::Healthy);
    deaf.command(0, Command::Start);
    let mut owner = Bench::started(Config {
        owner: true,
        priority: priority(255),
        ..config()
    });
    owner.owned();
    owner.run(11_000);
    owner.begin();
    let mut releasing = active();
    releasing.command(0, Command::Stop);
    let mut handing_over = active();
    handing_over.command(0, Command::HandOver);
    let mut succeeded = active();
    succeeded.command(0, Command::Stop);
    succeeded.advert(0, LOW, 210);
    let mut no_link = healthy(config());
    no_link.input(0, link_down());
    let mut suspecting = healthy(Config {
        first_claim: true,
        ..config()
    });
    suspecting.input(0, claim(STRANGER));
    let mut in_use = healthy(Config {
        first_claim: true,
        ..config()
    });
    in_use.input(0, claim(STRANGER));
    in_use.run(389);
    in_use.begin();
    let mut no_address = active();
    no_address.input(
        0,
        Input::Config(Config {
            addresses: two(),
            ..config()
        }),
    );
    no_address.refuse(0);
    let mut barred = healthy(config());
    barred.tracked(0, 0, true);
    let mut giving_up = active();
    giving_up.tracked(0, 0, true);
    let mut asking = healthy(config());
    asking.unverified(200, LOW);
    asking.run(400);
    asking.begin();
    let followers = || Config {
        follows: true,
        ..config()
    };
    let follower = |state| {
        let mut bench = healthy(followers());
        bench.run(1_000);
        bench.begin();
        bench.lead(0, state, PRIORITY);
        bench
    };
    let mut led = follower(RouterState::Active);
    led.owned();
    led.begin();
    let mut led_away = led.clone();
    led_away.lead(0, RouterState::Releasing, PRIORITY);
    let with = |change: fn(&mut Config), mut bench: Bench| {
        let mut config = bench.router.config().clone();
        change(&mut config);
        bench.input(0, Input::Config(config));
        bench
    };
    let frozen = with(|config| config.frozen = true, active());
    let frozen_backup = with(|config| config.frozen = true, following(200));
    let mut drained = with(|config| config.drained = true, active());
    drained.run(11_000);
    drained.begin();
    let mut ordered = following(200);
    ordered.command(0, Command::Take);
    vec![
        ("Initialize", initialize),
        ("Backup that heard nobody", healthy(config())),
        (
            "Backup that probes before its first claim",
            healthy(Config {
                first_claim: true,
                ..config()
            }),
        ),
        ("Backup whose probe was answered", suspecting),
        ("Backup that has heard no frame yet", deaf),
        ("Backup of a lower Active (200)", following(200)),
        (
            "Backup of an unhealthy Active (40), probe asked for",
            following(40),
        ),
        ("Backup of an unhealthy Active (40), pulling", pulling),
        ("Active, address asked for", asked),
        ("Active, address held", active()),
        ("Active, announced long ago", announced),
        ("Active, owner of the address", owner),
        ("Active, frozen", frozen),
        ("Backup of a lower Active (200), frozen", frozen_backup),
        ("Backup of a lower Active (200), ordered to take", ordered),
        ("Active, drained, nobody else there", drained),
        ("Releasing for good, nobody heard", releasing),
        ("Releasing to hand over, nobody heard", handing_over),
        ("Releasing for good, successor heard", succeeded),
        ("Fault: no link", no_link),
        ("Fault: address in use", in_use),
        ("Fault: address refused", no_address),
        ("Releasing because of a critical track", giving_up),
        ("Fault: critical track", barred),
        ("Backup that asks who proves nothing", asking),
        (
            "Backup that follows a Backup",
            follower(RouterState::Backup),
        ),
        ("Active that follows an Active", led),
        ("Releasing as its leader does", led_away),
    ]
}

/// Each input, given at 10 ms.
fn inputs(bench: &Bench) -> Vec<(&'static str, Given)> {
    let from = |src: IpAddr, value: u8| Given::Input(Input::Advert(advert(src, value)));
    let changed = |change: fn(&mut Received)| {
        let mut received = advert(LOW, 250);
        change(&mut received);
        Given::Input(Input::Advert(received))
    };
    let link = |source: IpAddr, last: u8| {
        Given::Input(Input::Link(Link::Up {
            source,
            mac: mac(last),
        }))
    };
    let set = |config: Config| Given::Input(Input::Config(config));
    let answer = |ticket: Ticket, result| Given::Input(Input::Owned { ticket, result });
    let command = |command: Command| Given::Input(Input::Command(command));
    let tracked = |cost, critical| Given::Input(Input::Tracked(Tracked { cost, critical }));
    let lead = |state| {
        let priority = priority(210);
        Given::Input(Input::Lead(Lead { state, priority }))
    };
    let current = bench.router.config().clone();
    let current = move || current.clone();
    let slower = AdvertInterval::from_centis(20).unwrap();
    let old = Ticket(bench.ticket().0.wrapping_sub(1));
    let request = Packet::announcement(Operation::Request, VIP_V4, STRANGER);
    let elsewhere = Packet {
        sender: std::net::Ipv4Addr::new(10, 20, 14, 13),
        ..request
    };
    vec![
        ("advert above us", from(LOW, 250)),
        ("advert as high, higher address", from(HIGH, PRIORITY)),
        ("advert as high, lower address", from(LOW, PRIORITY)),
        ("advert below us", from(LOW, 200)),
        ("advert of an unhealthy router", from(LOW, 40)),
        ("advert of the address owner", from(LOW, 255)),
        (
            "advert as high, our own address",
            changed(|received| {
                received.src = OWN;
                received.advert.priority = Some(priority(PRIORITY));
            }),
        ),
        (
            "advert with the message sum",
            changed(|received| received.forms = Forms::Message),
        ),
        (
            "advert for another address",
            changed(|received| {
                received.advert.addresses = Addresses::new(&[HIGH]).unwrap();
            }),
        ),
        (
            "advert every 200 ms",
            changed(|received| {
                received.advert.interval = AdvertInterval::from_centis(20).unwrap();
            }),
        ),
        (
            "advert for another VRID",
            changed(|received| {
                received.advert.vrid = kedge_core::vip::Vrid::new(52).unwrap();
            }),
        ),
        (
            "our own advert, looped back",
            changed(|received| received.mac = OWN_MAC),
        ),
        ("goodbye of the Active", from(LOW, 0)),
        ("goodbye of somebody else", from(HIGH, 0)),
        (
            "advert without proof",
            Given::Input(Input::Unverified {
                src: LOW,
                mac: mac(11),
                why: crate::auth::Reject::Missing,
            }),
        ),
        ("ARP claim of a stranger", Given::Input(claim(STRANGER))),
        ("ARP claim of the successor", Given::Input(claim(mac(11)))),
        ("ARP claim of our own", Given::Input(claim(OWN_MAC))),
        (
            "ARP about another address",
            Given::Input(Input::Neighbor(Neighbor::Arp(elsewhere))),
        ),
        ("address held", answer(bench.ticket(), Ok(()))),
        ("address refused", answer(bench.ticket(), Err(refused()))),
        ("address held, older request", answer(old, Ok(()))),
        ("link down", Given::Input(link_down())),
        (
            "link down, another reason",
            Given::Input(Input::Link(Link::Down(LinkLoss::Gone))),
        ),
        ("link up, as before", link(OWN, 12)),
        ("link up, another source", link(HIGH, 12)),
        ("link up, another hardware address", link(OWN, 77)),
        ("a frame", Given::Input(Input::Heard)),
        (
            "health: healthy",
            Given::Input(Input::Health(Verdict::Healthy)),
        ),
        (
            "health: failing",
            Given::Input(Input::Health(Verdict::Failing)),
        ),
        ("tracks: all is well", tracked(0, false)),
        ("tracks: 20 less", tracked(20, false)),
        ("tracks: a critical one failed", tracked(0, true)),
        ("its leader is Backup", lead(RouterState::Backup)),
        ("its leader is Active", lead(RouterState::Active)),
        ("its leader is Releasing", lead(RouterState::Releasing)),
        ("its leader is in Fault", lead(RouterState::Fault)),
        (
            "fresh probe succeeded",
            Given::Input(Input::Probed { healthy: true }),
        ),
        (
            "fresh probe failed",
            Given::Input(Input::Probed { healthy: false }),
        ),
        ("command: start", command(Command::Start)),
        ("command: resume", command(Command::Resume)),
        ("command: stop", command(Command::Stop)),
        ("command: hand over", command(Command::HandOver)),
        ("command: take", command(Command::Take)),
        ("command: be next", command(Command::Succeed)),
        (
            "the process of 10.20.14.11 ended",
            Given::Input(Input::PeerGone { address: LOW }),
        ),
        (
            "configuration: frozen or thawed",
            set(Config {
                frozen: !current().frozen,
                ..current()
            }),
        ),
        (
            "configuration: drained or undrained",
            set(Config {
                drained: !current().drained,
                ..current()
            }),
        ),
        ("configuration as before", set(current())),
        (
            "configuration: priority 200",
            set(Config {
                priority: priority(200),
                ..current()
            }),
        ),
        (
            "configuration: every 200 ms",
            set(Config {
                interval: slower,
                ..current()
            }),
        ),
        (
            "configuration: other addresses",
            set(Config {
                addresses: Addresses::new(&[address(30)]).unwrap(),
                ..current()
            }),
        ),
        (
            "configuration: owner of the address",
            set(Config {
                owner: true,
                priority: priority(255),
                ..current()
            }),
        ),
        (
            "configuration: contradiction",
            set(Config {
                owner: !current().owner,
                ..current()
            }),
        ),
        (
            "configuration: another VRID",
            set(Config {
                vrid: kedge_core::vip::Vrid::new(52).unwrap(),
                ..current()
            }),
        ),
        ("timeout, early", Given::Timeout(10)),
        ("timeout, due", Given::Due),
        ("timeout, due 290 ms ago", Given::Late(290)),
        ("timeout, due 10 s ago", Given::Late(10_000)),
    ]
}

enum Given {
    Input(Input),
    Timeout(u64),
    Due,
    Late(u64),
}

fn two() -> Addresses {
    Addresses::new(&[VIP, address(20)]).unwrap()
}

fn render() -> String {
    let mut text = String::from(HEAD);
    for (name, start) in states() {
        let _ = writeln!(text, "\n## {name} · {}", deadline(&start));
        for (input, given) in inputs(&start) {
            let mut bench = start.clone();
            let before = bench.router.clone();
            let due = bench.router.poll_timeout();
            let done = match given {
                Given::Input(input) => bench.try_input(10, input),
                Given::Timeout(millis) => Ok(bench.timeout(millis)),
                Given::Due => match due {
                    Some(due) => Ok(bench.timeout_at(due)),
                    None => continue,
                },
                Given::Late(millis) => match due {
                    Some(due) => Ok(bench.timeout_at(due + Duration::from_millis(millis))),
                    None => continue,
                },
            };
            let _ = match done {
                Err(reject) => {
                    assert_eq!(
                        bench.router, before,
                        "{name} × {input}: a refusal changed the state"
                    );
                    writeln!(text, "{input:<36}refused: {}", reject.label())
                }
                Ok(_) if bench.router == before => writeln!(text, "{input:<36}nothing"),
                Ok(words) => {
                    let state = bench.state().to_string();
                    let _ = writeln!(text, "{input:<36}{state:<11}{}", deadline(&bench));
                    words
                        .iter()
                        .try_for_each(|word| writeln!(text, "{:<8}{word}", ""))
                }
            };
        }
    }
    text
}

fn deadline(bench: &Bench) -> String {
    bench.deadline().map_or("no deadline".to_owned(), |millis| {
        format!("acts at {millis} ms")
    })
}

const HEAD: &str = "\
# VRRP: every state and every input

We are 10.20.14.12 with priority 220 and 100 ms adverts, healthy, preemption off; skew is 14.062 ms
and Active_Down 314.062 ms. States begin at 0 ms, inputs come at 10 ms. A row says the input, the
state and the next deadline after it; what follows is sent, asked for and told, in order. `nothing`
is nothing at all: no output, no change.
";

#[test]
fn every_state_meets_every_input_as_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/vrrp/tests/table.txt");
    crate::table::agrees(path, &render());
}
