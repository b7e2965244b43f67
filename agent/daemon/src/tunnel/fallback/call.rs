//! One call to a gateway over TLS, and what it carries until it ends.

use std::{error::Error, io, net::SocketAddr, sync::Arc, time::Duration};

use kedge_core::with_causes;
use kedge_host::enrol::{Client, Passage};
use kedge_net::{detour, stream::carry_datagrams};
use kedge_tunnel_device::Handle;
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpStream, lookup_host},
    sync::{Notify, watch},
    task::JoinHandle,
    time::timeout,
};

use super::proxy::Proxy;
use crate::config::Endpoint;

/// A call, until it is dropped.
#[derive(Debug)]
pub(super) struct Call {
    task: JoinHandle<()>,
    standing: watch::Receiver<Standing>,
}

/// How a call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is not answered yet.
    Called,
    /// It carries datagrams, for which this place stands.
    There(SocketAddr),
    /// It is over, and why.
    Over(String),
}

impl Call {
    /// Calls; `news` hears of each change.
    pub(super) fn start(
        member: Client,
        (endpoint, proxy): (&Endpoint, Option<Proxy>),
        handle: Handle,
        news: Arc<Notify>,
    ) -> Self {
        let (tell, standing) = watch::channel(Standing::Called);
        let endpoint = endpoint.clone();
        let task = tokio::spawn(async move {
            let why = match timeout(PATIENCE, call(&member, &endpoint, proxy.as_ref())).await {
                Ok(Ok(passage)) => carry(passage, &handle, &tell, &news).await,
                Ok(Err(error)) => with_causes(&*error),
                Err(_) => format!("not answered within {} s", PATIENCE.as_secs()),
            };
            tell.send_replace(Standing::Over(why));
            news.notify_one();
        });
        Self { task, standing }
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    passage: Passage,
    handle: &Handle,
    tell: &watch::Sender<Standing>,
    news: &Notify,
) -> String {
    let Some(lane) = handle.lane() else {
        return "the data plane carries nothing in streams".to_owned();
    };
    tell.send_replace(Standing::There(lane.place()));
    news.notify_one();
    with_causes(&lane.carry(passage).await)
}

/// Connects, and waits until the gateway says that it is content.
async fn call(
    member: &Client,
    endpoint: &Endpoint,
    proxy: Option<&Proxy>,
) -> Result<Passage, Box<dyn Error + Send + Sync>> {
    let at = endpoint.as_str();
    let host = at.rsplit_once(':').map_or(at, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = match proxy.filter(|proxy| proxy.leads_to(host)) {
        Some(proxy) => proxy.connect(at).await?,
        None => straight(at).await?,
    };
    carry_datagrams(&stream, UNACKNOWLEDGED)?;
    let mut passage = member.call_gateway(host, stream).await?;
    let mut greeting = [u8::MAX; 2];
    passage.read_exact(&mut greeting).await?;
    if greeting != [0; 2] {
        return Err(io::Error::from(io::ErrorKind::InvalidData).into());
    }
    Ok(passage)
}

/// Connects without a detour to the first of its places that answers.
async fn straight(at: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in lookup_host(at).await? {
        match detour::connect(place).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// How long connecting may take, with all that is shown and verified.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long what was sent may be unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
