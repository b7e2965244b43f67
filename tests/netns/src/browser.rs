//! A client of HTTP, over TLS or without.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName},
};
use serde_json::Value;

use crate::{lan::Host, secs};

/// Where a client is, where it asks, and whom it trusts.
#[derive(Clone, Debug)]
pub struct Browser<'a> {
    host: &'a Host,
    from: Ipv4Addr,
    address: IpAddr,
    trusted: Vec<CertificateDer<'static>>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, by their names in lower case; of several the last.
    pub headers: BTreeMap<String, String>,
    /// What a [`web`](crate::web) backend says of the request, or nothing.
    pub said: Value,
}

/// A connection that became something else.
pub struct Upgraded(Box<dyn Stream>);

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl<'a> Browser<'a> {
    /// A client on a host that asks at an address.
    #[must_use]
    pub fn new(host: &'a Host, address: IpAddr) -> Self {
        Self {
            host,
            from: Ipv4Addr::UNSPECIFIED,
            address,
            trusted: Vec::new(),
        }
    }

    /// The same, which asks from another address of its host.
    #[must_use]
    pub fn from(&self, from: Ipv4Addr) -> Self {
        Self {
            from,
            ..self.clone()
        }
    }

    /// Trusts a certificate.
    pub fn trust(&mut self, certificate: CertificateDer<'static>) {
        self.trusted.push(certificate);
    }

    /// Asks `METHOD PATH` of a name, with lines of headers; `None` if nobody answers.
    #[must_use]
    pub fn plain(&self, port: u16, host: &str, what: &str, headers: &str) -> Option<Answer> {
        answered(self.connect(port)?, &request(host, what, headers))
    }

    /// The same over TLS, by the name that certificates are asked for with.
    #[must_use]
    pub fn tls(&self, port: u16, sni: &str, host: &str, what: &str) -> Option<Answer> {
        answered(self.secure(port, sni, &[])?, &request(host, what, ""))
    }

    /// What is agreed on with a client that can do HTTP/2.
    #[must_use]
    pub fn protocol(&self, port: u16, sni: &str) -> Option<String> {
        let mut stream = self.secure(port, sni, &[b"h2", b"http/1.1"])?;
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).ok()?;
        }
        let protocol = stream.conn.alpn_protocol()?.to_vec();
        String::from_utf8(protocol).ok()
    }

    /// A WebSocket of a name.
    #[must_use]
    pub fn socket(&self, port: u16, host: &str, path: &str) -> Option<Upgraded> {
        upgraded(self.connect(port)?, host, path)
    }

    /// A WebSocket of a name over TLS.
    #[must_use]
    pub fn secure_socket(&self, port: u16, host: &str, path: &str) -> Option<Upgraded> {
        upgraded(self.secure(port, host, &[])?, host, path)
    }

    fn connect(&self, port: u16) -> Option<TcpStream> {
        let at = SocketAddr::new(self.address, port);
        let stream = self.host.connect(self.from, at)?;
        stream.set_read_timeout(Some(secs(5))).unwrap();
        Some(stream)
    }

    fn secure(
        &self,
        port: u16,
        sni: &str,
        protocols: &[&[u8]],
    ) -> Option<StreamOwned<ClientConnection, TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.trusted.iter().cloned());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
        let name = ServerName::try_from(sni.to_owned()).unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        Some(StreamOwned::new(client, self.connect(port)?))
    }
}

impl Upgraded {
    /// Whether what is said comes back.
    pub fn lives(&mut self) -> bool {
        let mut back = [0; 4];
        let said = self.0.write_all(b"well").and_then(|()| self.0.flush());
        said.and_then(|()| self.0.read_exact(&mut back)).is_ok() && back == *b"well"
    }
}

fn upgraded(mut stream: impl Stream + 'static, host: &str, path: &str) -> Option<Upgraded> {
    let words = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(words.as_bytes()).ok()?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let is_it = head.starts_with(b"HTTP/1.1 101 ");
    is_it.then(|| Upgraded(Box::new(stream)))
}

fn request(host: &str, what: &str, headers: &str) -> String {
    format!("{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n")
}

fn answered(mut stream: impl Stream, request: &str) -> Option<Answer> {
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    // An end without a word of TLS is an end as well.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Some(Answer {
        status,
        headers: headers.collect(),
        said: serde_json::from_str(body).unwrap_or_default(),
    })
}

impl Answer {
    /// Who answered.
    #[must_use]
    pub fn name(&self) -> &str {
        self.said["name"].as_str().unwrap_or_default()
    }

    /// Where it sends.
    #[must_use]
    pub fn location(&self) -> &str {
        self.headers.get("location").map_or("", String::as_str)
    }
}
