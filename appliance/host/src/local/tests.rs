use axum::{
    Router,
    extract::Path as UriPath,
    routing::{get, post},
};
use hyper::{Method, Request};

use super::*;

async fn ask(path: &Path, method: Method, uri: &str) -> (StatusCode, serde_json::Value) {
    let reply = call(path, method, uri, Vec::new()).await.unwrap();
    (reply.status, reply.json().unwrap())
}

#[tokio::test]
async fn routes_answer_documents_and_the_file_is_closed_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/agent.sock");
    let socket = Socket::bind(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert!(matches!(mode, 0o600 | 0o660), "{mode:o}");

    let routes = Router::new()
        .route(
            "/v1/tunnels",
            get(async || Answer(kedge_control::local::TunnelList::default())),
        )
        .route(
            "/v1/reload",
            post(async |MayChange(peer): MayChange| {
                Failure(Problem::new(
                    Code::VipUnknown,
                    format!("pid {}", peer.pid.unwrap()),
                ))
            }),
        );
    let serving = socket.serve(routes);

    let (status, body) = ask(&path, Method::GET, "/v1/tunnels").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["kind"], "TunnelList");
    let (status, body) = ask(&path, Method::POST, "/v1/reload").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "it is its own user");
    assert_eq!(body["what"], format!("pid {}", std::process::id()));
    let (status, body) = ask(&path, Method::GET, "/v1/nothing").await;
    assert_eq!(
        (status, body["kind"].as_str()),
        (StatusCode::NOT_FOUND, Some("Problem"))
    );
    let (status, _) = ask(&path, Method::DELETE, "/v1/tunnels").await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let error = Socket::bind(&path).unwrap_err();
    assert_eq!(error.problem().code, Code::HostSocketInUse);
    serving.end(Duration::from_secs(20)).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_stranger_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Socket::bind(&path).unwrap());

    let stranger = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(matches!(Socket::bind(&path), Err(BindError::InUse { .. })));
    drop(stranger);
    Socket::bind(&path).unwrap();
}

#[test]
fn root_and_the_role_s_user_may_change_it() {
    let peer = |uid| Peer { uid, pid: None };
    for (uid, role, may) in [
        (Some(0), 0, true),
        (Some(0), 65532, true),
        (Some(65532), 65532, true),
        (Some(65532), 0, false),
        (Some(1000), 65532, false),
        (None, 0, false),
    ] {
        let said = peer(uid).may_change(Uid::from_raw(role));
        assert_eq!(said, may, "{uid:?} asks a role of {role}");
    }
}

#[tokio::test]
async fn a_peer_that_is_neither_root_nor_the_role_s_user_may_not_change_anything() {
    let (mut parts, ()) = Request::new(()).into_parts();
    let peer = Peer {
        uid: Some(geteuid().as_raw() + 1000),
        pid: None,
    };
    parts.extensions.insert(ConnectInfo(peer));
    let Failure(problem) = MayChange::from_request_parts(&mut parts, &())
        .await
        .unwrap_err();
    assert_eq!(problem.code, Code::HostSocketPermission);
    parts.extensions.remove::<ConnectInfo<Peer>>();
    assert!(
        MayChange::from_request_parts(&mut parts, &())
            .await
            .is_err()
    );
}

#[test]
fn the_group_is_found_by_its_whole_name() {
    let groups = "root:x:0:\nkedge-admin:x:7:\nkedge:x:998:alice\n";
    assert_eq!(group_id(groups, "kedge"), Some(998));
    assert_eq!(group_id(groups, "missing"), None);
}

#[tokio::test]
async fn what_no_handler_sees_is_refused_as_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let socket = Socket::bind(&path).unwrap();
    let named = async |UriPath(name): UriPath<String>| name;
    let body = async |Json(_): Json<u8>| "";
    let routes = Router::new()
        .route("/v1/vips/{name}", get(named))
        .route("/v1/things", post(body));
    let _serving = socket.serve(routes);
    for (method, uri) in [
        (Method::GET, "/v1/vips/%ff%fe"),
        (Method::POST, "/v1/things"),
    ] {
        let (status, body) = ask(&path, method, uri).await;
        assert!(status.is_client_error(), "{uri}: {status}");
        assert_eq!(body["kind"], "Problem", "{uri}: {body}");
        assert_eq!(body["code"], "KEDGE-API-0001");
        assert!(!body["evidence"][0].as_str().unwrap().is_empty(), "{body}");
    }
}

/// What is thrown at the socket and the beginning of what it may answer.
const GARBAGE: &[(&[u8], &str)] = &[
    (&[0; 100_000], "HTTP/1.1 400"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP/1.1 400"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""),
    (b"GET /v1/status\r\n", "HTTP/1.1 400"),
    (b"GET http://[::1/x HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 400"),
    (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404"),
    (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404"),
    (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404"),
    (b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", "HTTP/1.1 400"),
    (
        b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 400",
    ),
    (
        b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\nabc",
        "HTTP/1.1 404",
    ),
    (
        b"POST /v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        "HTTP/1.1 404",
    ),
];

#[tokio::test]
async fn garbage_is_refused_and_the_next_question_is_answered() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let socket = Socket::bind(&path).unwrap();
    let tunnels = get(async || Answer(kedge_control::local::TunnelList::default()));
    let routes = Router::new().route("/v1/tunnels", tunnels);
    let _serving = socket.serve(routes);
    let long_line = [b"GET /", &[b'a'; 1_000_000][..], b" HTTP/1.1\r\n\r\n"].concat();
    let headers: String = (0..5_000).map(|n| format!("x{n}: y\r\n")).collect();
    let headers = format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
    let large = [
        (&long_line[..], "HTTP/1.1 431"),
        (headers.as_bytes(), "HTTP/1.1 431"),
    ];
    for (garbage, answer) in GARBAGE.iter().chain(&large) {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        // It may be refused before all of it was sent.
        let _ = stream.write_all(garbage).await;
        let mut read = [0; 64];
        let length = stream.read(&mut read).await.unwrap_or(0);
        let said = String::from_utf8_lossy(&read[..length]);
        let shown = String::from_utf8_lossy(&garbage[..garbage.len().min(60)]);
        assert!(said.starts_with(answer), "{shown}: {said}");
        assert!(!said.starts_with("HTTP/1.1 2"), "{shown}: {said}");
    }
    let (status, _) = ask(&path, Method::GET, "/v1/tunnels").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_crowd_that_says_nothing_is_shown_out() {
    use tokio::io::AsyncReadExt as _;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let idle = Duration::from_millis(200);
    let bounded = Bounded::new(listener, 2, idle);
    let routes = Router::new().route("/v1/x", get(async || Json(1)));
    let server = tokio::spawn(async move { axum::serve(bounded, routes).await });
    let mut crowd = Vec::new();
    for _ in 0..4 {
        crowd.push(tokio::net::UnixStream::connect(&path).await.unwrap());
    }
    let (status, _) =
        tokio::time::timeout(Duration::from_secs(20), ask(&path, Method::GET, "/v1/x"))
            .await
            .unwrap();
    assert_eq!(status, StatusCode::OK, "after those in front have gone");
    for silent in &mut crowd {
        let mut byte = [0; 8];
        let gone = tokio::time::timeout(Duration::from_secs(20), silent.read(&mut byte)).await;
        assert_eq!(gone.expect("nobody waits for ever").unwrap_or(0), 0);
    }
    server.abort();
}
