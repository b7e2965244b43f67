//! A backend that speaks HTTP: it says who it is and what it was asked.

use std::{convert::Infallible, net::TcpListener, thread};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode, Version,
    body::{Bytes, Incoming},
    header::{CONNECTION, HeaderValue, UPGRADE},
    server::conn::{http1, http2},
    service::service_fn,
    upgrade,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::{io::split, net::TcpListener as Listener, runtime::Builder};

use crate::lan::Host;

/// Answers requests on a port of every address of a host: with HTTP/2 without TLS, or with HTTP/1.1,
/// whose connections may become something else and then say everything again.
pub fn serve(host: &Host, port: u16, name: &'static str, two: bool) {
    let listener = host.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = Listener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let stream = TokioIo::new(stream);
                let service = service_fn(move |request| answer(name, request));
                tokio::spawn(async move {
                    // Whoever is gone meanwhile is not told.
                    let _ = if two {
                        let server = http2::Builder::new(TokioExecutor::new());
                        server.serve_connection(stream, service).await
                    } else {
                        let server = http1::Builder::new().serve_connection(stream, service);
                        server.with_upgrades().await
                    };
                });
            }
        });
    });
}

async fn answer(
    name: &'static str,
    mut request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.headers().contains_key(UPGRADE) {
        let on = upgrade::on(&mut request);
        tokio::spawn(async move {
            let Ok(upgraded) = on.await else { return };
            let (mut read, mut write) = split(TokioIo::new(upgraded));
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        return Ok(response);
    }
    let headers = request.headers().iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.to_string(), value.into())
    });
    let version = match request.version() {
        Version::HTTP_2 => 2,
        _ => 1,
    };
    let authority = request.uri().authority().map(ToString::to_string);
    let said = json!({
        "name": name,
        "version": version,
        "method": request.method().as_str(),
        "path": request.uri().path_and_query().map(ToString::to_string),
        "authority": authority,
        "headers": serde_json::Map::from_iter(headers),
    });
    let mut response = Response::new(Full::from(said.to_string()));
    let headers = response.headers_mut();
    headers.insert("server", HeaderValue::from_static(name));
    headers.insert("x-secret", HeaderValue::from_static("inside"));
    Ok(response)
}
