//! One TCP connection, carried by a task of its own.

use std::{io, net::SocketAddr, time::Duration};

use kedge_vip_proto::bgp::DialError;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
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
}

/// A connection, as the shell holds it. What is dropped is closed, after all that was sent on it.
#[derive(Debug)]
pub(super) struct Connection {
    pub number: u64,
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// What came and is no whole message yet.
    pub buffer: Vec<u8>,
    send: mpsc::Sender<Vec<u8>>,
}

impl Connection {
    /// Carries a stream.
    pub(super) fn carry(number: u64, stream: TcpStream, reports: mpsc::Sender<Report>) -> Self {
        let (send, orders) = mpsc::channel(QUEUE);
        let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
        tokio::spawn(carry(number, stream, orders, reports));
        Self {
            number,
            ends,
            buffer: Vec::new(),
            send,
        }
    }

    /// Sends whole messages; `false` if so much waits already that nobody is there to take it.
    pub(super) fn send(&self, bytes: Vec<u8>) -> bool {
        self.send.try_send(bytes).is_ok()
    }
}

/// Calls a neighbour.
pub(super) fn dial(number: u64, spec: &BgpSpec, reports: mpsc::Sender<Report>) -> AbortHandle {
    let prepared = kedge_net::bgp::call(&spec.way());
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

async fn carry(
    number: u64,
    mut stream: TcpStream,
    mut orders: mpsc::Receiver<Vec<u8>>,
    reports: mpsc::Sender<Report>,
) {
    let (mut read, mut write) = stream.split();
    let mut buffer = vec![0; BUFFER];
    let mut pending: Vec<u8> = Vec::new();
    loop {
        let report = tokio::select! {
            count = read.read(&mut buffer) => match count {
                Ok(count) if count > 0 => {
                    Report::Bytes(number, buffer.get(..count).unwrap_or_default().to_vec())
                }
                Ok(_) | Err(_) => Report::Gone(number),
            },
            order = orders.recv(), if pending.is_empty() => match order {
                Some(bytes) => {
                    pending = bytes;
                    continue;
                }
                None => break,
            },
            count = write.write(&pending), if !pending.is_empty() => match count {
                Ok(count) => {
                    pending.drain(..count);
                    Report::Written(number, pending.is_empty() && orders.is_empty())
                }
                Err(_) => Report::Gone(number),
            },
        };
        let is_over = matches!(report, Report::Gone(_));
        if reports.send(report).await.is_err() || is_over {
            return;
        }
    }
    // The last word is read only if nothing unread makes the kernel reset the connection.
    let _ = timeout(GOODBYE, async {
        if write.shutdown().await.is_ok() {
            while read.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
        }
    })
    .await;
}

/// Messages that wait for the other side.
const QUEUE: usize = 64;
/// Bytes that are read in one go.
const BUFFER: usize = 16 * 1024;
/// How long the other side may take to close what we closed.
const GOODBYE: Duration = Duration::from_secs(1);
