use kedge_core::vip::Priority;
use kedge_vip_speaker::Ordered;

use super::*;
use crate::explain::tests::{peer, snapshot};

fn command(problem: &Problem) -> &str {
    let fix = problem.fix.as_ref().unwrap();
    fix.command.as_deref().unwrap_or_default()
}

fn refused(told: Result<Plan, Problem>) -> Problem {
    let problem = told.unwrap_err();
    assert_eq!(problem.code, Code::VipOrderRefused);
    assert_eq!(problem.object, "vips/api");
    assert_eq!(problem.consequence, "nothing was changed");
    assert!(problem.fix.is_some(), "{problem:?}");
    problem
}

fn ordered(state: RouterState, ordered: Ordered) -> VipSnapshot {
    VipSnapshot {
        ordered,
        ..snapshot(state)
    }
}

const FROZEN: Ordered = Ordered {
    frozen: true,
    pinned: false,
    drained: false,
    yielded: false,
};

#[test]
fn only_a_holder_releases_and_the_others_are_told_where_it_is() {
    let told = release(&snapshot(RouterState::Active), None).unwrap();
    assert!(told.acts);
    let mut backup = snapshot(RouterState::Backup);
    backup.active = Some(peer(218));
    let problem = refused(release(&backup, None));
    assert_eq!(problem.what, "this host does not hold api: it is Backup");
    assert_eq!(command(&problem), "kedge vip release api");
    assert!(problem.fix.unwrap().text.contains("10.20.14.12"));
    let problem = refused(release(&snapshot(RouterState::Fault), None));
    assert_eq!(command(&problem), "kedge vip list");
    let owner = VipSnapshot {
        base_priority: Priority::OWNER,
        ..snapshot(RouterState::Active)
    };
    refused(release(&owner, None));
    let frozen = ordered(RouterState::Active, FROZEN);
    let problem = refused(release(&frozen, Some("2026-11-21T11:00:00Z")));
    assert_eq!(problem.what, "api is frozen until 2026-11-21T11:00:00Z");
    assert_eq!(command(&problem), "kedge vip thaw api");
}

#[test]
fn a_vip_comes_only_from_a_holder_of_lower_priority() {
    let from = |priority| {
        let mut backup = snapshot(RouterState::Backup);
        backup.active = Some(peer(priority));
        bring_here(&backup, None)
    };
    // We have 221.
    assert!(from(220).unwrap().acts);
    for priority in [221, 254] {
        let problem = refused(from(priority));
        assert!(
            problem.evidence[0].contains("this host has 221"),
            "{problem:?}"
        );
        assert_eq!(command(&problem), "kedge vip release api");
    }
    let here = bring_here(&snapshot(RouterState::Active), None).unwrap();
    assert!(!here.acts, "it is here already");
    let nobody = refused(bring_here(&snapshot(RouterState::Backup), None));
    assert_eq!(command(&nobody), "kedge vip wait api");
    let fault = refused(bring_here(&snapshot(RouterState::Fault), None));
    assert_eq!(command(&fault), "kedge vip explain api");
    let mut frozen = ordered(RouterState::Backup, FROZEN);
    frozen.active = Some(peer(200));
    assert_eq!(
        command(&refused(bring_here(&frozen, None))),
        "kedge vip thaw api"
    );
    let drained = Ordered {
        drained: true,
        ..Ordered::default()
    };
    let mut drained = ordered(RouterState::Backup, drained);
    drained.active = Some(peer(200));
    assert_eq!(
        command(&refused(bring_here(&drained, None))),
        "kedge undrain"
    );
}

#[test]
fn another_host_is_told_what_to_type_where() {
    let holder = elsewhere(&snapshot(RouterState::Active), "edge-b", false);
    assert_eq!(holder.code, Code::VipOrderRefused);
    assert_eq!(command(&holder), "kedge vip release api");
    let backup = elsewhere(&snapshot(RouterState::Backup), "edge-b\u{1b}[31m", false);
    assert_eq!(command(&backup), "kedge vip move api");
    assert!(!backup.what.contains('\u{1b}'), "{backup:?}");
}

#[test]
fn draining_says_what_it_means_for_each_vip() {
    let told = |state, order| drains(&snapshot(state), order);
    assert_eq!(
        told(RouterState::Active, Order::Drain),
        "api is given to another host"
    );
    assert_eq!(
        told(RouterState::Backup, Order::Drain),
        "api is not held here"
    );
    assert_eq!(
        told(RouterState::Backup, Order::Undrain),
        "api gets priority 221 again"
    );
}
