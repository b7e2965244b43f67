//! One TCP connection, carried by a task of its own.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use kedge_vip_proto::{bgp::DialError, wire::nd::router::Message};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};

use super::BgpSpec;

/// What tasks tell the shell. Each connection has a number that no other one has.
#[derive(Debug)]
pub(super) enum Report {
    /// A call came to an end.
    Dialed(u64, Result<TcpStream, DialError>),
    /// Somebody called.
    Called(TcpStream, SocketAddr),
    /// Bytes came.
    Bytes(u64, Vec<u8>),
    /// The other side took something; `true`: all of it.
    Written(u64, bool),
    /// The connection is gone.
    Gone(u64),
    /// A router of a link, or somebody who looks for one, said something.
    Router(u64, Ipv6Addr, Message),
}

/// A connection, as the shell holds it. What is dropped is closed, after all that was sent on it.
#[derive(Debug)]
pub(super) struct Connection {
    pub number: u64,
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// What came and is no whole message yet.
    pub buffer: Vec<u8>,
    send: mpsc::Sender<Vec<u8>>,
    /// Gone with this, which is how its task learns that it is closed.
    _held: oneshot::Sender<Infallible>,
}

/// What connections hold while they have something to say, and while they are there: whoever is the last one
/// out waits for both.
#[derive(Clone, Debug)]
pub(super) struct Present {
    says: mpsc::Sender<Infallible>,
    open: mpsc::Sender<Infallible>,
}

/// The end of everything that was [present](Present).
#[derive(Debug)]
pub(super) struct Parting {
    says: mpsc::Receiver<Infallible>,
    open: mpsc::Receiver<Infallible>,
}

impl Present {
    pub(super) fn new() -> (Self, Parting) {
        let (says, silent) = mpsc::channel(1);
        let (open, closed) = mpsc::channel(1);
        let parting = Parting {
            says: silent,
            open: closed,
        };
        (Self { says, open }, parting)
    }
}

impl Parting {
    /// Waits until every connection has handed over to the kernel what it had to say.
    pub(super) async fn is_said(&mut self) {
        let _: Option<Infallible> = self.says.recv().await;
    }

    /// Waits until every connection is closed by both sides, or has waited long enough.
    pub(super) async fn is_closed(&mut self) {
        let _: Option<Infallible> = self.open.recv().await;
    }
}

impl Connection {
    /// Carries a stream.
    pub(super) fn carry(
        number: u64,
        stream: TcpStream,
        reports: mpsc::Sender<Report>,
        present: Present,
    ) -> Self {
        let (send, orders) = mpsc::channel(QUEUE);
        let (held, closing) = oneshot::channel();
        let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
        let carrier = Carrier {
            number,
            orders,
            closing,
            reports,
            present,
        };
        tokio::spawn(carrier.run(stream));
        Self {
            number,
            ends,
            buffer: Vec::new(),
            send,
            _held: held,
        }
    }

    /// Sends whole messages; `false` if so much waits already that nobody is there to take it.
    pub(super) fn send(&self, bytes: Vec<u8>) -> bool {
        self.send.try_send(bytes).is_ok()
    }
}

/// Calls a neighbour.
pub(super) fn dial(
    number: u64,
    spec: &BgpSpec,
    peer: IpAddr,
    reports: mpsc::Sender<Report>,
) -> AbortHandle {
    let prepared = kedge_net::bgp::call(&spec.way(peer));
    let task = tokio::spawn(async move {
        let outcome = match prepared {
            Ok((stream, to)) => {
                let socket = TcpSocket::from_std_stream(stream);
                socket.connect(to).await.map_err(|error| why(&error))
            }
            Err(kedge_net::bgp::BgpError::Refused { source }) => Err(why(&source)),
            Err(
                kedge_net::bgp::BgpError::NoInterface { .. }
                | kedge_net::bgp::BgpError::NoSource { .. },
            ) => Err(DialError::NoSource),
            Err(kedge_net::bgp::BgpError::Unsigned { .. }) => Err(DialError::Unsigned),
            Err(kedge_net::bgp::BgpError::PortInUse { .. }) => Err(DialError::Other),
        };
        // The shell may be gone.
        let _ = reports.send(Report::Dialed(number, outcome)).await;
    });
    task.abort_handle()
}

fn why(error: &io::Error) -> DialError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => DialError::Refused,
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            DialError::Unreachable
        }
        io::ErrorKind::TimedOut => DialError::TimedOut,
        io::ErrorKind::AddrNotAvailable => DialError::NoSource,
        _ => DialError::Other,
    }
}

/// The task of a connection.
struct Carrier {
    number: u64,
    orders: mpsc::Receiver<Vec<u8>>,
    closing: oneshot::Receiver<Infallible>,
    reports: mpsc::Sender<Report>,
    present: Present,
}

impl Carrier {
    async fn run(mut self, mut stream: TcpStream) {
        let number = self.number;
        let (mut read, mut write) = stream.split();
        let mut buffer = vec![0; BUFFER];
        let mut pending: Vec<u8> = Vec::new();
        loop {
            let report = tokio::select! {
                _ = &mut self.closing => break,
                count = read.read(&mut buffer) => match count {
                    Ok(count) if count > 0 => {
                        Report::Bytes(number, buffer.get(..count).unwrap_or_default().to_vec())
                    }
                    Ok(_) | Err(_) => Report::Gone(number),
                },
                order = self.orders.recv(), if pending.is_empty() => match order {
                    Some(bytes) => {
                        pending = bytes;
                        continue;
                    }
                    None => break,
                },
                count = write.write(&pending), if !pending.is_empty() => match count {
                    Ok(count) => {
                        pending.drain(..count);
                        let is_all = pending.is_empty() && self.orders.is_empty();
                        Report::Written(number, is_all)
                    }
                    Err(_) => Report::Gone(number),
                },
            };
            let is_over = matches!(report, Report::Gone(_));
            if self.reports.send(report).await.is_err() || is_over {
                return;
            }
        }
        // What was sent before it was closed is still to be said.
        while let Some(bytes) = self.orders.recv().await {
            pending.extend(bytes);
        }
        let Present { says, open } = self.present;
        let say = async move {
            if write.write_all(&pending).await.is_ok() {
                // Its end stands behind it.
                let _ = write.shutdown().await;
            }
            drop(says);
        };
        // All that comes is taken until the other side closes, too. A connection that is closed with
        // something unread, or that something comes to afterwards, is reset by the kernel, and what was said
        // last is lost.
        let hear = async { while read.read(&mut buffer).await.is_ok_and(|count| count > 0) {} };
        let _ = timeout(GOODBYE, async { tokio::join!(say, hear) }).await;
        drop(open);
    }
}

/// Messages that wait for the other side.
const QUEUE: usize = 64;
/// Bytes that are read in one go.
const BUFFER: usize = 16 * 1024;
/// How long the other side may take to hear the last word and to close, too.
pub(super) const GOODBYE: Duration = Duration::from_secs(1);
