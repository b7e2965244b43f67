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
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use tracing::debug;

use super::{
    relay::{self, Opening},
    seats::Seats,
};
use crate::{
    pki::Authority,
    store::{Leadership, Store},
};

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

/// What serving needs beside the routes.
#[derive(Clone, Debug)]
pub struct House {
    /// What managers know each other by, and the time.
    pub authority: Arc<Authority>,
    /// Who leads is asked here.
    pub store: Store,
    /// Told, a moment later, when that changes.
    pub leadership: watch::Receiver<Leadership>,
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
/// none for long, so that strangers never take the places of members. What comes while another
/// manager leads is passed on to it.
pub async fn serve(listener: TcpListener, tls: rustls::ServerConfig, router: Router, house: House) {
    let carried = Arc::new(Semaphore::new(MAX_CARRIED));
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
        let (house, carried) = (house.clone(), Arc::clone(&carried));
        tokio::spawn(async move {
            let received = async {
                let (stream, address) = match receive(&house, stream, address, carried).await? {
                    Some(own) => own,
                    None => return Ok(()),
                };
                connection(acceptor, stream, address, router, (place, seats), house).await
            };
            if let Err(error) = received.await {
                debug!(error = &*error, "a connection ended");
            }
        });
    }
}

/// Takes a connection that is to be served here, with the address it came from; passes it on
/// where another manager leads.
async fn receive(
    house: &House,
    mut stream: TcpStream,
    address: SocketAddr,
    carried: Arc<Semaphore>,
) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    stream.set_nodelay(true)?;
    let (seal, now) = (house.authority.seal(), house.authority.clock().now());
    let opening = timeout(HANDSHAKE, seal.open(&mut stream, now));
    let opening = opening
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if let Opening::PassedOn(letter) = opening {
        // Never passed on again: two managers that take each other for the leader would play ball.
        return Ok(Some((stream, letter.client)));
    }
    let Leadership::Other(Some(leader)) = house.store.leadership() else {
        return Ok(Some((stream, address)));
    };
    let Ok(_room) = carried.try_acquire_owned() else {
        return Err(io::Error::other(
            "every place for other managers' members is taken",
        ));
    };
    match relay::dial(leader, address, &seal, now).await {
        Ok(mut upstream) => {
            let leadership = house.leadership.clone();
            relay::carry(&mut stream, &mut upstream, leader, leadership).await?;
            Ok(None)
        }
        Err(error) => {
            // The client is told to come again.
            debug!(error = &error as &dyn std::error::Error, %leader, "the leader is not reached");
            Ok(Some((stream, address)))
        }
    }
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    (place, seats): (OwnedSemaphorePermit, Arc<Seats>),
    house: House,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut leadership = house.leadership;
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
    let deposed = async {
        let is_me = |who: &Leadership| *who == Leadership::Me;
        let led = leadership.wait_for(is_me).await.is_ok();
        if !led || leadership.wait_for(|who| !is_me(who)).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        served = serving => served?,
        // Whoever waits here for news would not hear them.
        () = deposed => debug!(%address, "another manager leads"),
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
const MAX_MEMBERS: usize = 32_768;
const MAX_CARRIED: usize = 32_768;
/// A client has two connections, and a third while it renews; some more may be dead without
/// anybody having noticed.
const MAX_PER_MEMBER: usize = 8;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection without a certificate may last: enrolment is one request.
const STRANGER: Duration = Duration::from_secs(60);
/// A member reports every ten seconds.
const IDLE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);
