//! Accepts TLS connections and serves the routes on them.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use kedge_control::enrol::EXPORTER_LABEL;
use kedge_core::{Code, Fix, Problem};
use rustls_pki_types::CertificateDer;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use tracing::debug;

use super::seats::Seats;

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
        .fix(match error.kind() {
            io::ErrorKind::AddrNotAvailable => {
                Fix::text("set `listen` to an address of this machine").command("ip -br address")
            }
            _ => Fix::text("stop what uses the port, or set `listen` to another one")
                .command("ss -ltnp"),
        })
    })
}

/// Serves connections, for good.
///
/// Whoever shows no certificate of ours shares few places with all others of that kind and keeps
/// none for long, so that strangers never take the places of members.
pub async fn serve(listener: TcpListener, tls: rustls::ServerConfig, router: Router) {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let strangers = Arc::new(Semaphore::new(MAX_STRANGERS));
    let seats = Arc::new(Seats::new(MAX_MEMBERS, MAX_PER_MEMBER));
    loop {
        let Ok(place) = Arc::clone(&strangers).acquire_owned().await else {
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
        let (acceptor, router, seats) = (acceptor.clone(), router.clone(), Arc::clone(&seats));
        tokio::spawn(async move {
            if let Err(error) = connection(acceptor, stream, address, router, (place, seats)).await
            {
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
    (place, seats): (OwnedSemaphorePermit, Arc<Seats>),
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
    let seat = connection
        .certificate
        .as_ref()
        .map(|der| seats.take(public_key(der)));
    let idle = if seat.is_some() { IDLE } else { STRANGER };
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&connection));
        let mut router = router.clone();
        async move { router.call(request).await }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_headers(32)
        .serve_connection(TokioIo::new(stream), service);
    let serving = pin!(serving);
    let Some(seat) = seat else {
        timeout(STRANGER, serving)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        return Ok(());
    };
    drop(place);
    let mut seat = seat.ok_or_else(|| io::Error::other("every place for members is taken"))?;
    tokio::select! {
        served = serving => served?,
        () = seat.is_wanted() => debug!(%address, "a member opened newer connections"),
    }
    Ok(())
}

/// What stays the same in every certificate of one identity.
fn public_key<'a>(certificate: &'a CertificateDer<'_>) -> &'a [u8] {
    x509_parser::parse_x509_certificate(certificate).map_or(certificate, |(_, parsed)| {
        parsed.tbs_certificate.subject_pki.raw
    })
}

const MAX_STRANGERS: usize = 1024;
const MAX_MEMBERS: usize = 8192;
/// A client has two connections, and a third while it renews; some more may be dead without
/// anybody having noticed.
const MAX_PER_MEMBER: usize = 8;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection without a certificate may last: enrolment is one request.
const STRANGER: Duration = Duration::from_secs(60);
/// A member reports every ten seconds.
const IDLE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);
