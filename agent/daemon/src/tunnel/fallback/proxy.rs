//! The way to a gateway through an HTTP proxy: CONNECT (RFC 9110 section 9.3.6), with a name and a password
//! (RFC 7617) where it wants them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_host::Root;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use zeroize::Zeroizing;

use crate::config::{Endpoint, TunnelConfig};

/// A proxy that gateways are called through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxy {
    at: Endpoint,
    auth: Option<PathBuf>,
    /// Hosts that are called without it.
    spared: Vec<String>,
}

/// Why a proxy leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    /// It is not there.
    #[error("the proxy {at} cannot be reached")]
    Unreachable {
        /// Where it is.
        at: String,
        /// Why.
        source: io::Error,
    },
    /// What it wants to know stands in no file.
    #[error("the proxy's name and password cannot be read from {}", file.display())]
    Auth {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It said no.
    #[error("the proxy {at} answered {status}")]
    Refused {
        /// Where it is.
        at: String,
        /// Its line.
        status: String,
    },
    /// It does not speak HTTP.
    #[error("the proxy {at} does not answer like one")]
    Foreign {
        /// Where it is.
        at: String,
    },
}

impl Proxy {
    /// The configured proxy, or that of the environment.
    pub(crate) fn of(config: &TunnelConfig, root: &Root) -> Option<Self> {
        Self::chosen(config, root, |name| std::env::var(name).ok())
    }

    fn chosen(
        config: &TunnelConfig,
        root: &Root,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let auth = config
            .proxy_auth_file
            .as_ref()
            .map(|file| root.locate(file));
        if let Some(url) = &config.proxy {
            return Some(Self {
                at: url.endpoint()?.clone(),
                auth,
                spared: Vec::new(),
            });
        }
        let either = |names: [&str; 2]| names.into_iter().find_map(&environment);
        let url = either(["HTTPS_PROXY", "https_proxy"])?;
        let spared = either(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        let spared = spared.split(',').map(|it| it.trim().to_lowercase());
        // A scheme may be left out there.
        let at = url.strip_prefix("http://").unwrap_or(&url);
        Some(Self {
            at: at.trim_end_matches('/').parse().ok()?,
            auth,
            spared: spared.filter(|it| !it.is_empty()).collect(),
        })
    }

    /// Whether a host is called through it.
    pub(super) fn leads_to(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        !self.spared.iter().any(|spared| {
            let domain = spared.trim_start_matches("*.").trim_start_matches('.');
            let within = host.strip_suffix(domain);
            spared == "*" || within.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }

    /// A connection to `to`, `host:port`, through it.
    pub(super) async fn connect(&self, to: &str) -> Result<TcpStream, ProxyError> {
        let at = self.at.as_str();
        let unreachable = |source| ProxyError::Unreachable {
            at: at.to_owned(),
            source,
        };
        let auth = match &self.auth {
            Some(file) => credentials(file).map_err(|source| ProxyError::Auth {
                file: file.clone(),
                source,
            })?,
            None => Zeroizing::default(),
        };
        let mut stream = TcpStream::connect(at).await.map_err(unreachable)?;
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{}\r\n", *auth);
        let request = Zeroizing::new(request);
        let sent = stream.write_all(request.as_bytes()).await;
        sent.map_err(unreachable)?;
        let head = head(&mut stream).await.map_err(unreachable)?;
        match status(&head) {
            Some((200..=299, _)) => Ok(stream),
            Some((_, status)) => Err(ProxyError::Refused {
                at: at.to_owned(),
                status: status.to_owned(),
            }),
            None => Err(ProxyError::Foreign { at: at.to_owned() }),
        }
    }
}

/// The header with what a file says, `name:password` in its first line.
fn credentials(file: &Path) -> io::Result<Zeroizing<String>> {
    let text = Zeroizing::new(fs::read_to_string(file)?);
    let line = text.lines().next().unwrap_or_default();
    if !line.contains(':') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its first line is not `name:password`",
        ));
    }
    let encoded = Zeroizing::new(STANDARD.encode(line));
    Ok(Zeroizing::new(format!(
        "Proxy-Authorization: Basic {}\r\n",
        *encoded
    )))
}

