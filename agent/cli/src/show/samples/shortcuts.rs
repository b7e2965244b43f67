//! Endpoints that a host may answer for.

use kedge_control::local::{ShortcutState, ShortcutStatus};

pub(in crate::show) fn shortcuts() -> Vec<ShortcutStatus> {
    vec![
        ShortcutStatus {
            name: "t/edge".into(),
            endpoints: vec!["203.0.113.7:30001".into()],
            state: ShortcutState::Standing,
            since: "2026-11-21T10:00:00Z".into(),
            because: "no gateway answers through the tunnel, and the endpoint does not either"
                .into(),
            targets: vec!["t/edge-a 10.20.14.11".into(), "t/edge-b 10.20.14.12".into()],
            answering: vec!["t/edge-a 10.20.14.11".into()],
            open: 3,
            taken: 1,
        },
        ShortcutStatus {
            name: "t/other".into(),
            endpoints: vec!["203.0.113.7:30002".into()],
            state: ShortcutState::Gateway,
            ..ShortcutStatus::default()
        },
    ]
}
