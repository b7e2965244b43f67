//! A backend that ends TLS itself, and says over it who it is.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use serde_json::json;

use crate::{lan::Host, secs};

/// The certificate of a name, and its key.
#[derive(Clone, Debug)]
pub struct Seal {
    /// For those who trust it.
    pub certificate: CertificateDer<'static>,
    config: Arc<ServerConfig>,
}

impl Seal {
    /// A new one, signed by itself.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        Self {
            certificate,
            config: Arc::new(config),
        }
    }

    /// Answers one request of each connection to a port of every address of a host, from now on.
    pub fn serve(&self, host: &Host, port: u16, name: &str) {
        let listener = host.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
        let (seal, name) = (self.clone(), name.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seal, name) = (seal.clone(), name.clone());
                // Whoever is gone meanwhile is not told.
                thread::spawn(move || seal.answer(stream.ok()?, &name));
            }
        });
    }

    fn answer(&self, stream: TcpStream, name: &str) -> Option<()> {
        stream.set_read_timeout(Some(secs(5))).ok()?;
        let server = ServerConnection::new(Arc::clone(&self.config)).ok()?;
        let mut stream = StreamOwned::new(server, stream);
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let said = json!({ "name": name });
        let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{said}");
        stream.write_all(answer.as_bytes()).ok()?;
        stream.conn.send_close_notify();
        stream.flush().ok()
    }
}
