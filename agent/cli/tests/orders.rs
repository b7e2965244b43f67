//! Orders on the command line, against an agent that answers from fixed routes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{
    fs,
    process::{Command, Stdio},
};

use axum::{
    Json, Router,
    extract::Path,
    routing::{get, post},
};
use kedge_control::{
    Document,
    local::{
        DrainOrder, Order, OrderRequest, Timeline, Transition, Vip, VipExplanation, VipList,
        VipOrder,
    },
};
use kedge_core::{Code, Problem, vip::RouterState};
use kedge_host::{
    Role, Root,
    local::{Answer, Failure, MayChange, Serving, Socket},
};
use serde_json::Value;
use tokio::runtime::Runtime;

struct Served {
    root: tempfile::TempDir,
    _serving: Option<Serving>,
    _runtime: Runtime,
}

impl Served {
    fn new(routes: Option<Router>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let serving = routes.map(|routes| {
            let _inside = runtime.enter();
            let socket = Socket::bind(&Root::new(root.path()).socket(Role::Agent)).unwrap();
            socket.serve(routes)
        });
        Self {
            root,
            _serving: serving,
            _runtime: runtime,
        }
    }

    fn kedge(&self, line: &str) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_kedge"))
            .arg("--root")
            .arg(self.root.path())
            .args(line.split(' '))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

fn order(order: Order, request: &OrderRequest) -> VipOrder {
    VipOrder {
        vip: "api".into(),
        order,
        given: !request.dry_run,
        plan: vec!["this host says goodbye for api".into()],
        state: RouterState::Active,
        boottime_micros: 1_000,
        ..VipOrder::default()
    }
}

/// An agent whose VIP ends in this state after a release.
fn ends_in(to: RouterState) -> Router {
    let change = |micros, from, to| Transition {
        at: "2026-11-21T10:00:00.000000Z".into(),
        boottime_micros: micros,
        from,
        to,
        because: "it was so".into(),
    };
    let explained = VipExplanation {
        vip: vip(to),
        conclusion: String::new(),
        because: Vec::new(),
        would_move_if: Vec::new(),
        rejected_interfaces: Vec::new(),
        transitions: vec![
            change(1_100, RouterState::Active, RouterState::Releasing),
            change(8_100, RouterState::Releasing, to),
        ],
        counters: Default::default(),
    };
    Router::new()
        .route(
            "/v1/vips/{name}/release",
            post(
                async |MayChange(_): MayChange, Json(request): Json<OrderRequest>| {
                    Answer(order(Order::Release, &request))
                },
            ),
        )
        .route(
            "/v1/vips/{name}/explain",
            get(async move || Answer(explained.clone())),
        )
        .route(
            "/v1/vips/{name}/move",
            post(
                async |Path(name): Path<String>, Json(request): Json<OrderRequest>| {
                    let host = request.host.unwrap_or_default();
                    Err::<Answer<VipOrder>, _>(Failure(Problem::new(
                        Code::VipOrderRefused,
                        format!("{name} is not for `{host}`"),
                    )))
                },
            ),
        )
        .route(
            "/v1/vips/{name}/freeze",
            post(async |Json(request): Json<OrderRequest>| {
                assert_eq!(request.for_seconds, Some(600));
                Answer(order(Order::Freeze, &request))
            }),
        )
        .route(
            "/v1/drain",
            post(async |Json(request): Json<OrderRequest>| {
                Answer(DrainOrder {
                    order: Order::Drain,
                    given: !request.dry_run,
                    plan: vec!["this host gives its VIPs away".into()],
                    items: vec![order(Order::Drain, &request)],
                })
            }),
        )
}

fn vip(state: RouterState) -> Vip {
    let holder =
        serde_json::json!({"address": "10.20.14.12", "priority": 240, "lastHeardSeconds": 0.1});
    let mut vip = serde_json::json!({
        "name": "api", "addresses": ["10.20.14.10/24"], "source": "local", "state": state,
        "since": "", "stateSeconds": 1.0, "because": "", "vrid": 51, "vridBecause": "",
        "priority": 250, "basePriority": 250, "priorityBecause": "",
        "advertIntervalSeconds": 0.1, "activeDownSeconds": 0.3,
    });
    if state == RouterState::Backup {
        vip["active"] = holder;
    }
    serde_json::from_value(vip).unwrap()
}

#[test]
fn a_release_is_asked_for_and_ends_as_its_outcome_does() {
    let served = Served::new(Some(ends_in(RouterState::Backup)));
    let (exit, _, err) = served.kedge("vip release api");
    assert_eq!(exit, 2, "{err}");
    assert!(err.contains("kedge vip release api --yes"), "{err}");
    let (exit, out, _) = served.kedge("vip release api --dry-run");
    assert_eq!(exit, 0);
    assert!(out.starts_with("not done: this host says goodbye"), "{out}");
    let (exit, out, err) = served.kedge("vip release api --yes");
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(
        out.starts_with(
            "api is on 10.20.14.12: it was so, and this host answered until then, for 7.1 ms"
        ),
        "{out}"
    );

    let served = Served::new(Some(ends_in(RouterState::Active)));
    let (exit, out, err) = served.kedge("vip release api --yes");
    assert_eq!(exit, 1);
    assert!(
        out.contains("held here again") && err.contains("KEDGE-VIP-0016"),
        "{out}{err}"
    );
    // As data it is one document, whatever came of it.
    let (exit, out, err) = served.kedge("vip release api --yes -o json");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((exit, err.as_str()), (1, ""));
    assert_eq!(
        (&told["kind"], &told["outcome"]["moved"]),
        (&"VIPOrder".into(), &false.into())
    );

    // Nothing comes of it.
    let served = Served::new(Some(ends_in(RouterState::Releasing)));
    let (exit, _, err) = served.kedge("vip release api --yes --timeout 300ms");
    assert_eq!(exit, 7, "{err}");
}

#[test]
fn what_a_safety_check_refuses_ends_with_8_and_what_makes_no_sense_with_2() {
    let served = Served::new(Some(ends_in(RouterState::Backup)));
    let (exit, _, err) = served.kedge("vip move api edge-b --yes");
    assert_eq!(exit, 8, "{err}");
    assert!(err.contains("api is not for `edge-b`"), "{err}");
    assert_eq!(served.kedge("vip freeze api --for 10m").0, 0);
    for bad in [
        "vip freeze api --for 25h",
        "vip freeze api --for 1500ms",
        "vip scan --for 10m",
        "vip history --last 0",
        "vip releas api",
        "vip release",
        "drain",
    ] {
        assert_eq!(served.kedge(bad).0, 2, "{bad}");
    }
    let (_, _, err) = served.kedge("vip releas api");
    assert!(err.contains("release"), "did you mean: {err}");
    let (_, _, err) = served.kedge("drian");
    assert!(err.contains("drain"), "did you mean: {err}");
    let nobody = Served::new(None);
    assert_eq!(nobody.kedge("vip release api --yes").0, 3);
    assert_eq!(nobody.kedge("vip history").0, 3);
}

#[test]
fn all_that_are_held_are_released_and_each_is_waited_for() {
    let held = |states: Vec<RouterState>| {
        let items = states.into_iter().map(vip).collect();
        let list = VipList {
            items,
            ..VipList::default()
        };
        let list = get(async move || Answer(list.clone()));
        Served::new(Some(ends_in(RouterState::Backup).route("/v1/vips", list)))
    };
    let served = held(vec![RouterState::Backup, RouterState::Active]);
    let (exit, _, err) = served.kedge("vip release --all");
    assert_eq!(exit, 2, "{err}");
    assert!(err.contains("kedge vip release --all --yes"), "{err}");
    let (exit, out, err) = served.kedge("vip release --all --yes -o json");
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((exit, told["items"].as_array().unwrap().len()), (0, 1));
    assert_eq!(told["items"][0]["outcome"]["moved"], true);
    let (exit, out, _) = held(vec![RouterState::Backup]).kedge("vip release --all --yes");
    assert_eq!(exit, 0);
    assert!(out.contains("this host holds no VIP"), "{out}");
    assert_eq!(served.kedge("vip release api --all").0, 2);
}

#[test]
fn one_that_may_not_be_released_is_told_and_keeps_no_other_here() {
    let refuse = post(async |Path(name): Path<String>| {
        let refused = Problem::new(Code::VipOrderRefused, format!("{name} is frozen"));
        Err::<Answer<VipOrder>, _>(Failure(refused))
    });
    let routes = Router::new()
        .route("/v1/vips/{name}/release", refuse)
        .route(
            "/v1/vips/{name}",
            get(async || Answer(vip(RouterState::Active))),
        )
        .route(
            "/v1/vips",
            get(async || {
                Answer(VipList {
                    items: vec![vip(RouterState::Active)],
                    ..VipList::default()
                })
            }),
        );
    let (exit, out, _) = Served::new(Some(routes)).kedge("vip release --all --yes");
    assert_eq!(exit, 8, "{out}");
    assert!(out.contains("api is frozen"), "{out}");
}

#[test]
fn a_drain_waits_for_each_vip_that_was_held() {
    let served = Served::new(Some(ends_in(RouterState::Backup)));
    let (exit, out, _) = served.kedge("drain --yes --wait -o json");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (exit, &told["items"][0]["outcome"]["moved"]),
        (0, &true.into())
    );
    let served = Served::new(Some(ends_in(RouterState::Active)));
    let (exit, out, _) = served.kedge("drain --yes --wait");
    assert_eq!(exit, 1, "{out}");
    assert!(out.contains("this host"), "{out}");
    let (exit, out, _) = served.kedge("drain --yes");
    assert_eq!(exit, 0, "{out}");
}

