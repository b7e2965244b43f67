//! The executable and a control socket as roles serve it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code"
)]

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use axum::{
    Json, Router,
    extract::Path,
    routing::{get, post},
};
use kedge_control::{
    identity,
    local::{
        AgentStatus, ApprovalRequest, GatewayStatus, HostApproval, RoleInfo, TokenCreated,
        TokenRequest, TokenSummary, Tunnel, TunnelList,
    },
};
use kedge_core::{Code, Problem};
use kedge_host::{
    Role, Root,
    local::{Answer, Failure, MayChange, Serving, Socket},
};
use serde_json::Value;
use tokio::runtime::Runtime;

/// A role that answers from fixed routes.
struct Served {
    root: tempfile::TempDir,
    runtime: Runtime,
    serving: Vec<Serving>,
}

impl Served {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            runtime: Runtime::new().unwrap(),
            serving: Vec::new(),
        }
    }

    fn role(mut self, role: Role, routes: Router) -> Self {
        let _inside = self.runtime.enter();
        let socket = Socket::bind(&Root::new(self.root.path()).socket(role)).unwrap();
        self.serving.push(socket.serve(routes));
        drop(_inside);
        self
    }

    fn kedge(&self, args: &[&str]) -> (i32, String, String) {
        let output: Output = Command::new(env!("CARGO_BIN_EXE_kedge"))
            .arg("--root")
            .arg(self.root.path())
            .args(args)
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

    fn socket(&self, role: Role) -> PathBuf {
        Root::new(self.root.path()).socket(role)
    }
}

fn agent(problems: Vec<Problem>) -> Router {
    let status = AgentStatus {
        role: RoleInfo {
            hostname: "edge-a".into(),
            ..RoleInfo::default()
        },
        problems,
        ..AgentStatus::default()
    };
    Router::new()
        .route("/v1/status", get(async move || Answer(status.clone())))
        .route("/v1/tunnels", get(async || Answer(TunnelList::default())))
        .route(
            "/v1/vips/{name}",
            get(async || -> Answer<TunnelList> {
                // Never reached by a name that exists.
                Answer(TunnelList::default())
            }),
        )
}

#[test]
fn the_worst_problem_decides_how_status_ends() {
    let warning = Problem::warning(Code::ConfigStale, "a newer configuration was refused");
    let error = Problem::new(Code::TunDeviceMissing, "/dev/net/tun does not exist");
    for (problems, code, word) in [
        (vec![], 0, "Next: "),
        (
            vec![warning.clone()],
            4,
            "1 warning.  Next: kedge explain KEDGE-CFG-0007",
        ),
        (
            vec![error, warning],
            5,
            "1 error, 1 warning.  Next: kedge explain KEDGE-TUN-0001",
        ),
    ] {
        let served = Served::new().role(Role::Agent, agent(problems));
        let (exit, out, err) = served.kedge(&["status"]);
        assert_eq!((exit, err.as_str()), (code, ""));
        assert!(out.contains("on edge-a"), "{out}");
        assert!(out.contains(word), "{out}");
    }
}

