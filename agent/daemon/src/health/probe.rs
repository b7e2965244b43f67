//! One HTTPS question, and what its answer means.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
    header::{CONNECTION, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use kedge_core::with_causes;
use kedge_host::Root;
use rustls::ClientConfig;
use rustls_pki_types::{InvalidDnsNameError, ServerName};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::trust::{self, BadTrust};
use crate::config::ProbeConfig;

/// Asks one URL, over one connection as long as that lives.
pub(crate) struct Asker {
    uri: Uri,
    limit: Duration,
    auto: bool,
    tls: Result<Arc<ClientConfig>, BadTrust>,
    connection: Option<SendRequest<Empty<Bytes>>>,
}

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Whether it speaks for the service.
    pub healthy: bool,
    /// What was seen, such as `answered 200`.
    pub what: String,
    /// How long it took.
    pub latency: Duration,
}

/// Why there was no answer. The text goes to people.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("{0}")]
    Trust(String),
    #[error("no connection: {0}")]
    Connect(#[source] io::Error),
    #[error("the TLS handshake failed: {0}")]
    Tls(#[source] io::Error),
    #[error("the name of the server cannot be asked for: {0}")]
    Name(#[from] InvalidDnsNameError),
    #[error("no request can be made: {0}")]
    Request(#[from] hyper::http::Error),
    // hyper's own words leave out what happened.
    #[error("no HTTP answer: {}", with_causes(.0))]
    Http(#[from] hyper::Error),
    #[error("no answer within {0} ms")]
    Late(u128),
}

impl Asker {
    /// Prepares the probe; a CA file that cannot be read fails each probe and says so.
    pub fn new(config: &ProbeConfig, root: &Root) -> Self {
        Self {
            uri: config.url.uri(),
            limit: config.timeout,
            auto: config.auto,
            tls: trust::client(&config.trust, root),
            connection: None,
        }
    }

    /// Asks once.
    pub async fn ask(&mut self) -> Answer {
        let start = Instant::now();
        let outcome = timeout(self.limit, self.exchange())
            .await
            .unwrap_or_else(|_| Err(NoAnswer::Late(self.limit.as_millis())));
        if outcome.is_err() {
            self.connection = None;
        }
        let (healthy, what) = match outcome {
            Ok(status) => judge(status, self.auto),
            Err(error) => (false, error.to_string()),
        };
        Answer {
            healthy,
            what,
            latency: start.elapsed(),
        }
    }

    async fn exchange(&mut self) -> Result<StatusCode, NoAnswer> {
        if let Some(connection) = self.connection.take() {
            // The server may have closed it meanwhile: only a new connection's failure counts.
            if let Ok(status) = self.send(connection).await {
                return Ok(status);
            }
        }
        let connection = self.connect().await?;
        self.send(connection).await
    }

    async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>, NoAnswer> {
        let tls = match &self.tls {
            Ok(tls) => Arc::clone(tls),
            Err(error) => return Err(NoAnswer::Trust(error.to_string())),
        };
        let host = self.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.uri.port_u16().unwrap_or(443);
        let stream = TcpStream::connect((host, port))
            .await
            .map_err(NoAnswer::Connect)?;
        // A probe's bytes must not wait for more of them.
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(host.to_owned())?;
        let stream = TlsConnector::from(tls)
            .connect(name, stream)
            .await
            .map_err(NoAnswer::Tls)?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        // Ends with the connection.
        tokio::spawn(driver);
        Ok(connection)
    }

    async fn send(
        &mut self,
        mut connection: SendRequest<Empty<Bytes>>,
    ) -> Result<StatusCode, NoAnswer> {
        connection.ready().await?;
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = self
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let request = Request::get(path)
            .header(HOST, authority)
            .header(USER_AGENT, concat!("kedge/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())?;
        let answer = connection.send_request(request).await?;
        let status = answer.status();
        let closing = answer
            .headers()
            .get(CONNECTION)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
        // The body must be read for the connection to be used again; a long one is not worth it.
        let read = Limited::new(answer.into_body(), MOST_BODY).collect().await;
        if read.is_ok() && !closing {
            self.connection = Some(connection);
        }
        Ok(status)
    }
}

/// Whether a status speaks for the service.
///
/// An API server that refuses anonymous requests (k3s and RKE2 do) answers 401 or 403 when it is
/// up: with `health: auto` that is an answer, too.
fn judge(status: StatusCode, auto: bool) -> (bool, String) {
    let what = format!("answered {}", status.as_u16());
    let refused = status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN;
    if auto && refused {
        (
            true,
            format!("{what} (it is up and refuses anonymous requests)"),
        )
    } else {
        (status == StatusCode::OK, what)
    }
}

const MOST_BODY: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    use hyper::rt::{Read, ReadBufCursor, Write};

    use super::*;

    /// A connection that breaks at once.
    struct Broken;

    impl Read for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("the wire broke")))
        }
    }

    impl Write for Broken {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_broken_connection_is_told_with_its_cause() {
        let (mut connection, driver) = handshake(Broken).await.unwrap();
        let request = Request::get("/").body(Empty::<Bytes>::new()).unwrap();
        let (answer, _) = tokio::join!(connection.send_request(request), driver);
        let told = NoAnswer::from(answer.unwrap_err()).to_string();
        assert!(told.starts_with("no HTTP answer: "), "{told}");
        assert!(told.contains("the wire broke"), "{told}");
    }

    #[test]
    fn only_200_is_healthy_unless_an_api_server_refuses_strangers() {
        for (status, auto, healthy) in [
            (200, true, true),
            (200, false, true),
            (401, true, true),
            (403, true, true),
            (401, false, false),
            (403, false, false),
            (204, false, false),
            (302, true, false),
            (404, true, false),
            (500, true, false),
            (503, false, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(judge(status, auto).0, healthy, "{status} auto: {auto}");
        }
    }
}
