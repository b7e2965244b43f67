//! The service.

use std::{path::Path, pin::Pin, time::Duration};

use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    aggregated_discovery_service_server::AggregatedDiscoveryService,
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};
use tracing::debug;

use crate::{
    session::Session,
    socket::{Error, Socket},
    wanted::Wanted,
};

/// The service, bound to its socket.
#[derive(Debug)]
pub struct Ads {
    socket: Socket,
    wanted: Wanted,
}

impl Ads {
    /// Binds the socket. What lies there of an earlier process is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Socket`].
    pub fn bind(path: &Path, wanted: Wanted) -> Result<Self, Error> {
        Ok(Self {
            socket: Socket::bind(path)?,
            wanted,
        })
    }

    /// Serves until dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`].
    pub async fn serve(self) -> Result<(), Error> {
        let server = Server::builder().http2_keepalive_interval(Some(KEEPALIVE));
        self.socket.serve(server, Service(self.wanted)).await
    }
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

/// How long a silent stream is trusted.
const KEEPALIVE: Duration = Duration::from_secs(10);
