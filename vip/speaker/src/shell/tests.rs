//! One thread turned by hand, beside another host's that runs.

use std::{process::Command, thread, time::Duration};

use kedge_core::vip::{Priority, RouterState};
use kedge_net::{
    netns::{Lease, Namespace, Worker},
    privilege,
};

use super::*;
use crate::{Speaker, reporter::Subscribers, spec::tests::spec};

#[test]
fn what_came_while_it_stood_still_counts_before_its_patience() {
    if privilege::check().is_err() {
        return;
    }
    let lease = Lease::take().unwrap();
    let [here, there] = ["a", "b"].map(|node| Namespace::create(&lease.namespace(node)).unwrap());
    let ip = |line: &str| {
        let done = Command::new("ip").args(line.split(' ')).status().unwrap();
        assert!(done.success(), "ip {line}");
    };
    let (a, b) = (here.name(), there.name());
    ip(&format!(
        "link add eth0 netns {a} type veth peer name eth0 netns {b}"
    ));
    for (name, net) in [(a, "10.20.14.11/24"), (b, "10.20.14.12/24")] {
        ip(&format!("-n {name} address add {net} dev eth0"));
        ip(&format!("-n {name} link set eth0 up"));
    }
    let neighbor = Worker::start(&there).unwrap();
    let speaker = neighbor.run(|| Speaker::start(SETTINGS).unwrap()).unwrap();
    speaker.apply(vec![spec("api", "10.20.14.10")]);
    Worker::start(&here)
        .unwrap()
        .run(move || {
            let mut shell = shell();
            let mut deadline = shell.next_deadline();
            let mut turn_until = |shell: &mut Shell, state: RouterState| {
                let begun = clock::now();
                while !hears(shell, state) {
                    assert!(clock::now().since(begun) < PATIENCE, "never {state:?}");
                    let ready = shell.waiter.wait_until(deadline).unwrap();
                    let ready = [BELL, MONITOR, SOCKETS].map(|key| ready.contains(&key));
                    deadline = match shell.turn(ready) {
                        ControlFlow::Continue(next) => next,
                        ControlFlow::Break(end) => panic!("{end:?}"),
                    };
                }
            };
            turn_until(&mut shell, RouterState::Backup);
            // Somebody rang, and what is done then takes longer than patience lasts.
            thread::sleep(STALL);
            assert!(shell.turn([true, false, false]).is_continue());
            assert!(hears(&shell, RouterState::Backup));
            let [instance] = &*shell.instances else {
                panic!()
            };
            let times = instance.router.view().stats.became_active;
            assert_eq!(times, 0, "adverts were there");
            drop(speaker);
            turn_until(&mut shell, RouterState::Active);
        })
        .unwrap();
}

/// Whether its router is that, and knows of another.
fn hears(shell: &Shell, state: RouterState) -> bool {
    let mut routers = shell.instances.iter().map(|it| &it.router);
    let hears = |it: &kedge_vip_proto::vrrp::Router| match state {
        RouterState::Backup => it.view().active.is_some(),
        _ => true,
    };
    routers.any(|it| it.state() == state && hears(it))
}

/// In the namespace of the calling thread.
fn shell() -> Shell {
    let shared = Arc::new(Shared::new().unwrap());
    // Nobody gives it orders.
    let (_, commands) = std::sync::mpsc::sync_channel(1);
    let (outbox, _) = Outbox::open(Subscribers::default()).unwrap();
    let ring = Arc::clone(&shared);
    let (fences, _) = Fences::start(move || ring.bell.ring()).unwrap();
    let mut vip = spec("api", "10.20.14.10");
    vip.priority = Priority::new(200).unwrap();
    shared.desired.store(Some(Arc::new(vec![vip])));
    shared.bell.ring();
    Shell::open(SETTINGS, shared, commands, outbox, fences, None, None).unwrap()
}

const SETTINGS: Settings = Settings {
    real_time: false,
    lock_memory: false,
    link_up_wait: Duration::ZERO,
};
/// Longer than three adverts of the other one take.
const STALL: Duration = Duration::from_millis(600);
const PATIENCE: Duration = Duration::from_secs(10);
