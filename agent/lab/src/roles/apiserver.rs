//! A stand-in for an API server: HTTPS `/readyz` and `/version`, and UDP echo on the same port.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Bytes, header, service::service_fn};
use hyper_util::rt::TokioIo;
use kedge_core::{Code, Fix, Problem};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::echo;

/// Flags of the stand-in.
#[derive(Clone, Debug, Args)]
pub struct ApiserverArgs {
    /// The name its answers carry
    #[arg(long)]
    name: String,
    /// Where it listens, TCP and UDP
    #[arg(long, default_value_t = super::default_listen())]
    listen: SocketAddr,
    /// Its certificate chain, PEM
    #[arg(long)]
    certificate: PathBuf,
    /// Its private key, PEM
    #[arg(long)]
    key: PathBuf,
}

pub(super) fn run(args: &ApiserverArgs) -> Result<(), Problem> {
    let tls = TlsAcceptor::from(Arc::new(server_config(args)?));
    let echo = echo::bind(args.listen)?;
    let name = args.name.clone();
    std::thread::spawn(move || {
        if let Err(err) = echo::answer(&echo, &name) {
            tracing::error!(error = &err as &dyn std::error::Error, "UDP echo ended");
        }
    });
    let failed = |what: &str, err: io::Error| {
        Problem::new(Code::LabStepFailed, format!("{what} {}", args.listen)).caused_by(&err)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| failed("cannot start serving", err))?;
    runtime.block_on(async {
        let listener = bind(args.listen)
            .await
            .map_err(|err| failed("cannot bind", err))?;
        tracing::info!(name = args.name, listen = %args.listen, "stand-in API server serves");
        let name: Arc<str> = args.name.as_str().into();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(serve(stream, tls.clone(), name.clone()))),
                // Out of file descriptors, or a client that left: the next one is served.
                Err(err) => {
                    tracing::warn!(error = &err as &dyn std::error::Error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    })
}

/// Binds every address of both families when any IPv4 address is meant, as an API server in Go
/// does: through the tunnel it is called by IPv6.
async fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    if listen.ip() == IpAddr::from(Ipv4Addr::UNSPECIFIED)
        && let Ok(both) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, listen.port())).await
    {
        return Ok(both);
    }
    TcpListener::bind(listen).await
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, name: Arc<str>) {
    let Ok(Ok(stream)) = tokio::time::timeout(LIMIT, tls.accept(stream)).await else {
        return;
    };
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = answer(request.method(), request.uri().path(), &name);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    _ = tokio::time::timeout(LIMIT, connection).await;
}

fn answer(method: &Method, path: &str, name: &str) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (method, path) {
        (&Method::GET, "/readyz" | "/livez" | "/healthz") => {
            (StatusCode::OK, "text/plain; charset=utf-8", "ok".to_owned())
        }
        (&Method::GET, "/version") => {
            let body = json!({
                "major": "1", "minor": "34", "gitVersion": GIT_VERSION,
                "platform": "linux/amd64", "servedBy": name,
            });
            (StatusCode::OK, "application/json", body.to_string())
        }
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain; charset=utf-8",
            "404 page not found\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn server_config(args: &ApiserverArgs) -> Result<ServerConfig, Problem> {
    let refused = |what: &str, err: &dyn std::error::Error| {
        Problem::new(Code::LabStepFailed, format!("cannot use the {what}"))
            .caused_by(err)
            .fix(Fix::text("give a PEM certificate and its key"))
    };
    let chain = CertificateDer::pem_file_iter(&args.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|err| refused("certificate", &err))?;
    let key = PrivateKeyDer::from_pem_file(&args.key).map_err(|err| refused("key", &err))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|err| refused("certificate", &err))
}

/// What `/version` says, with the name of the lab in it so that nobody takes it for real.
const GIT_VERSION: &str = "v1.34.0+kedge-lab";

/// How long a client may take over its handshake, and over its connection.
const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn body(response: Response<Full<Bytes>>) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime
            .block_on(response.into_body().collect())
            .unwrap()
            .to_bytes()
            .to_vec()
    }

    #[test]
    fn readyz_is_ok_and_version_names_who_serves() {
        let ready = answer(&Method::GET, "/readyz", "edge-a");
        assert_eq!(ready.status(), StatusCode::OK);
        assert_eq!(body(ready), b"ok");
        let version: serde_json::Value =
            serde_json::from_slice(&body(answer(&Method::GET, "/version", "edge-a"))).unwrap();
        assert_eq!(version["servedBy"], "edge-a");
        assert_eq!(version["gitVersion"], GIT_VERSION);
    }

    #[test]
    fn everything_else_is_not_found() {
        for (method, path) in [
            (Method::GET, "/"),
            (Method::POST, "/version"),
            (Method::GET, "/api"),
        ] {
            assert_eq!(answer(&method, path, "x").status(), StatusCode::NOT_FOUND);
        }
    }
}
