//! Requests of the lab: to control sockets of the roles, and to the API through TLS.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Method, Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use kedge_control::Document;
use kedge_host::local::call;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// Why a request had no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody answers.
    #[error("cannot reach {whom}")]
    Unreachable {
        /// The socket or address.
        whom: String,
        /// Why not.
        source: io::Error,
    },
    /// A control socket does not answer.
    #[error("{whom} cannot be asked")]
    Socket {
        /// The socket and the route.
        whom: String,
        /// Why not.
        source: kedge_host::local::CallError,
    },
    /// The answer did not come in time.
    #[error("{0} did not answer in time")]
    Late(String),
    /// The exchange broke off.
    #[error("the exchange with {whom} broke off")]
    Broken {
        /// The socket or address.
        whom: String,
        /// How.
        source: hyper::Error,
    },
    /// The answer is longer than any of ours.
    #[error("the answer of {0} cannot be read")]
    Oversized(String),
    /// An answer with an error.
    #[error("{whom} answered {status}: {body}")]
    Refused {
        /// The socket or address.
        whom: String,
        /// The HTTP status.
        status: StatusCode,
        /// The body.
        body: String,
    },
    /// An answer that is no JSON of the kind asked for.
    #[error("the answer of {whom} is not what was asked for")]
    Content {
        /// The socket or address.
        whom: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Vec<u8>,
}

/// Reads a document from a role's control socket.
///
/// # Errors
/// When the role does not answer, or answers with an error.
pub fn read<T: DeserializeOwned>(socket: &Path, route: &str) -> Result<T, CallError> {
    let whom = format!("{}{route}", socket.display());
    let reply = block_on(&whom, async {
        call(socket, Method::GET, route, Vec::new())
            .await
            .map_err(|source| CallError::Socket {
                whom: whom.clone(),
                source,
            })
    })?;
    if !reply.status.is_success() {
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        return Err(CallError::Refused {
            whom,
            status: reply.status,
            body,
        });
    }
    let document: Document<T> = serde_json::from_slice(&reply.body)
        .map_err(|source| CallError::Content { whom, source })?;
    Ok(document.body)
}

/// Asks an HTTPS server that must show a certificate of `roots` for its address. The connection is
/// made in the namespace of the calling thread.
///
/// # Errors
/// When it cannot be reached, is not trusted or does not answer.
pub fn https(to: SocketAddr, roots: RootCertStore, path: &str) -> Result<Answer, CallError> {
    let whom = format!("https://{to}{path}");
    let unreachable = |source| CallError::Unreachable {
        whom: whom.clone(),
        source,
    };
    block_on(&whom, async {
        let stream = TcpStream::connect(to).await.map_err(unreachable)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|err| unreachable(io::Error::other(err)))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name: IpAddr = to.ip();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(ServerName::from(name), stream)
            .await
            .map_err(unreachable)?;
        exchange(&whom, stream, path, &to.to_string()).await
    })
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    whom: &str,
    stream: S,
    path: &str,
    host: &str,
) -> Result<Answer, CallError> {
    let broken = |source| CallError::Broken {
        whom: whom.to_owned(),
        source,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let driver = tokio::spawn(connection);
    let request = Request::builder()
        .uri(path)
        .header(header::HOST, host)
        .body(Empty::<Bytes>::new())
        .map_err(|_| CallError::Oversized(whom.to_owned()))?;
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST)
        .collect()
        .await
        .map_err(|_| CallError::Oversized(whom.to_owned()))?
        .to_bytes()
        .to_vec();
    driver.abort();
    Ok(Answer { status, body })
}

/// One request needs one small runtime: the lab is made of plain threads that live in namespaces.
fn block_on<A>(
    whom: &str,
    request: impl Future<Output = Result<A, CallError>>,
) -> Result<A, CallError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| CallError::Unreachable {
            whom: whom.to_owned(),
            source,
        })?;
    runtime
        .block_on(async { tokio::time::timeout(LIMIT, request).await })
        .unwrap_or_else(|_| Err(CallError::Late(whom.to_owned())))
}

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(2);

/// No answer of ours comes near.
const LARGEST: usize = 4 << 20;
