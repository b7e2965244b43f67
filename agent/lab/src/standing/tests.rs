use super::*;

#[test]
fn requests_and_answers_read_back() {
    for request in [
        Request::Status,
        Request::Kill {
            node: "edge-a".to_owned(),
        },
        Request::Cut {
            node: "edge-a".to_owned(),
        },
        Request::Heal {
            node: "edge-a".to_owned(),
        },
        Request::Down,
    ] {
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            serde_json::from_str::<Request>(&text).unwrap(),
            request,
            "{text}"
        );
    }
    let answers = [
        Answer::Status(LabStatus {
            id: "ab12".to_owned(),
            ..LabStatus::default()
        }),
        Answer::Done(LabChange {
            done: "cut".to_owned(),
            leftovers: vec!["x".to_owned()],
        }),
        Answer::Problem(Box::new(Problem::new(Code::LabNotUp, "no lab is up"))),
    ];
    for answer in answers {
        let mut line = Vec::new();
        control::write(&mut line, &answer).unwrap();
        assert_eq!(serde_json::from_slice::<Answer>(&line).unwrap(), answer);
    }
    assert!(
        serde_json::from_str::<Answer>("  0.06s  ✓ build").is_err(),
        "a line to show"
    );
}

#[test]
fn only_what_has_a_link_can_be_hurt_and_a_wrong_name_is_told_as_one() {
    let edge = crate::topology::Topology::edge();
    for name in [
        "edge-a", "edge-b", "edge-c", "router", "gateway", "manager", "client",
    ] {
        assert_eq!(supervise::known(&edge, name), Ok(()), "{name}");
    }
    for name in ["lan", "internet", "edge-A", ""] {
        let problem = supervise::known(&edge, name).unwrap_err();
        assert_eq!(problem.code, Code::SysUsage, "{name}");
        assert_eq!(problem.consequence, "nothing was changed");
        let fix = problem.fix.unwrap().text;
        assert!(fix.contains("edge-a") && !fix.contains("internet"), "{fix}");
    }
}

#[test]
fn the_status_says_what_to_type_next() {
    let status = LabStatus {
        id: "ab12".to_owned(),
        directory: "/run/kedge-lab/ab12".to_owned(),
        nodes: vec![NodeStatus {
            name: "edge-a".to_owned(),
            state: "cut".to_owned(),
            vip: "Active".to_owned(),
            ..NodeStatus::default()
        }],
    };
    let table = status.table();
    for part in [
        "edge-a",
        "cut",
        "Active",
        "--root /run/kedge-lab/ab12/edge-a status",
    ] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    assert_eq!(
        serde_json::to_value(status.document()).unwrap()["kind"],
        "LabStatus"
    );
}
