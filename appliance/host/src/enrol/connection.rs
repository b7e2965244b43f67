//! One HTTP connection over TLS: the proof holds on the connection it was made for, so nothing
//! may re-dial between exporter and request.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    client::conn::http1::{self, SendRequest},
    header::{self, HeaderMap},
};
use hyper_util::rt::TokioIo;
use kedge_control::{enrol::EXPORTER_LABEL, identity::MANAGER_NAME};
use kedge_core::Problem;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde::de::DeserializeOwned;
use tokio::{
    net::TcpStream,
    sync::{Mutex, MutexGuard},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{ClientError, ManagerUrl};

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    url: ManagerUrl,
    sender: SendRequest<Full<Bytes>>,
    /// What binds a proof to this connection.
    pub(super) exporter: [u8; 32],
    // Ends the task that drives the connection.
    driver: tokio::task::JoinHandle<()>,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
}

impl Connection {
    /// Connects to the manager.
    pub(super) async fn open(
        url: &ManagerUrl,
        config: Arc<ClientConfig>,
        limit: Duration,
    ) -> Result<Self, ClientError> {
        match timeout(limit, Self::dial(url, config)).await {
            Ok(result) => result,
            Err(_) => Err(ClientError::silent(url, limit)),
        }
    }

    async fn dial(url: &ManagerUrl, config: Arc<ClientConfig>) -> Result<Self, ClientError> {
        let unreachable = |error| ClientError::unreachable(url, error);
        let tcp = TcpStream::connect((url.host(), url.port()))
            .await
            .map_err(unreachable)?;
        tcp.set_nodelay(true).map_err(unreachable)?;
        let name = ServerName::try_from(MANAGER_NAME)
            .map_err(|_| ClientError::Protocol("the manager's name"))?;
        let tls = TlsConnector::from(config)
            .connect(name, tcp)
            .await
            .map_err(|error| ClientError::tls(url, error))?;
        let exporter = tls
            .get_ref()
            .1
            .export_keying_material([0; 32], EXPORTER_LABEL, None)
            .map_err(|error| ClientError::internal("bind the proof", error))?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(64 * 1024)
            .handshake(TokioIo::new(tls))
            .await
            .map_err(|error| ClientError::http(url, error))?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "the connection to the manager ended"
                );
            }
        });
        Ok(Self {
            url: url.clone(),
            sender,
            exporter,
            driver,
        })
    }

    /// One request and its answer.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        etag: Option<u64>,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Answer, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, MANAGER_NAME)
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, JSON);
        if let Some(generation) = etag {
            request = request.header(header::IF_NONE_MATCH, format!("\"{generation}\""));
        }
        let request = request
            .body(Full::from(body))
            .map_err(|error| ClientError::internal("build a request", error))?;
        match timeout(limit, self.exchange(request)).await {
            Ok(result) => result,
            Err(_) => Err(ClientError::silent(&self.url, limit)),
        }
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
        let failed = |error| ClientError::http(&self.url, error);
        self.sender.ready().await.map_err(failed)?;
        let response = self.sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let body = Limited::new(response.into_body(), ANSWER_AT_MOST)
            .collect()
            .await
            .map_err(|error| ClientError::body(&self.url, error))?
            .to_bytes();
        Ok(Answer {
            status,
            retry_after,
            body,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Answer {
    /// The answer, if the manager did what was asked.
    pub(super) fn success(self, url: &ManagerUrl) -> Result<Self, ClientError> {
        if self.status.is_success() || self.status == StatusCode::NOT_MODIFIED {
            return Ok(self);
        }
        Err(ClientError::Refused {
            url: url.clone(),
            status: self.status.as_u16(),
            retry_after: self.retry_after,
            // Another server on that port answers something else.
            problem: serde_json::from_slice::<Problem>(&self.body)
                .ok()
                .map(Box::new),
        })
    }

    /// The answer's body.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::internal("read the manager's answer", error))
    }
}

/// A place for one connection that is kept between requests.
#[derive(Debug, Default)]
pub(super) struct Line(Mutex<Option<(Connection, u64)>>);

/// The line while one request uses it.
pub(super) struct Held<'a> {
    place: MutexGuard<'a, Option<(Connection, u64)>>,
    generation: u64,
}

impl Line {
    /// Waits for the line. A connection of another certificate's generation is not used again.
    pub(super) async fn hold(&self, generation: u64) -> Held<'_> {
        Held {
            place: self.0.lock().await,
            generation,
        }
    }
}

impl Held<'_> {
    /// The kept connection, if it is of use.
    pub(super) fn take(&mut self) -> Option<Connection> {
        let (connection, generation) = self.place.take()?;
        (generation == self.generation && !connection.sender.is_closed()).then_some(connection)
    }

    /// Keeps a connection for the next request.
    pub(super) fn put(&mut self, connection: Connection, generation: u64) {
        *self.place = Some((connection, generation));
    }
}

/// When to ask again, as a busy manager says it. One that says far too much is not believed: it
/// would be rid of its hosts for good.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds = Duration::from_secs(text.trim().parse().ok()?);
    Some(seconds.min(RETRY_AT_MOST))
}

const RETRY_AT_MOST: Duration = Duration::from_secs(300);
const JSON: &str = "application/json";
const ANSWER_AT_MOST: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_read_in_seconds_and_believed_up_to_a_limit() {
        let pause = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(
            (pause("0"), pause("7"), pause(" 7 ")),
            (seconds(0), seconds(7), seconds(7))
        );
        assert_eq!(pause("31536000"), seconds(300));
        for text in ["", "-1", "soon", "Sun, 22 Nov 2026 00:00:00 GMT"] {
            assert_eq!(pause(text), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
