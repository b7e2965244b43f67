//! What the programs of pods say, told as a kubelet tells it: the API server asks for it at the node
//! (`/containerLogs` of `kubectl logs`).

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read},
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    thread,
};

use axum::{
    Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::get,
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use jiff::Timestamp;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Where a node tells what its pods say.
pub const PORT: u16 = 10250;

/// The namespace and the name of a pod.
type Key = (String, String);
/// When it was said, and what.
type Line = (Timestamp, String);

/// What all pods of a node said.
#[derive(Clone, Debug, Default)]
pub struct Logs(Arc<Mutex<BTreeMap<Key, Vec<Line>>>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    since_time: Option<Timestamp>,
}

impl Logs {
    /// Keeps what a program says, to its end.
    pub fn keep(&self, namespace: String, pod: String, said: impl Read + Send + 'static) {
        let (all, key) = (Arc::clone(&self.0), (namespace, pod));
        thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                let mut all = all.lock().unwrap();
                let lines = all.entry(key.clone()).or_default();
                lines.push((Timestamp::now(), line));
            }
        });
    }

    /// Tells it to whoever asks, until it is dropped. The calling thread is where the node is.
    pub async fn serve(self) {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await;
        let listener = listener.unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls()));
        let path = "/containerLogs/{namespace}/{pod}/{container}";
        let router = Router::new().route(path, get(told)).with_state(self);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let (io, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(io, service).await;
            });
        }
    }
}

async fn told(
    State(logs): State<Logs>,
    Path((namespace, pod, _)): Path<(String, String, String)>,
    Query(asked): Query<Asked>,
) -> Result<String, StatusCode> {
    let all = logs.0.lock().unwrap();
    let lines = all.get(&(namespace, pod)).ok_or(StatusCode::NOT_FOUND)?;
    let is_asked = |at: Timestamp| asked.since_time.is_none_or(|since| at >= since);
    let lines = lines.iter().filter(|(at, _)| is_asked(*at));
    Ok(lines.map(|(_, line)| format!("{line}\n")).collect())
}

/// A certificate of its own: API servers are told nothing of kubelets' unless they ask for it.
fn tls() -> rustls::ServerConfig {
    let made = rcgen::generate_simple_self_signed(["edge-a".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap()
}
