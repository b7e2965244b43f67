//! Where hosts and gateways hear each other: inside the tunnel, and nowhere else.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use kedge_tunnel_proto::direct::MEETING_PORT;
use tokio::{net::UdpSocket, sync::mpsc, task::JoinSet};
use tracing::trace;

use crate::echo::EchoError;

/// Sockets on overlay addresses, on the tunnel's interface alone; what is heard goes into a queue.
#[derive(Debug)]
pub struct Sockets {
    all: Vec<(IpAddr, Arc<UdpSocket>)>,
    // Dropping the set ends the tasks.
    _tasks: JoinSet<()>,
}

/// A datagram, and from whom.
pub type Heard = (IpAddr, Vec<u8>);

impl Sockets {
    /// Listens on each of `addresses`.
    ///
    /// # Errors
    ///
    /// An address is not on this host or the port is taken.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn open(
        ifname: &str,
        addresses: &[IpAddr],
        heard: &mpsc::Sender<Heard>,
    ) -> Result<Self, EchoError> {
        let mut tasks = JoinSet::new();
        let mut all = Vec::new();
        for address in addresses {
            let port = MEETING_PORT;
            let open = || {
                let socket = std::net::UdpSocket::bind((*address, port))?;
                socket.set_nonblocking(true)?;
                let socket = UdpSocket::from_std(socket)?;
                socket.bind_device(Some(ifname.as_bytes()))?;
                Ok(Arc::new(socket))
            };
            let socket = open().map_err(|source| EchoError {
                address: *address,
                port,
                source,
            })?;
            tasks.spawn(listen(Arc::clone(&socket), heard.clone()));
            all.push((*address, socket));
        }
        Ok(Self { all, _tasks: tasks })
    }

    /// Sends a datagram from one overlay address to another's meeting port. What is lost is sent again
    /// sooner or later.
    pub fn send(&self, (from, to): (IpAddr, IpAddr), bytes: &[u8]) {
        let socket = self.all.iter().find(|(address, _)| *address == from);
        let to = SocketAddr::new(to, MEETING_PORT);
        if let Some(Err(error)) = socket.map(|(_, socket)| socket.try_send_to(bytes, to)) {
            let error = &error as &dyn std::error::Error;
            trace!(%to, error, "not sent");
        }
    }
}

async fn listen(socket: Arc<UdpSocket>, heard: mpsc::Sender<Heard>) {
    let mut buffer = [0; BUFFER];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) if from.port() == MEETING_PORT => {
                let bytes = buffer.get(..length).unwrap_or_default().to_vec();
                if heard.send((from.ip(), bytes)).await.is_err() {
                    return;
                }
            }
            Ok(_) => {}
            // An ICMP error for something sent earlier. The pause keeps a kernel that goes on refusing
            // from taking a core.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

const BUFFER: usize = 2048;
