//! Orders and records.

use std::collections::BTreeMap;

use kedge_control::local::{
    DrainOrder, History, HistoryItem, Order, OrderOutcome, PackageForm, Restart, RestartOutcome,
    ScannedRouter, Stamp, Timeline, TimelineItem, Upgrade, UpgradeOutcome, VipOrder, VridScan,
    VridUse,
};
use kedge_core::{Code, Fix, Problem, vip::RouterState};

pub(in crate::show) fn release() -> VipOrder {
    VipOrder {
        vip: "api".into(),
        order: Order::Release,
        given: true,
        plan: vec!["this host says goodbye for api".into()],
        state: RouterState::Active,
        at: "2026-11-21T10:00:00.000000Z".into(),
        boottime_micros: 1,
        to: None,
        outcome: Some(OrderOutcome {
            moved: true,
            holder: "10.20.14.12".into(),
            because:
                "10.20.14.12 (priority 253) took over, and this host answered until then, for \
                      23.4 ms"
                    .into(),
            took_seconds: 0.0234,
        }),
    }
}

pub(in crate::show) fn drained() -> DrainOrder {
    DrainOrder {
        order: Order::Drain,
        given: true,
        plan: vec!["this host gives its VIPs away".into()],
        items: vec![
            release(),
            VipOrder {
                vip: "web\u{1b}[31m".into(),
                state: RouterState::Backup,
                plan: vec!["web is not held here".into()],
                to: None,
                outcome: None,
                ..release()
            },
        ],
    }
}

pub(in crate::show) fn restarted() -> Restart {
    Restart {
        given: true,
        executable: "/usr/bin/kedge".into(),
        keeps_vips: true,
        plan: vec!["the agent is replaced by /usr/bin/kedge\u{1b}[31m".into()],
        started: "2026-11-19T10:00:00Z".into(),
        outcome: Some(RestartOutcome {
            version: "0.2.0".into(),
            took_seconds: 0.123,
        }),
    }
}

pub(in crate::show) fn upgraded() -> Upgrade {
    Upgrade {
        given: true,
        form: PackageForm::Archive,
        from: "0.1.0".into(),
        to: "0.2.0".into(),
        plan: vec!["its files take the place of those that are installed\u{1b}[31m".into()],
        outcome: Some(UpgradeOutcome {
            restarted: true,
            ready_seconds: 0.123,
            kept: Some("0.1.0".into()),
        }),
    }
}

pub(in crate::show) fn history() -> History {
    let item = |at: &str, this_boot, to, because: &str| HistoryItem {
        vip: "api".into(),
        at: at.into(),
        boottime_micros: 1,
        this_boot,
        from: Some(RouterState::Backup),
        to: Some(to),
        because: because.into(),
    };
    History {
        host: "edge-a".into(),
        items: vec![
            item(
                "2026-11-20T08:00:00.000001Z",
                false,
                RouterState::Active,
                "no other router was heard for 0.3 s",
            ),
            item(
                "2026-11-21T09:59:59.123456Z",
                true,
                RouterState::Active,
                "10.20.14.12 said that it leaves",
            ),
            HistoryItem {
                from: None,
                to: None,
                ..item(
                    "2026-11-21T10:00:00.000000Z",
                    true,
                    RouterState::Active,
                    "frozen by order until 2026-11-21T11:00:00Z",
                )
            },
        ],
    }
}

pub(in crate::show) fn timeline() -> Timeline {
    let item = |at: &str, host: &str, stamp, text: &str| TimelineItem {
        at: format!("2026-11-21T02:11:{at}Z"),
        host: host.into(),
        stamp,
        peer: None,
        text: text.into(),
    };
    Timeline {
        host: "edge-a".into(),
        vip: "api".into(),
        sources: vec!["10.20.14.11".parse().unwrap()],
        clocks: vec![
            "edge-a: its clock is the one that counts".into(),
            "b: offset corrected (+0.4 ms, ±0.1 ms)".into(),
        ],
        items: vec![
            item(
                "09.101000",
                "b",
                Stamp::State,
                "Active -> Fault: the link is down",
            ),
            item(
                "09.425000",
                "edge-a",
                Stamp::TimerFired,
                "Active_Down_Timer fired (3 x 100 ms + skew 22 ms = 322 ms, +2 ms scheduling)",
            ),
            item(
                "09.426123",
                "edge-a",
                Stamp::Announced,
                "first announcement sent",
            ),
        ],
    }
}

pub(in crate::show) fn scan() -> VridScan {
    let stranger = ScannedRouter {
        address: "10.20.14.1".parse().unwrap(),
        mac: "00:1b:17:aa:20:01".into(),
        version: 2,
        priority: 100,
        advert_interval_seconds: 1.0,
        addresses: vec!["10.20.14.1".parse().unwrap()],
        checksum: "message".into(),
        auth: "password".into(),
        unicast: false,
        adverts: 3,
    };
    let here = |vrid, ours: &str, routers| VridUse {
        interface: "eth0".into(),
        vrid,
        family: "IPv4".into(),
        ours: ours.into(),
        routers,
    };
    VridScan {
        interfaces: vec!["eth0".into()],
        seconds: 3.0,
        items: vec![
            here(51, "web", Vec::new()),
            here(252, "api", vec![stranger]),
        ],
        free: BTreeMap::from([("eth0".into(), 100)]),
        malformed: BTreeMap::from([("checksum".into(), 2)]),
        problems: vec![
            Problem::new(Code::VipVridInUse, "VRID 252 of api is used by a stranger")
                .object("vips/api")
                .fix(Fix::text("give api another VRID")),
        ],
    }
}
