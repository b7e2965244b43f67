//! The service on its unix socket.

use std::{
    fs, io,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    aggregated_discovery_service_server::{
        AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
    },
};
use tokio::{net::UnixListener, sync::mpsc};
use tokio_stream::{
    Stream,
    wrappers::{ReceiverStream, UnixListenerStream},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};
use tracing::debug;

use crate::{session::Session, wanted::Wanted};

/// The service, bound to its socket.
#[derive(Debug)]
pub struct Ads {
    listener: UnixListener,
    path: PathBuf,
    wanted: Wanted,
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

impl Ads {
    /// Binds the socket. What lies there of an earlier process is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Socket`].
    pub fn bind(path: &Path, wanted: Wanted) -> Result<Self, Error> {
        Ok(Self {
            listener: listen(path)?,
            path: path.to_owned(),
            wanted,
        })
    }

    /// Serves until dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`].
    pub async fn serve(self) -> Result<(), Error> {
        let service = AggregatedDiscoveryServiceServer::new(Service(self.wanted))
            .max_decoding_message_size(LARGEST_REQUEST);
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .add_service(service);
        let incoming = UnixListenerStream::new(self.listener);
        let ended = server.serve_with_incoming(incoming).await;
        ended.map_err(|source| Error::Ended {
            path: self.path,
            source,
        })
    }
}

/// Makes a socket. What lies there of an earlier process is removed.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, Error> {
    let failed = |source| Error::Socket {
        path: path.to_owned(),
        source,
    };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(path).map_err(failed)
}

struct Service(Wanted);

pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Answers<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Answers<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        _: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("ask with api_type: DELTA_GRPC"))
    }

    async fn delta_aggregated_resources(
        &self,
        request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        // An Envoy that is answered with nothing would remove what it serves.
        let Some((reader, resources)) = self.0.open() else {
            return Err(Status::unavailable(
                "nothing is known yet of what is to be served",
            ));
        };
        debug!(resources = resources.len(), "a stream of Envoy begins");
        let (answers, queue) = mpsc::channel(UNDER_WAY);
        let session = Session::new(reader, resources);
        tokio::spawn(session.run(request.into_inner(), answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }
}

/// As many responses as may wait for an answer, and a few more.
const UNDER_WAY: usize = 32;

/// How much Envoy may say at once, bytes: after a reconnect, the versions of everything it holds.
const LARGEST_REQUEST: usize = 64 << 20;

/// How long a silent stream is trusted.
const KEEPALIVE: Duration = Duration::from_secs(10);
