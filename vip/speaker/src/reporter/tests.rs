use std::sync::mpsc::TryRecvError;
use std::time::SystemTime;

use kedge_core::vip::RouterState;

use super::*;

fn name(text: &str) -> kedge_core::Name {
    text.parse().unwrap()
}

fn state(vip: &str, to: RouterState) -> VipEvent {
    VipEvent::State {
        name: name(vip),
        from: RouterState::Backup,
        to,
        because: String::new(),
        at: SystemTime::UNIX_EPOCH,
        boottime: kedge_core::Instant::ZERO,
    }
}

fn noise() -> VipEvent {
    VipEvent::ProbeNow(name("noise"))
}

#[test]
fn a_subscriber_that_slept_hears_the_last_state_of_each_vip() {
    let subscribers = Subscribers::default();
    let mut sleeper = subscribers.subscribe();
    for _ in 0..QUEUE + 3 {
        subscribers.tell(&noise());
    }
    assert_eq!(subscribers.lost(), 3);
    subscribers.tell(&state("a", RouterState::Backup));
    subscribers.tell(&state("b", RouterState::Active));
    subscribers.tell(&state("a", RouterState::Active));
    assert!(!subscribers.catch_up());
    assert_eq!(subscribers.lost(), 4, "the first state of a was overtaken");
    for _ in 0..QUEUE {
        assert_eq!(sleeper.try_recv(), Ok(noise()));
    }
    assert!(subscribers.catch_up());
    assert_eq!(sleeper.try_recv(), Ok(state("a", RouterState::Active)));
    assert_eq!(sleeper.try_recv(), Ok(state("b", RouterState::Active)));
    subscribers.tell(&noise());
    assert_eq!(sleeper.try_recv(), Ok(noise()));
    drop(sleeper);
    assert!(subscribers.catch_up());
    assert!(subscribers.lock().is_empty(), "who is gone is forgotten");
}

#[test]
fn a_full_outbox_keeps_the_last_state_and_counts_the_rest() {
    let (queue, reports) = sync_channel(1);
    let mut outbox = Outbox {
        queue,
        late: Late::default(),
        lost: Arc::default(),
    };
    let event = |report: Result<Box<Report>, TryRecvError>| match report {
        Ok(report) => match *report {
            Report::Event(event) => Some(event),
            _ => None,
        },
        _ => None,
    };
    outbox.say(Report::Event(noise()));
    outbox.say(Report::Event(noise()));
    outbox.say(Report::Event(state("a", RouterState::Active)));
    outbox.say(Report::Leftovers(Vec::new()));
    assert!(!outbox.catch_up());
    assert_eq!(outbox.lost.load(Ordering::Relaxed), 2);
    assert_eq!(event(reports.try_recv()), Some(noise()));
    assert!(outbox.catch_up());
    let last = Some(state("a", RouterState::Active));
    assert_eq!(event(reports.try_recv()), last);
    assert_eq!(event(reports.try_recv()), None);
}

#[test]
fn the_trouble_of_one_interface_does_not_hide_that_of_another() {
    let mut told = BTreeMap::new();
    let trouble = |interface| {
        let what = format!("cannot open the VRRP sockets on {interface}");
        Problem::new(Code::VrrpSocket, what)
    };
    assert!(!is_told(&mut told, &trouble("eth0")));
    assert!(!is_told(&mut told, &trouble("eth1")));
    assert!(is_told(&mut told, &trouble("eth0")));
    assert!(is_told(&mut told, &trouble("eth1")));
}

#[test]
fn losses_are_told_at_once_and_then_not_for_a_while() {
    let mut losses = Losses::default();
    assert!(losses.tell(0));
    assert!(losses.at.is_none(), "nothing was lost");
    assert!(losses.tell(2));
    assert!(!losses.tell(3), "a moment ago");
    losses.at = losses.at.and_then(|at| at.checked_sub(TELL_EVERY));
    assert!(losses.tell(3));
}
