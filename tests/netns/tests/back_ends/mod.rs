//! A data plane at one end, Kedge's engine at the other.

use std::time::{Duration, Instant};

use ipnet::IpNet;
use kedge_net::{netns::Namespace, wireguard::Wireguard};
use kedge_tunnel_device::{
    Device, OpenError, PeerSpec, PeerStats,
    backend::{Backend, Desired, Kind},
    kernel::{Kernel, KernelConfig},
};

use crate::tunnel::{wireguard_go::WireGuardGo, *};

/// An end of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Host,
    Gateway,
}

impl End {
    pub fn namespace(self, site: &Site) -> &Namespace {
        match self {
            Self::Host => &site.host,
            Self::Gateway => &site.gateway,
        }
    }

    /// The other end, as this one sees it.
    pub fn peer(self) -> PeerSpec {
        match self {
            Self::Host => gateway_peer(),
            Self::Gateway => host_peer(),
        }
    }

    pub fn desired(self, peers: Vec<PeerSpec>) -> Desired {
        let addresses = match self {
            Self::Host => [HOST, HOST_V4],
            Self::Gateway => [GATEWAY, GATEWAY_V4],
        };
        let address = |text: &str| text.parse::<std::net::IpAddr>().unwrap().into();
        Desired {
            addresses: addresses.map(address).into(),
            peers,
            ..Desired::default()
        }
    }
}

/// A peer beside the other end, which is nowhere.
pub fn another(end: End, prefixes: Vec<IpNet>) -> PeerSpec {
    PeerSpec {
        name: "another".into(),
        public_key: key(9).public(),
        endpoint: None,
        allowed_ips: prefixes,
        keepalive: None,
        always_up: false,
        ..end.peer()
    }
}

/// The data plane that is looked at, and its other end.
pub struct Pair {
    pub host: Box<dyn Backend>,
    pub gateway: Box<dyn Backend>,
    end: End,
    kinds: [Kind; 2],
}

impl Pair {
    pub fn new(site: &Site, kind: Kind, end: End) -> Self {
        let kinds = match end {
            End::Host => [kind, Kind::Userspace],
            End::Gateway => [Kind::Userspace, kind],
        };
        let gateway = settled(site, kinds[1], End::Gateway);
        let host = settled(site, kinds[0], End::Host);
        Self {
            host,
            gateway,
            end,
            kinds,
        }
    }

    pub fn subject(&self) -> &dyn Backend {
        match self.end {
            End::Host => &*self.host,
            End::Gateway => &*self.gateway,
        }
    }

    pub fn other(&self) -> &dyn Backend {
        match self.end {
            End::Host => &*self.gateway,
            End::Gateway => &*self.host,
        }
    }

    /// Asks the host for a handshake, at most once a second.
    pub fn asking(&self) -> impl FnMut() + '_ {
        let mut at = Instant::now();
        move || {
            if at <= Instant::now() {
                self.host.handle().rehandshake("gw-0").unwrap();
                at = Instant::now() + Duration::from_secs(1);
            }
        }
    }

    pub fn into_subject(self) -> Box<dyn Backend> {
        match self.end {
            End::Host => self.host,
            End::Gateway => self.gateway,
        }
    }

    /// Closes the gateway's device and opens another one, which knows of no session.
    pub fn restart_gateway(self, site: &Site) -> Self {
        self.gateway.close().unwrap();
        let gateway = settled(site, self.kinds[1], End::Gateway);
        Self { gateway, ..self }
    }
}

/// A device with the other end as its peer.
fn settled(site: &Site, kind: Kind, end: End) -> Box<dyn Backend> {
    let device = open(site, kind, end).unwrap();
    device.apply(&end.desired(vec![end.peer()])).unwrap();
    device
}

pub fn open(site: &Site, kind: Kind, end: End) -> Result<Box<dyn Backend>, OpenError> {
    let (number, port) = numbers(end);
    let open = || -> Result<Box<dyn Backend>, OpenError> {
        Ok(match kind {
            Kind::Userspace => Box::new(Device::open(config(number, port, &[]))?),
            Kind::Kernel => Box::new(Kernel::open(&kernel_config(end))?),
        })
    };
    end.namespace(site).run(open).unwrap()
}

pub fn kernel_config(end: End) -> KernelConfig {
    let (number, port) = numbers(end);
    KernelConfig {
        ifname: "kedge0".into(),
        private_key: key(number),
        listen_port: port,
        mtu: 1420,
    }
}

const fn numbers(end: End) -> (u8, u16) {
    match end {
        End::Host => (1, 0),
        End::Gateway => (2, PORT),
    }
}

/// Whether this machine has that data plane; where it must, it is a failure if not.
pub fn has(kind: Kind) -> bool {
    if kind == Kind::Userspace || Wireguard::open().is_ok() {
        return true;
    }
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|tier| tier == "wireguard");
    assert!(
        !required,
        "KEDGE_REQUIRE=wireguard needs a kernel with WireGuard"
    );
    println!("skipped: the kernel has no WireGuard (tests/vm/run has one that does)");
    false
}

/// The peer of that name.
pub fn named(device: &dyn Backend, name: &str) -> PeerStats {
    let stats = device.stats();
    stats.into_iter().find(|peer| peer.name == name).unwrap()
}

/// The only peer of a device.
pub fn only(device: &dyn Backend) -> PeerStats {
    let mut stats = device.stats();
    assert_eq!(stats.len(), 1);
    stats.remove(0)
}

pub fn wireguard_go_at_the_gateway(site: &Site) -> WireGuardGo {
    let configuration = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n",
        key(2).to_base64().as_str(),
        key(1).public(),
    );
    WireGuardGo::start(
        &site.gateway,
        &configuration,
        &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
    )
}

pub fn wireguard_go_at_the_host(site: &Site) -> WireGuardGo {
    let configuration = format!(
        "[Interface]\nPrivateKey = {}\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = {GATEWAY}/128, {GATEWAY_V4}/32\n\
         Endpoint = {GATEWAY_WAN}:{PORT}\nPersistentKeepalive = 1\n",
        key(1).to_base64().as_str(),
        key(2).public(),
    );
    let theirs = WireGuardGo::start(
        &site.host,
        &configuration,
        &[&format!("{HOST}/128"), &format!("{HOST_V4}/32")],
    );
    theirs.route(
        &site.host,
        &[&format!("{GATEWAY}/128"), &format!("{GATEWAY_V4}/32")],
    );
    theirs
}

/// A test of each scenario for each data plane at each end.
macro_rules! on_each {
    ($($scenario:ident),* $(,)?) => {$(
        mod $scenario {
            use super::{End, Kind, has, ready};

            fn on(kind: Kind, end: End) {
                if ready() && has(kind) {
                    super::$scenario(kind, end);
                }
            }

            #[test]
            fn with_the_engine_at_the_host() {
                on(Kind::Userspace, End::Host);
            }

            #[test]
            fn with_the_engine_at_the_gateway() {
                on(Kind::Userspace, End::Gateway);
            }

            #[test]
            fn with_the_kernel_at_the_host() {
                on(Kind::Kernel, End::Host);
            }

            #[test]
            fn with_the_kernel_at_the_gateway() {
                on(Kind::Kernel, End::Gateway);
            }
        }
    )*};
}

pub(crate) use on_each;
