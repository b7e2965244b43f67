//! Files from a web server, whole and in memory: small ones, which whoever asks verifies by their signature.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Request, StatusCode, Uri,
    body::Incoming,
    client::conn::http1,
    header,
    http::uri::{InvalidUri, Scheme},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{InvalidDnsNameError, ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// A file could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// It is no address of a web server.
    #[error("{0} is no http or https address")]
    Address(String),
    /// Not an address at all.
    #[error("the address cannot be read")]
    Malformed(#[from] InvalidUri),
    /// The server's name is none.
    #[error("the server's name cannot be one")]
    Name(#[from] InvalidDnsNameError),
    /// Nobody is there, or the connection broke.
    #[error("{0} cannot be reached")]
    Connect(String, #[source] io::Error),
    /// What was spoken was not HTTP.
    #[error("the exchange of requests failed")]
    Http(#[from] hyper::Error),
    /// A request that cannot be made.
    #[error("the request cannot be made")]
    Request(#[from] hyper::http::Error),
    /// The server has something else to say.
    #[error("the server answers {0}")]
    Status(StatusCode),
    /// It leads from one place to the next, or to none.
    #[error("the server leads somewhere else too often")]
    Redirects,
    /// From a place that is encrypted to one that is not.
    #[error("the server leads to {0}, which is not encrypted")]
    Downgraded(String),
    /// More than there may be.
    #[error("it has more than {0} bytes, or broke off")]
    Length(usize),
    /// It took too long.
    #[error("it took longer than {0:?}")]
    Slow(Duration),
}

/// The file at this address, up to that many bytes, within that time.
///
/// Certificates are those that this host trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others).
///
/// # Errors
///
/// See [`DownloadError`].
pub async fn get(address: &str, at_most: usize, within: Duration) -> Result<Bytes, DownloadError> {
    match timeout(within, follow(address, at_most)).await {
        Ok(done) => done,
        Err(_) => Err(DownloadError::Slow(within)),
    }
}

async fn follow(address: &str, at_most: usize) -> Result<Bytes, DownloadError> {
    let mut place: Uri = address.parse()?;
    for _ in 0..=REDIRECTS {
        let response = ask(&place).await?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION);
            let to = to.and_then(|it| it.to_str().ok());
            let next = led(&place, to.ok_or(DownloadError::Redirects)?)?;
            if place.scheme() == Some(&Scheme::HTTPS) && next.scheme() != Some(&Scheme::HTTPS) {
                return Err(DownloadError::Downgraded(next.to_string()));
            }
            place = next;
            continue;
        }
        if !status.is_success() {
            return Err(DownloadError::Status(status));
        }
        let body = Limited::new(response.into_body(), at_most).collect().await;
        return Ok(body.map_err(|_| DownloadError::Length(at_most))?.to_bytes());
    }
    Err(DownloadError::Redirects)
}

async fn ask(place: &Uri) -> Result<hyper::Response<Incoming>, DownloadError> {
    let address = || DownloadError::Address(place.to_string());
    let authority = place.authority().ok_or_else(address)?;
    let secure = match place.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(address()),
    };
    let port = authority
        .port_u16()
        .unwrap_or(if secure { 443 } else { 80 });
    // An IPv6 address stands in brackets there, and nowhere else.
    let host = authority.host().trim_matches(['[', ']']);
    let unreachable = |error| DownloadError::Connect(authority.to_string(), error);
    let tcp = TcpStream::connect((host, port))
        .await
        .map_err(unreachable)?;
    let path = place.path_and_query().map_or("/", |it| it.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority.as_str())
        .header(
            header::USER_AGENT,
            concat!("kedge/", env!("CARGO_PKG_VERSION")),
        )
        .body(Empty::new())?;
    if !secure {
        return exchange(tcp, request).await;
    }
    let name = ServerName::try_from(host.to_owned())?;
    let tls = TlsConnector::from(trust())
        .connect(name, tcp)
        .await
        .map_err(unreachable)?;
    exchange(tls, request).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Empty<Bytes>>,
) -> Result<hyper::Response<Incoming>, DownloadError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer, or with the runtime.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a web server ended");
        }
    });
    Ok(sender.send_request(request).await?)
}

/// Where an answer leads: another address, or another path at the same place.
fn led(from: &Uri, to: &str) -> Result<Uri, DownloadError> {
    if !to.starts_with('/') {
        return Ok(to.parse()?);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(to.parse()?);
    Uri::from_parts(parts).map_err(|error| DownloadError::Request(error.into()))
}

fn trust() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // A host that trusts nobody is told so by the handshake.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder().with_root_certificates(roots);
    Arc::new(config.with_no_client_auth())
}

/// As many as servers of releases need, and a few more.
const REDIRECTS: usize = 5;

#[cfg(test)]
mod tests;
