#![allow(clippy::unwrap_used, reason = "test code")]

use std::net::SocketAddr;

use axum::{Router, http::HeaderMap, response::Redirect, routing::get as route};
use tokio::net::TcpListener;

use super::*;

async fn serve(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

fn routes() -> Router {
    Router::new()
        .route(
            "/file",
            route(|headers: HeaderMap| async move {
                headers
                    .get(header::HOST)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            }),
        )
        .route("/moved", route(|| async { Redirect::to("/file") }))
        .route("/round", route(|| async { Redirect::to("/round") }))
        .route("/large", route(|| async { vec![0_u8; 2_000] }))
        .route("/silent", route(std::future::pending::<()>))
}

async fn get_at(address: SocketAddr, path: &str) -> Result<Bytes, DownloadError> {
    let within = Duration::from_millis(500);
    get(&format!("http://{address}{path}"), 1_000, within).await
}

#[tokio::test]
async fn a_file_is_had_also_where_the_server_leads_somewhere_else() {
    let address = serve(routes()).await;
    for path in ["/file", "/moved"] {
        let file = get_at(address, path).await.unwrap();
        assert_eq!(file, address.to_string().as_bytes(), "{path}");
    }
}

#[tokio::test]
async fn what_is_not_there_or_too_large_or_too_slow_or_leads_in_circles_is_an_error() {
    let address = serve(routes()).await;
    let error = |path| async move { get_at(address, path).await.unwrap_err() };
    assert!(matches!(error("/absent").await, DownloadError::Status(status) if status == 404));
    assert!(matches!(
        error("/large").await,
        DownloadError::Length(1_000)
    ));
    assert!(matches!(error("/round").await, DownloadError::Redirects));
    assert!(matches!(error("/silent").await, DownloadError::Slow(_)));
    let nobody = get("http://127.0.0.1:1/", 1, Duration::from_secs(1)).await;
    assert!(matches!(nobody, Err(DownloadError::Connect(..))));
    let other = get("ftp://127.0.0.1/", 1, Duration::from_secs(1)).await;
    assert!(matches!(other, Err(DownloadError::Address(_))));
}

#[test]
fn an_answer_leads_to_another_place_or_to_another_path() {
    let from: Uri = "https://one.example/a/b?c".parse().unwrap();
    assert_eq!(led(&from, "/d?e").unwrap(), "https://one.example/d?e");
    assert_eq!(
        led(&from, "http://two.example/").unwrap(),
        "http://two.example/"
    );
}