/// What comes before the stream: nothing behind it is taken.
async fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

/// The number of an answer, and what people read.
fn status(head: &[u8]) -> Option<(u16, &str)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?.get(1..)?.strip_prefix(' ')?;
    let number = rest.get(..3)?.parse().ok()?;
    Some((
        number,
        rest.get(..rest.len().min(LONGEST_STATUS)).unwrap_or(rest),
    ))
}

const LONGEST_HEAD: usize = 8_192;
const LONGEST_STATUS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::loaded;

    fn config(yaml: &str) -> TunnelConfig {
        loaded(yaml).tunnel
    }

    fn environment(name: &str) -> Option<String> {
        match name {
            "https_proxy" => Some("http://proxy.example:8080/".to_owned()),
            "NO_PROXY" => Some("localhost, .inner.example,10.0.0.1".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn the_file_comes_before_the_environment_and_none_is_none() {
        let chosen = |yaml| Proxy::chosen(&config(yaml), &Root::new("/"), environment);
        let at = |yaml| chosen(yaml).map(|proxy| proxy.at.to_string());
        assert_eq!(at("version: 1").as_deref(), Some("proxy.example:8080"));
        assert_eq!(at("version: 1\ntunnel: {proxy: none}"), None);
        let own = "version: 1\ntunnel: {proxy: 'http://10.0.0.9:3128', proxy_auth_file: /a}";
        assert_eq!(at(own).as_deref(), Some("10.0.0.9:3128"));
        assert!(chosen(own).unwrap().leads_to("x.inner.example"));
        let proxy = chosen("version: 1").unwrap();
        for (host, through) in [
            ("gw.example", true),
            ("gw.INNER.example", false),
            ("inner.example", false),
            ("dinner.example", true),
            ("10.0.0.1", false),
            ("110.0.0.1", true),
        ] {
            assert_eq!(proxy.leads_to(host), through, "{host}");
        }
    }

    #[test]
    fn an_answer_is_read_by_its_first_line() {
        for (head, number) in [
            (
                &b"HTTP/1.1 200 Connection established\r\n\r\n"[..],
                Some(200),
            ),
            (
                b"HTTP/1.0 407 Proxy Authentication Required\r\nA: b\r\n\r\n",
                Some(407),
            ),
            (b"HTTP/2 200 OK\r\n\r\n", None),
            (b"SSH-2.0-OpenSSH\r\n", None),
            (b"HTTP/1.1 20", None),
            (b"", None),
        ] {
            assert_eq!(status(head).map(|(number, _)| number), number);
        }
    }

    #[tokio::test]
    async fn what_a_proxy_says_is_told_and_nothing_behind_its_answer_is_taken() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let answering = tokio::spawn(async move {
            let mut heads = Vec::new();
            for answer in [
                "HTTP/1.1 407 No\r\n\r\n",
                "HTTP/1.1 200 OK\r\nA: b\r\n\r\nfirst",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                heads.push(head(&mut stream).await.unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            heads
        });
        let proxy = Proxy {
            at: at.to_string().parse().unwrap(),
            auth: None,
            spared: Vec::new(),
        };
        let refused = proxy.connect("gw.example:443").await.unwrap_err();
        assert!(
            refused.to_string().ends_with("answered 407 No"),
            "{refused}"
        );
        let mut stream = proxy.connect("gw.example:443").await.unwrap();
        let mut first = [0; 5];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"first");
        let asked = b"CONNECT gw.example:443 HTTP/1.1\r\nHost: gw.example:443\r\n\r\n";
        assert_eq!(answering.await.unwrap(), [asked, asked]);
    }

    #[test]
    fn a_name_and_a_password_are_one_line_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("auth");
        fs::write(&file, "Aladdin:open sesame\n").unwrap();
        let line = "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
        assert_eq!(*credentials(&file).unwrap(), line);
        fs::write(&file, "nothing\n").unwrap();
        assert!(credentials(&file).is_err());
    }
}
