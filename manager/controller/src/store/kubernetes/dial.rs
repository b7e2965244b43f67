//! Clients of a cluster that keep little for each of their connections.
//!
//! A connection that reads as much as it can get keeps a buffer as large as the largest list it ever
//! read, for good; a watch that is at rest needs none. And there is a watch of tokens for every
//! tenant: as client-go's, they share connections, by HTTP/2. Whatever else is asked for has
//! connections of its own, so that a long list holds up nobody.

use std::{sync::Arc, time::Duration};

use http::{Request, uri::Scheme};
use hyper::rt::{Read, Write};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Builder,
        connect::{Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config, Error,
    client::{Body, ClientBuilder, ConfigExt as _, retry::RetryPolicy},
};
use tokio::{sync::Mutex, time::timeout};
use tower::{BoxError, Service, ServiceExt, retry::RetryLayer, util::option_layer};
use tracing::debug;

/// As [`Client::try_from`], but for the buffers; a cluster behind a proxy is reached as there.
///
/// # Errors
///
/// Something that the configuration names cannot be used.
pub fn client(config: &Config) -> Result<Client, Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config.clone());
    }
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1_max_buf_size(BUFFER);
    let connector = config.rustls_https_connector_with_connector(http())?;
    stack(config, &builder, connector)
}

/// Clients whose watches share connections: as many to each as an API server lets.
pub struct Shared {
    config: Option<Config>,
    cars: Mutex<Vec<Car>>,
}

/// A client, and those who use it.
struct Car {
    client: Client,
    seats: Arc<()>,
}

/// A place at a client; it is free again once this is dropped.
#[derive(Debug)]
pub struct Seat(#[expect(dead_code, reason = "it is held, and counted")] Arc<()>);

impl Shared {
    /// For the cluster of a configuration; of none, nothing is shared.
    #[must_use]
    pub fn new(config: Option<Config>) -> Self {
        let is_direct = |config: &Config| {
            let is_https = config.cluster_url.scheme() == Some(&Scheme::HTTPS);
            is_https && config.proxy_url.is_none() && config.tls_server_name.is_none()
        };
        Self {
            config: config.filter(is_direct),
            cars: Mutex::default(),
        }
    }

    /// A client for one more watch; `own` where the server does not speak HTTP/2.
    pub async fn board(&self, own: &Client) -> (Client, Seat) {
        let mut cars = self.cars.lock().await;
        let has_room = |car: &&Car| Arc::strong_count(&car.seats) <= STREAMS;
        if let Some(car) = cars.iter().find(has_room) {
            return (car.client.clone(), Seat(Arc::clone(&car.seats)));
        }
        let car = Car {
            client: self.multiplexed().await.unwrap_or_else(|| own.clone()),
            seats: Arc::default(),
        };
        let boarded = (car.client.clone(), Seat(Arc::clone(&car.seats)));
        cars.push(car);
        boarded
    }

    /// A client that speaks HTTP/2, if the server does.
    async fn multiplexed(&self) -> Option<Client> {
        let made = multiplexed(self.config.as_ref()?);
        let client = made.inspect_err(|error| debug!(%error, "no HTTP/2")).ok()?;
        let answer = timeout(PROBE, client.apiserver_version()).await;
        answer.is_ok_and(|answer| answer.is_ok()).then_some(client)
    }
}

/// A client with one connection, for as many requests at a time as the server lets.
fn multiplexed(config: &Config) -> Result<Client, Error> {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_only()
        .enable_http2()
        .wrap_connector(http());
    let mut builder = Builder::new(TokioExecutor::new());
    // A connection that is dead takes every watch with it: it is asked now and then.
    builder
        .timer(TokioTimer::new())
        .http2_only(true)
        .http2_keep_alive_interval(ALIVE)
        .http2_keep_alive_timeout(ALIVE);
    stack(config, &builder, connector)
}

fn http() -> HttpConnector {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http
}

fn stack<C>(config: &Config, builder: &Builder, connector: C) -> Result<Client, Error>
where
    C: Service<http::Uri, Error = BoxError> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
{
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = builder.build(connector);
    let client = ServiceExt::<Request<Body>>::map_err(client, BoxError::from);
    let retry = RetryLayer::new(RetryPolicy::server_retry());
    let builder = ClientBuilder::new(client, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&option_layer(config.default_retry.then_some(retry)))
        .with_layer(&config.base_uri_layer());
    Ok(builder.build())
}

/// The most that is read at once, in bytes.
const BUFFER: usize = 16 * 1024;
/// An API server takes 100 requests at a time on one connection, and more of them wait without a
/// word. Some are left for watches that begin anew before their last request is over.
const STREAMS: usize = 80;
const PROBE: Duration = Duration::from_secs(5);
const ALIVE: Duration = Duration::from_secs(30);
