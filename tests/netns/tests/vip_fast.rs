//! Intervals that not every host can keep.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use kedge_core::{
    Code,
    vip::{AdvertInterval, RouterState},
};
use kedge_tests_netns::{
    eventually,
    lan::Lan,
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
};
use kedge_vip_speaker::{Settings, VipSpec};

fn fast() -> VipSpec {
    VipSpec {
        interval: AdvertInterval::from_centis(1).unwrap(),
        ..vip(51, 254, "10.20.14.10")
    }
}

fn settings(real_time: bool) -> Settings {
    Settings {
        real_time,
        link_up_wait: millis(500),
        ..Settings::default()
    }
}

#[test]
fn ten_milliseconds_are_kept_once_the_host_has_shown_that_it_can() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let speaker = Speaking::start_with(&a, settings(true), vec![fast()]);
        // A VIP stands before anything is known.
        speaker.becomes(RouterState::Active, secs(2));
        let mut problems = Vec::new();
        eventually("it is known what the host can keep", secs(6), || {
            let vip = speaker.vip();
            problems = vip.problems;
            vip.interval == fast().interval || !problems.is_empty()
        });
        println!("{} {problems:?}", speaker.scheduling());
        match problems.first() {
            Some(problem) => assert_eq!(problem.code, Code::VipTooFast, "{problem:?}"),
            None => {
                let sent = || speaker.counter("adverts_sent");
                let before = sent();
                eventually("a hundred adverts a second leave", secs(4), || {
                    sent() > before + 150
                });
                assert_eq!(speaker.counter("became_active"), 1);
            }
        }
    });
}

#[test]
fn without_a_real_time_class_it_runs_at_the_default_and_says_why() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let speaker = Speaking::start_with(&a, settings(false), vec![fast()]);
        speaker.becomes(RouterState::Active, secs(2));
        eventually("it says why", secs(2), || {
            let problems = speaker.vip().problems;
            problems.iter().any(|it| it.code == Code::VipTooFast)
        });
        assert_eq!(speaker.vip().interval, AdvertInterval::DEFAULT);
    });
}
