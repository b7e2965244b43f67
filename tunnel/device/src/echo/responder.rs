//! The answering side.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kedge_tunnel_proto::echo::{CLAIM_LENGTH, Claim, LENGTH, Message, PORT};
use tokio::{net::UdpSocket, sync::mpsc, task::JoinSet};
use tracing::trace;

use super::{EchoError, bind, socket_failed};

/// Answers probes on overlay addresses until dropped.
#[derive(Debug)]
pub struct Responder {
    // Dropping the set ends the tasks.
    _tasks: JoinSet<()>,
    answered: Arc<AtomicU64>,
    ignored: Arc<AtomicU64>,
}

impl Responder {
    /// Answers on each of `addresses`, port [`PORT`].
    ///
    /// # Errors
    ///
    /// An address is not on this host or the port is taken.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(addresses: &[IpAddr]) -> Result<Self, EchoError> {
        Self::open(None, addresses, None)
    }

    /// The same in the network namespace at `within`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), or there is no such namespace.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start_within(within: &Path, addresses: &[IpAddr]) -> Result<Self, EchoError> {
        Self::open(Some(within), addresses, None)
    }

    /// The same, and gives `claims` what hosts say beside their questions, and from which address. What
    /// it does not take at once comes again with the next question.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start_hearing(
        addresses: &[IpAddr],
        claims: Option<&mpsc::Sender<(IpAddr, Claim)>>,
    ) -> Result<Self, EchoError> {
        Self::open(None, addresses, claims)
    }

    fn open(
        within: Option<&Path>,
        addresses: &[IpAddr],
        claims: Option<&mpsc::Sender<(IpAddr, Claim)>>,
    ) -> Result<Self, EchoError> {
        let (answered, ignored) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        for address in addresses {
            let socket = bind(within, *address, PORT)?;
            let counters = (Arc::clone(&answered), Arc::clone(&ignored));
            tasks.spawn(answer(socket, counters, claims.cloned()));
        }
        Ok(Self {
            _tasks: tasks,
            answered,
            ignored,
        })
    }

    /// How many probes were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// How many datagrams were no probes, or could not be answered.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }
}

async fn answer(
    socket: UdpSocket,
    (answered, ignored): (Arc<AtomicU64>, Arc<AtomicU64>),
    claims: Option<mpsc::Sender<(IpAddr, Claim)>>,
) {
    let mut buffer = [0; LENGTH + CLAIM_LENGTH];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) => {
                let counter = if reply(&socket, &buffer, length, from) {
                    &answered
                } else {
                    &ignored
                };
                counter.fetch_add(1, Ordering::Relaxed);
                let claim = buffer.get(..length).and_then(|bytes| bytes.get(LENGTH..));
                if let Some((claims, claim)) = claims.as_ref().zip(claim.and_then(Claim::parse)) {
                    // A full queue: it is said again.
                    let _ = claims.try_send((from.ip(), claim));
                }
            }
            // An ICMP error for an earlier answer; the socket itself is fine. The pause keeps a
            // kernel that goes on refusing from taking a core.
            Err(err) => {
                socket_failed(&err);
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

/// Answers at once or not at all: an echo that waits measures nothing.
fn reply(socket: &UdpSocket, buffer: &[u8], length: usize, from: SocketAddr) -> bool {
    let Some(bytes) = buffer.get(..length) else {
        return false;
    };
    let Some(answer) = Message::parse(bytes).ok().and_then(Message::answer) else {
        return false;
    };
    trace!(%from, sequence = answer.sequence, "answering a probe");
    socket.try_send_to(&answer.emit(), from).is_ok()
}
