//! A role's own device under the socket that tools look for. They may read it, without its keys; what
//! it is, the role's configuration says.

use std::sync::Arc;

use kedge_tunnel_proto::uapi::{
    AllowedIp, Configuration, Errno, PeerSet, Set,
    answer::{self, Secrets},
};
use tokio::{sync::Semaphore, task::JoinHandle};
use zeroize::Zeroizing;

use super::{Socket, SocketError, Tool, serving, traffic};
use crate::{
    Handle,
    device::{Control, Inner},
};

/// A role's device as tools see it, as long as this lives.
#[derive(Debug)]
pub struct Declared {
    serving: JoinHandle<()>,
    socket: Socket,
}

impl Declared {
    /// Serves the device of this interface on the current runtime; `None` for the kernel's, which
    /// tools read from the kernel.
    ///
    /// # Errors
    ///
    /// Somebody serves that socket, or its folder cannot be written.
    pub fn serve(handle: &Handle, ifname: &str) -> Result<Option<Self>, SocketError> {
        let Some(tool) = handle.engine() else {
            return Ok(None);
        };
        let socket = Socket::bind(ifname)?;
        let listener = socket.listener().map_err(|source| SocketError::Io {
            path: socket.path().to_owned(),
            source,
        })?;
        let places = Arc::new(Semaphore::new(serving::CONNECTIONS));
        let serving = tokio::spawn(async move {
            loop {
                serving::admit(&listener, &places, &tool).await;
            }
        });
        Ok(Some(Self { serving, socket }))
    }

    /// Whether tools still find it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.socket.is_there()
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Tool for Inner {
    fn get(&self) -> Zeroizing<String> {
        let port = self.device_stats().listen_port;
        let mut control = self.control();
        let Control {
            directory,
            handshakes,
            ..
        } = &mut *control;
        let peers = directory.entries().map(|entry| {
            let spec = &entry.spec;
            let seconds = spec.keepalive.map_or(0, |keepalive| keepalive.as_secs());
            let allowed = spec.allowed_ips.iter().map(|prefix| AllowedIp {
                prefix: prefix.trunc(),
                remove: false,
            });
            let reading = entry.counters.read();
            let in_use = reading.pair.map(|(pair, _)| pair.remote);
            PeerSet {
                endpoint: reading.endpoint,
                keepalive: u16::try_from(seconds).ok(),
                allowed_ips: allowed.collect(),
                ..PeerSet::new(in_use.unwrap_or(spec.public_key))
            }
        });
        let mut configuration = Configuration::default();
        configuration.apply(Set {
            peers: peers.collect(),
            ..Set::default()
        });
        answer::get(&configuration, port, Secrets::Kept, |key| {
            traffic(directory, handshakes, key)
        })
    }

    fn set(&self, _: Set) -> Result<(), Errno> {
        Err(Errno::NotPermitted)
    }
}
