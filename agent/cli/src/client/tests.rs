use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixListener,
    thread,
};

use kedge_control::local::{TunnelList, VipList};

use super::*;

/// A role that gives one answer, byte by byte as told.
fn role(answer: String) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        if answer.is_empty() {
            // Says nothing until the client gives up.
            let _ = stream.read(&mut request);
        }
    });
    (dir, path)
}

fn http(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn ask(path: &Path) -> Result<Answer<VipList>, Failure> {
    Client::of_path(path, Duration::from_millis(300)).get("/v1/vips")
}

#[test]
fn a_document_is_understood_and_kept_whole() {
    let body = r#"{"apiVersion":"cli.kedge.dev/v1","kind":"VIPList","items":[],"newer":1}"#;
    let (_dir, path) = role(http("200 OK", body));
    let answer = ask(&path).unwrap();
    assert_eq!(answer.body.items.len(), 0);
    assert_eq!(answer.raw["newer"], 1);
}

#[test]
fn every_way_to_fail_has_its_exit_code() {
    let problem = r#"{"apiVersion":"cli.kedge.dev/v1","kind":"Problem","code":"KEDGE-VIP-0010","severity":"error","what":"no VIP"}"#;
    let newer = r#"{"apiVersion":"cli.kedge.dev/v2","kind":"VIPList","items":[]}"#;
    let other = r#"{"apiVersion":"cli.kedge.dev/v1","kind":"TunnelList","items":[]}"#;
    for (answer, exit, code) in [
        (
            http("404 Not Found", problem),
            Exit::Failure,
            Code::VipUnknown,
        ),
        (
            http("200 OK", newer),
            Exit::VersionSkew,
            Code::SysVersionSkew,
        ),
        (
            http("200 OK", other),
            Exit::VersionSkew,
            Code::SysVersionSkew,
        ),
        (
            http("200 OK", "hello"),
            Exit::VersionSkew,
            Code::SysVersionSkew,
        ),
        (String::new(), Exit::TimedOut, Code::HostNotRunning),
        ("junk".to_owned(), Exit::NotRunning, Code::HostNotRunning),
    ] {
        let (_dir, path) = role(answer.clone());
        let failure = ask(&path).unwrap_err();
        assert_eq!(
            (failure.exit, failure.problem.code),
            (exit, code),
            "{answer}"
        );
    }
}

#[test]
fn a_role_that_does_not_run_is_not_reached() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let client = Client::of_role(&root, Role::Gateway, Duration::from_secs(1));
    let failure = client.get::<TunnelList>("/v1/tunnels").unwrap_err();
    assert_eq!(failure.exit, Exit::NotRunning);
    assert!(failure.problem.what.contains("the gateway is not running"));

    let stale = dir.path().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    assert_eq!(ask(&stale).unwrap_err().exit, Exit::NotRunning);
}

#[test]
fn a_closed_socket_is_a_matter_of_permission() {
    let error = io::Error::from(io::ErrorKind::PermissionDenied);
    let failure = Client::of_path(Path::new("/run/x.sock"), Duration::ZERO).unreachable(&error);
    assert_eq!(failure.exit, Exit::Permission);
}
