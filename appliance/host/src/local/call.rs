//! One request to a control socket, from the other end.

use std::{error::Error, io, path::Path};

use axum::http;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// What came back, good or bad.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The socket cannot be opened.
    #[error("nobody is reached")]
    Unreachable(#[source] io::Error),
    /// The route is none.
    #[error("the request cannot be written")]
    Request(#[source] http::Error),
    /// Whoever is there does not speak HTTP, or stopped in the middle.
    #[error("the connection broke off")]
    Broken(#[source] Box<dyn Error + Send + Sync>),
}

/// Asks whoever serves the socket. It waits for an answer as long as the caller does.
///
/// # Errors
///
/// There is no answer; one that refuses is an answer.
pub async fn call(
    socket: &Path,
    method: Method,
    route: &str,
    body: Vec<u8>,
) -> Result<Reply, CallError> {
    let broken = |error: hyper::Error| CallError::Broken(error.into());
    let stream = UnixStream::connect(socket)
        .await
        .map_err(CallError::Unreachable)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let driver = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(route)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::<Bytes>::from(body))
        .map_err(CallError::Request)?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_AT_MOST)
        .collect()
        .await
        .map_err(CallError::Broken)?
        .to_bytes();
    driver.abort();
    Ok(Reply { status, body })
}

impl Reply {
    /// The body as JSON, whatever it says.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
    }
}

const ANSWER_AT_MOST: usize = 64 * 1024 * 1024;
