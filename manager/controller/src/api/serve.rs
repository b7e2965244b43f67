//! Accepts TLS connections and serves the routes on them.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use kedge_control::enrol::EXPORTER_LABEL;
use kedge_core::{Code, Fix, Problem};
use rustls_pki_types::CertificateDer;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use tracing::debug;

/// What routes know of the connection a request came by.
#[derive(Debug)]
pub struct Connection {
    /// The other end.
    pub address: SocketAddr,
    /// The TLS exporter, from this end: a proof made for another connection does not fit.
    pub exporter: [u8; 32],
    /// The client's certificate, verified against our CA.
    pub certificate: Option<CertificateDer<'static>>,
}

/// Opens the port.
///
/// # Errors
///
/// The address is not ours or the port is taken.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|error| {
        Problem::new(
            Code::HostSocketInUse,
            format!("the agent API cannot listen on {address}"),
        )
        .caused_by(&error)
        .consequence("the manager does not start")
        .fix(
            Fix::text("stop what uses the port, or set `listen` to another one")
                .command("ss -ltnp"),
        )
    })
}

/// Serves connections, for good.
pub async fn serve(listener: TcpListener, tls: rustls::ServerConfig, router: Router) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, say: trying again at once would burn the processor.
                debug!(
                    error = &error as &dyn std::error::Error,
                    "a connection was not accepted"
                );
                sleep(PAUSE).await;
                continue;
            }
        };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection(acceptor, stream, address, router).await {
                debug!(error = &*error, "a connection ended");
            }
        });
    }
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let stream = timeout(HANDSHAKE, acceptor.accept(stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let session = stream.get_ref().1;
    let exporter = session.export_keying_material([0; 32], EXPORTER_LABEL, None)?;
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let connection = Arc::new(Connection {
        address,
        exporter,
        certificate: certificate.cloned().map(CertificateDer::into_owned),
    });
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&connection));
        let mut router = router.clone();
        async move { router.call(request).await }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_headers(32)
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

const MAX_CONNECTIONS: usize = 8192;
const HANDSHAKE: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);
