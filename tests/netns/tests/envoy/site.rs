//! A client, a gateway with Envoy, and what stands behind it.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_control::frontend::{ClientIp, Frontend, Offer, Pool, PoolMember, Protocol};
use kedge_gateway_xds::{Here, Life, Members, render};
use kedge_tests_netns::{
    answers::{Answers, Asked, ask},
    envoy::{Envoy, Server, executable},
    eventually,
    lan::{Host, Lan},
    ready, secs,
};
use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};

/// A client, a gateway and two backends on a LAN.
pub struct Site {
    _lan: Lan,
    pub client: Host,
    pub gateway: Host,
    pub a: Host,
    pub b: Host,
    pub server: Server,
    executable: &'static Path,
}

impl Site {
    pub fn new() -> Option<Self> {
        if !ready() {
            return None;
        }
        let executable = executable()?;
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let gateway = lan.host("gateway", "10.20.14.1/24");
        let client = lan.host("client", "10.20.14.2/24");
        for (host, name) in [(&a, "a"), (&b, "b")] {
            let _ = Answers::start(host, BACKEND, name, 0);
        }
        let server = Server::start(&gateway);
        Some(Self {
            _lan: lan,
            client,
            gateway,
            a,
            b,
            server,
            executable,
        })
    }

    pub fn envoy(&self) -> Envoy {
        Envoy::start(&self.gateway, self.executable, self.server.socket())
    }

    pub fn address(&self) -> IpAddr {
        self.gateway.address().into()
    }

    /// A pool of both backends.
    pub fn pool(&self, name: &str) -> Pool {
        let member = |host: &Host, name: &str| PoolMember {
            host: name.to_owned(),
            address: host.address().into(),
            port: number(BACKEND),
            weight: 1,
            draining: false,
        };
        Pool {
            name: name.to_owned(),
            tenant: "tenant".to_owned(),
            members: vec![member(&self.a, "a"), member(&self.b, "b")],
            ..Pool::default()
        }
    }

    /// Both backends are alive.
    pub fn alive(&self) -> Here {
        let alive = ["a", "b"].map(|host| (host.to_owned(), Life::Alive));
        Here {
            lives: alive.into(),
            ..Here::default()
        }
    }

    /// Has all of an offer be served; its members are returned, for when a host lives or dies.
    pub fn declare(&self, offer: &Offer, here: &Here) -> Members {
        let rendered = render(offer, here);
        assert_eq!(rendered.refused, []);
        self.server.wanted.declare(rendered.resources);
        rendered.members
    }

    pub fn ask(&self, port: u16) -> Option<Asked> {
        ask(&self.client, self.address(), port, b"")
    }

    /// Who answers on a port.
    pub fn name(&self, port: u16) -> Option<String> {
        self.ask(port).map(|asked| asked.name)
    }

    pub fn both_answer(&self) {
        let mut heard = BTreeSet::new();
        eventually("both answer", secs(5), || {
            heard.extend(self.name(PORT));
            heard.len() == 2
        });
    }

    /// A connection to this backend.
    pub fn opened_at(&self, name: &str) -> Asked {
        let mut asked = None;
        eventually(&format!("{name} is asked"), secs(5), || {
            asked = self.ask(PORT).filter(|asked| asked.name == name);
            asked.is_some()
        });
        asked.unwrap()
    }

    /// When a backend answered for the last time before a hundred answers of others.
    pub fn last_answer_of(&self, name: &str) -> Instant {
        let mut last = Instant::now();
        let mut others = 0;
        let start = last;
        while others < 100 {
            assert!(start.elapsed() < secs(10), "{name} goes on answering");
            let at = Instant::now();
            match self.name(PORT) {
                Some(heard) if heard != name => others += 1,
                _ => (last, others) = (at, 0),
            }
        }
        last
    }
}

pub fn offer(mut frontends: Vec<Frontend>, pools: Vec<Pool>) -> Offer {
    let address = Ipv4Addr::new(10, 20, 14, 1);
    for frontend in &mut frontends {
        frontend.address = address.into();
    }
    Offer {
        frontends,
        pools,
        ..Offer::default()
    }
}

pub fn tcp(name: &str, port: u16) -> Frontend {
    Frontend {
        name: format!("tenant/{name}"),
        tenant: "tenant".to_owned(),
        address: Ipv4Addr::UNSPECIFIED.into(),
        port: number(port),
        protocol: Protocol::Tcp,
        pool: name.to_owned(),
        client_ip: ClientIp::Hidden,
        source_ranges: Vec::new(),
    }
}

pub const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

pub fn number(port: u16) -> NonZeroU16 {
    NonZeroU16::new(port).unwrap()
}

/// What a TLS client says first to a server of this name.
pub fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// The first port of frontends.
pub const PORT: u16 = 8000;
/// A port that something else has.
pub const TAKEN: u16 = 7999;
/// The port of backends.
pub const BACKEND: u16 = 9000;
