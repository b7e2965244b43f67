//! The answering side.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kedge_tunnel_proto::echo::{Message, PORT};
use tokio::{net::UdpSocket, task::JoinSet};
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
        let (answered, ignored) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        for address in addresses {
            let socket = bind(*address, PORT)?;
            tasks.spawn(answer(socket, Arc::clone(&answered), Arc::clone(&ignored)));
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

async fn answer(socket: UdpSocket, answered: Arc<AtomicU64>, ignored: Arc<AtomicU64>) {
    let mut buffer = [0; 64];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) => {
                let counter = if reply(&socket, &buffer, length, from) {
                    &answered
                } else {
                    &ignored
                };
                counter.fetch_add(1, Ordering::Relaxed);
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
