use super::*;

fn result() -> DemoResult {
    let step = |name: &str, ok| Step {
        name: name.to_owned(),
        ok,
        seconds: 0.5,
        detail: "seen".to_owned(),
    };
    DemoResult {
        ok: true,
        seconds: 21.5,
        steps: vec![step("build", true), step("host-death", true)],
        outages: vec![Outage {
            fault: faults::HOST_DEATH.to_owned(),
            lost_probes: 253,
            outage_seconds: 0.253,
            because: "edge-a fell silent".to_owned(),
        }],
        leftovers: Vec::new(),
    }
}

#[test]
fn the_object_has_the_keys_that_were_promised() {
    let json = serde_json::to_value(result().document()).unwrap();
    assert_eq!(json["apiVersion"], "cli.kedge.dev/v1");
    assert_eq!(json["kind"], "DemoResult");
    assert_eq!(json["ok"], true);
    assert_eq!(json["steps"][0]["name"], "build");
    for key in ["name", "ok", "seconds", "detail"] {
        assert!(json["steps"][1].get(key).is_some(), "{key}");
    }
    for key in ["fault", "lostProbes", "outageSeconds", "because"] {
        assert!(json["outages"][0].get(key).is_some(), "{key}");
    }
    assert_eq!(json["leftovers"], serde_json::json!([]));
}

#[test]
fn the_outage_stands_beside_what_others_would_have_cost() {
    let table = result().table();
    for part in [
        "253 ms",
        "3000–3600 ms",
        "15000 ms",
        "Every step held",
        "21.5 s",
    ] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    let failed = DemoResult {
        ok: false,
        leftovers: vec!["x".to_owned()],
        ..result()
    };
    assert!(failed.table().contains("1 left behind"));
}