#[test]
fn timelines_of_others_are_read_from_files_and_what_is_none_is_refused() {
    let nobody = Served::new(None);
    let write = |name: &str, text: &str| {
        let path = nobody.root.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let timeline = |host: &str| {
        let document = Document::new(Timeline {
            host: host.to_owned(),
            vip: "api".to_owned(),
            ..Timeline::default()
        });
        write(
            &format!("{host}.json"),
            &serde_json::to_string(&document).unwrap(),
        )
    };
    let (one, two) = (timeline("edge-a"), timeline("edge-b"));
    // Without an agent the files are all there is.
    let (exit, out, err) = nobody.kedge(&format!("vip timeline --merge {one} {two} -o json"));
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((exit, told["clocks"].as_array().unwrap().len()), (0, 2));
    for (name, text) in [
        ("text.json", "not json"),
        (
            "other.json",
            r#"{"apiVersion": "cli.kedge.dev/v1", "kind": "VIP"}"#,
        ),
        ("long.json", &" ".repeat(2 << 20)),
    ] {
        let bad = write(name, text);
        let (exit, _, err) = nobody.kedge(&format!("vip timeline --merge {bad}"));
        assert!(exit == 2 && err.contains(name), "{exit} {err}");
    }
    let (exit, _, err) = nobody.kedge("vip timeline --merge /nonexistent");
    assert!(exit == 2 && err.contains("/nonexistent"), "{exit} {err}");
}
