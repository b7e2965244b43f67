//! The link that is kept up, against a manager that listens.

use std::time::Instant;

use crate::link::{Link, Patience};

use super::*;

type HostLink = Link<HostReport, HostConfig>;

const QUICK: Patience = Patience {
    heartbeat: Duration::from_millis(400),
    settle: Duration::from_millis(5),
    wait: Duration::from_millis(20),
    retry: Duration::from_millis(600),
};

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn link(host: &Host) -> HostLink {
    Link::start(host.start(), &Store::new(host.state()), QUICK)
}

fn generation(link: &HostLink) -> Option<u64> {
    link.desired()
        .borrow()
        .as_ref()
        .map(|desired| desired.generation)
}

fn reports(manager: &Manager, words: &str) -> usize {
    let log = manager.log();
    let report = |line: &&String| line.starts_with("report") && line.contains(words);
    log.iter().filter(report).count()
}

fn report(version: &str) -> HostReport {
    HostReport {
        version: version.to_owned(),
        ..HostReport::default()
    }
}

#[tokio::test]
async fn a_link_enrols_reports_follows_and_remembers() {
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(manager.address.port(), &manager.token);
    let kept = link(&host);
    assert!(!kept.status(0).connected);
    kept.report(report("one"));
    eventually("the first generation", || generation(&kept) == Some(1)).await;
    eventually("the report", || reports(&manager, "\"one\"") > 0).await;
    let status = kept.status(1);
    assert!(status.connected && status.enrolled, "{status:?}");
    assert_eq!(status.record, "tenants/t/hosts/edge-a");
    assert!(status.certificate_expires.is_some());
    manager.mood(|mood| mood.generation = 2);
    eventually("the second generation", || generation(&kept) == Some(2)).await;
    kept.report(report("two"));
    eventually("the change", || reports(&manager, "\"two\"") == 1).await;
    kept.report(report("two"));
    eventually("the heartbeat", || reports(&manager, "\"two\"") >= 2).await;
    let store = Store::new(host.state());
    eventually("the disk", || {
        store
            .load::<HostConfig>("desired")
            .value
            .is_some_and(|desired| desired.generation == 2)
    })
    .await;
    drop(kept);

    // The manager is gone; the next process starts with what the disk holds.
    drop(manager);
    let again = link(&host);
    assert_eq!(generation(&again), Some(2));
    again.report(report("three"));
    eventually("it is told", || {
        let standing = again.standing().borrow().clone();
        !standing.connected
            && standing
                .problems
                .iter()
                .any(|p| p.code == Code::ApiUnreachable)
    })
    .await;
    assert_eq!(generation(&again), Some(2));
}

#[tokio::test]
async fn a_manager_that_counts_anew_is_heard_all_the_same() {
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(manager.address.port(), &manager.token);
    let mtu = |link: &HostLink| {
        let desired = link.desired().borrow().clone();
        desired.and_then(|desired| Some(desired.tunnel.as_ref()?.mtu))
    };
    let kept = link(&host);
    eventually("the first words", || mtu(&kept) == Some(1420)).await;
    let store = Store::new(host.state());
    eventually("the disk", || {
        store.load::<HostConfig>("desired").value.is_some()
    })
    .await;
    drop(kept);
    // The record was made anew, or the manager's directory came from a backup.
    manager.mood(|mood| mood.mtu = 1400);
    let again = link(&host);
    assert_eq!((generation(&again), mtu(&again)), (Some(1), Some(1420)));
    eventually("other words of the same generation", || {
        mtu(&again) == Some(1400)
    })
    .await;
}

#[tokio::test]
async fn a_manager_that_does_not_wait_is_asked_with_pauses() {
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(manager.address.port(), &manager.token);
    let kept = link(&host);
    eventually("the first generation", || generation(&kept) == Some(1)).await;
    let asked = || {
        let log = manager.log();
        log.iter().filter(|line| line.starts_with("config")).count()
    };
    let (start, before) = (Instant::now(), asked());
    eventually("it is asked again and again", || asked() >= before + 10).await;
    let more = asked() - before;
    let most = start.elapsed().as_millis() / QUICK.wait.as_millis() + 3;
    assert!(u128::try_from(more).unwrap() <= most, "{more} of {most}");
}

#[tokio::test]
async fn a_host_that_was_forgotten_enrols_again_with_a_fresh_token() {
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(manager.address.port(), &manager.token);
    let kept = link(&host);
    kept.report(report("one"));
    eventually("the report", || reports(&manager, "\"one\"") > 0).await;
    manager.mood(|mood| mood.forgets = true);
    kept.report(report("two"));
    eventually("it is told", || !kept.status(0).connected).await;
    host.give(&manager.new_token("tokenid001"));
    eventually("the host is back", || {
        manager
            .log()
            .contains(&"enrol edge-a tokenid001".to_owned())
            && kept.status(0).connected
    })
    .await;
    eventually("and reports", || reports(&manager, "\"two\"") >= 2).await;
}

#[tokio::test]
async fn refused_reports_are_told_while_the_desired_state_is_answered() {
    let manager = Manager::start(Shown::default()).await;
    let host = Host::new(manager.address.port(), &manager.token);
    let kept = link(&host);
    kept.report(report("one"));
    eventually("the report", || reports(&manager, "\"one\"") > 0).await;
    eventually("the connection", || kept.status(0).connected).await;
    manager.mood(|mood| mood.refuses_reports = true);
    kept.report(report("two"));
    eventually("it is told", || !kept.status(0).connected).await;
    let told = kept.standing().borrow().clone();
    assert_eq!(told.problems[0].code, Code::SysUnexpected);
    // Answers to the other question do not hide it.
    manager.mood(|mood| mood.generation = 2);
    eventually("the second generation", || generation(&kept) == Some(2)).await;
    eventually("more refusals", || reports(&manager, "\"two\"") >= 4).await;
    let still = kept.standing().borrow().clone();
    assert!(!still.connected, "{still:?}");
    assert_eq!((still.since, &still.problems), (told.since, &told.problems));
    manager.mood(|mood| mood.refuses_reports = false);
    eventually("it is over", || kept.status(0).connected).await;
    assert_eq!(kept.standing().borrow().problems, []);
}

#[tokio::test]
async fn a_busy_manager_is_left_alone_for_as_long_as_it_says() {
    let manager = Manager::start(Shown::default()).await;
    manager.mood(|mood| mood.busy = Some(2));
    let host = Host::new(manager.address.port(), &manager.token);
    let kept = link(&host);
    eventually("it asked twice", || manager.enrolments().len() >= 2).await;
    manager.mood(|mood| mood.busy = None);
    eventually("it is let in", || kept.status(0).enrolled).await;
    let asked = manager.enrolments();
    // Both directions of the link ask, so of three that ask two are the same.
    assert!(asked.len() >= 3, "{asked:?}");
    for three in asked.windows(3) {
        assert!(three[2] - three[0] >= Duration::from_secs(2), "{asked:?}");
    }
    eventually("nothing is wrong", || {
        kept.standing().borrow().problems.is_empty()
    })
    .await;
}