#[test]
fn whichever_role_runs_here_is_asked() {
    let gateway = GatewayStatus::default();
    let routes = Router::new()
        .route("/v1/status", get(async move || Answer(gateway.clone())))
        .route("/v1/tunnels", get(async || Answer(TunnelList::default())))
        .route(
            "/v1/tunnels/{name}",
            get(async |Path(name): Path<String>| {
                Answer(Tunnel {
                    name,
                    ..Tunnel::default()
                })
            }),
        );
    let served = Served::new().role(Role::Gateway, routes);
    let (exit, out, _) = served.kedge(&["status", "-o", "json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((exit, json["kind"].as_str()), (0, Some("GatewayStatus")));
    assert_eq!(served.kedge(&["tunnel", "list"]).0, 0);
    assert_eq!(served.kedge(&["status", "agent"]).0, 3);
    let (_, out, _) = served.kedge(&["tunnel", "show", "t/edge-a", "-o", "name"]);
    assert_eq!(out, "t/edge-a\n");

    let socket = served.socket(Role::Gateway);
    let elsewhere = Served::new();
    let (exit, out, _) = elsewhere.kedge(&["status", "--socket", socket.to_str().unwrap()]);
    assert_eq!(exit, 0);
    assert!(out.contains("gateway on"), "{out}");
}

#[test]
fn an_answer_of_another_kind_is_a_version_skew() {
    let served = Served::new().role(Role::Agent, agent(vec![]));
    let (exit, _, err) = served.kedge(&["vip", "show", "api"]);
    assert_eq!(exit, 9);
    assert!(err.contains("KEDGE-SYS-0004"), "{err}");
    // A route the role does not have.
    let (exit, _, err) = served.kedge(&["vip", "list"]);
    assert_eq!(exit, 1);
    assert!(err.contains("KEDGE-API-0004"), "{err}");
}

#[test]
fn what_a_token_asks_for_reaches_the_manager() {
    let create = async |MayChange(_): MayChange, Json(request): Json<TokenRequest>| {
        let bound = &request.bound_to;
        assert_eq!(bound.machine_id.as_deref(), Some("4d"));
        assert_eq!(bound.serial.as_deref(), Some("XK-1"));
        assert_eq!(bound.mac.as_deref(), Some("52:54:00:00:00:01"));
        assert_eq!(bound.hostname_regex.as_deref(), Some("edge-.*"));
        let labels: Vec<_> = request.labels.into_iter().collect();
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(labels, [label("a", ""), label("site", "x=y")]);
        let asked = request.approval == Some(kedge_control::local::Approval::Manual);
        let code = if asked {
            Code::EnrolWaits
        } else {
            Code::SysUnexpected
        };
        Err::<Answer<TokenCreated>, _>(Failure(Problem::new(code, "seen")))
    };
    let routes = Router::new().route("/v1/tokens", post(create));
    let served = Served::new().role(Role::Manager, routes);
    let bound = [
        "--machine-id",
        "4d",
        "--serial",
        "XK-1",
        "--mac",
        "52:54:00:00:00:01",
    ];
    let more = [
        "--hostname",
        "edge-.*",
        "--label",
        "site=x=y",
        "--label",
        "a=",
        "--approval",
        "manual",
    ];
    let create = ["token", "create", "--tenant", "t"];
    let (exit, _, err) = served.kedge(&[&create[..], &bound, &more].concat());
    assert!(exit == 1 && err.contains("KEDGE-ENR-0009"), "{err}");
    for bad in [&["--label", "=x"][..], &["--approval", "maybe"]] {
        assert_eq!(served.kedge(&[&create[..], bad].concat()).0, 2, "{bad:?}");
    }
    let of_gateway = ["token", "create", "--gateway", "gw", "--serial", "x"];
    assert_eq!(served.kedge(&of_gateway).0, 2);
}

#[test]
fn a_key_is_approved_by_its_hash_and_never_unseen() {
    let approve = async |MayChange(_): MayChange, Json(request): Json<ApprovalRequest>| {
        assert_eq!(
            (request.name.as_str(), request.namespace.as_deref()),
            ("edge-a", Some("shop"))
        );
        let said = request.key_hash.is_some() && !request.dry_run;
        Answer(HostApproval {
            namespace: "shop".into(),
            name: "edge-a".into(),
            tenant: "t".into(),
            key_hash: "HASH".into(),
            since: "2026-11-21T10:30:00Z".into(),
            approved: said,
        })
    };
    let routes = Router::new().route("/v1/fleet/approvals", post(approve));
    let served = Served::new().role(Role::Manager, routes);
    let approve = ["fleet", "approve", "shop/edge-a"];
    // Nobody can be asked: the hash is told, and nothing is said in a person's name.
    let (exit, out, err) = served.kedge(&approve);
    assert_eq!((exit, out.as_str()), (2, ""));
    assert!(
        err.contains("kedge fleet approve shop/edge-a --key HASH"),
        "{err}"
    );
    let (exit, out, _) = served.kedge(&[&approve[..], &["--key", "HASH", "--dry-run"]].concat());
    assert!(exit == 0 && out.contains("waiting"), "{out}");
    let json = ["--key", "HASH", "-o", "json"];
    let (exit, out, _) = served.kedge(&[&approve[..], &json].concat());
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (exit, &said["approved"], &said["kind"]),
        (0, &true.into(), &"HostApproval".into())
    );
    let (exit, out, _) = served.kedge(&[&approve[..], &["--key", "HASH", "-o", "name"]].concat());
    assert_eq!((exit, out.as_str()), (0, "shop/edge-a\n"));
}

#[test]
fn a_token_goes_to_stdout_alone() {
    let create = async |MayChange(_): MayChange, Json(request): Json<TokenRequest>| {
        if request.tenant.as_deref() != Some("t") {
            return Err(Failure(Problem::new(
                Code::EnrolTokenScope,
                "no such tenant",
            )));
        }
        let host = request.host_ref.unwrap();
        assert_eq!(
            (host.kind.as_str(), host.name.as_str()),
            ("ElementalHost", "edge-a")
        );
        assert_eq!(
            (request.ttl_seconds, request.max_uses),
            (Some(1800), Some(3))
        );
        Ok(Answer(TokenCreated {
            token: "kedge1.abcdefgh01.SECRET.PIN".into(),
            summary: TokenSummary {
                id: "abcdefgh01".into(),
                role: identity::Role::Host,
                scope: "tenant t".into(),
                host_ref: Some(host),
                bound_to: request.bound_to,
                labels: request.labels,
                approval: request.approval,
                expires: "2026-11-21T10:30:00Z".into(),
                uses: 0,
                max_uses: 3,
                state: "usable".into(),
            },
        }))
    };
    let routes = Router::new().route("/v1/tokens", post(create));
    let served = Served::new().role(Role::Manager, routes);
    let host = ["--host", "edge-a", "--ttl", "30m", "--uses", "3"];
    let (exit, out, err) =
        served.kedge(&[&["token", "create", "--tenant", "t"][..], &host].concat());
    assert_eq!((exit, out.as_str()), (0, "kedge1.abcdefgh01.SECRET.PIN\n"));
    assert!(
        err.contains("abcdefgh01") && !err.contains("SECRET"),
        "{err}"
    );

    let (exit, out, err) = served.kedge(&["token", "create", "--tenant", "x"]);
    assert_eq!((exit, out.as_str()), (1, ""));
    assert!(err.contains("KEDGE-ENR-0006"), "{err}");
}
