use axum::routing::{get, post};
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, body::Bytes};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use super::*;

async fn ask(path: &Path, method: &str, uri: &str) -> (StatusCode, serde_json::Value) {
    let stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let _task = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("host", "localhost")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
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
            post(async |RequireRoot(peer): RequireRoot| {
                Failure(Problem::new(
                    Code::VipUnknown,
                    format!("pid {}", peer.pid.unwrap()),
                ))
            }),
        );
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(socket.serve(routes, async {
        let _ = stopped.await;
    }));

    let (status, body) = ask(&path, "GET", "/v1/tunnels").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["kind"], "TunnelList");
    let (status, body) = ask(&path, "POST", "/v1/reload").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "tests run as root");
    assert_eq!(body["what"], format!("pid {}", std::process::id()));
    let (status, body) = ask(&path, "GET", "/v1/nothing").await;
    assert_eq!(
        (status, body["kind"].as_str()),
        (StatusCode::NOT_FOUND, Some("Problem"))
    );
    let (status, _) = ask(&path, "DELETE", "/v1/tunnels").await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let error = Socket::bind(&path).unwrap_err();
    assert_eq!(error.problem().code, Code::HostSocketInUse);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
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

#[tokio::test]
async fn a_peer_that_is_not_root_may_not_change_anything() {
    let (mut parts, ()) = Request::new(()).into_parts();
    let peer = Peer {
        uid: Some(1000),
        pid: None,
    };
    parts.extensions.insert(ConnectInfo(peer));
    let Failure(problem) = RequireRoot::from_request_parts(&mut parts, &())
        .await
        .unwrap_err();
    assert_eq!(problem.code, Code::HostSocketPermission);
    parts.extensions.remove::<ConnectInfo<Peer>>();
    assert!(
        RequireRoot::from_request_parts(&mut parts, &())
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
