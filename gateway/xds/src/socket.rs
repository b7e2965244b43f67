//! The unix socket that Envoy calls.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

/// A socket that nobody is answered on yet.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

/// Why the service cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its socket cannot be made.
    #[error("the socket {} cannot be made", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended.
    #[error("the service on {} ended", path.display())]
    Ended {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

impl Socket {
    /// Makes it. What lies there of an earlier process is removed.
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let path = path.to_owned();
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Socket { path, source });
            }
            Ok(()) | Err(_) => {}
        }
        match UnixListener::bind(&path) {
            Ok(listener) => Ok(Self { listener, path }),
            Err(source) => Err(Error::Socket { path, source }),
        }
    }

    /// Serves until dropped.
    pub async fn serve<S: AggregatedDiscoveryService>(
        self,
        mut server: Server,
        service: S,
    ) -> Result<(), Error> {
        let service = AggregatedDiscoveryServiceServer::new(service)
            .max_decoding_message_size(LARGEST_REQUEST);
        let incoming = UnixListenerStream::new(self.listener);
        let server = server.add_service(service);
        let ended = server.serve_with_incoming(incoming).await;
        ended.map_err(|source| Error::Ended {
            path: self.path,
            source,
        })
    }
}

/// How much Envoy may say at once, bytes: after a reconnect, the versions of everything it holds.
const LARGEST_REQUEST: usize = 64 << 20;
