//! Where hosts are: at this gateway or at another one, by their own word. Packets for a host that is at
//! another gateway go there through the tunnel between the two.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::Instant;
use kedge_tunnel_device::{PeerSpec, keeper::Wish};
use kedge_tunnel_proto::{
    echo::{Claim, Claims, RELAY_PORT, emit_relays, parse_relay},
    keys::PublicKey,
};
use tokio::{net::UdpSocket, sync::mpsc, task::JoinSet};
use tracing::{debug, info};

use crate::config::{NeighborConfig, TunnelConfig};

/// Another gateway that hosts may be at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbor {
    /// What its peer is called.
    pub peer: String,
    /// Its key.
    pub key: PublicKey,
    /// The key it goes over to.
    pub next_key: Option<PublicKey>,
    /// Its addresses in the tunnel.
    pub addresses: Vec<IpAddr>,
}

impl Neighbor {
    /// Whether it is the gateway with this key.
    pub fn has(&self, key: &PublicKey) -> bool {
        self.key == *key || self.next_key == Some(*key)
    }
}

/// The other gateways of the configuration as peers, beside the hosts of `wish`. A packet that one of
/// them passes on comes from what lies behind, or from a host.
pub(crate) fn add_neighbors(config: &TunnelConfig, wish: &mut Wish) -> Vec<Neighbor> {
    let hosts: Vec<IpNet> = wish
        .peers
        .iter()
        .flat_map(|peer| peer.allowed_ips.iter().copied())
        .collect();
    let mut neighbors = Vec::new();
    for (name, neighbor) in &config.gateways {
        let NeighborConfig {
            public_key,
            next_public_key,
            endpoint,
            addresses,
        } = neighbor;
        let peer = format!("{NEIGHBOR}{name}");
        if wish.peers.iter().any(|host| host.public_key == *public_key) {
            continue;
        }
        let accepts = config.behind.iter().chain(&hosts).copied();
        wish.peers.push(PeerSpec {
            name: peer.clone(),
            public_key: *public_key,
            preshared_key: None,
            endpoint: *endpoint,
            allowed_ips: addresses.iter().copied().map(IpNet::from).collect(),
            keepalive: Some(KEEPALIVE),
            always_up: true,
            accepts: accepts.collect(),
            relays: true,
            realm: None,
            next_key: next_public_key.map(Box::new),
        });
        neighbors.push(Neighbor {
            peer,
            key: *public_key,
            next_key: *next_public_key,
            addresses: addresses.clone(),
        });
    }
    neighbors
}

/// Leads packets for each host where it is. Who is `alive` here is reached here: hosts keep their
/// sessions to all gateways, and what this gateway says itself has to come from this one. A neighbor
/// that is not alive leads nowhere.
pub(crate) fn place(
    mut wish: Wish,
    claims: &Claims,
    neighbors: &[Neighbor],
    alive: impl Fn(&str) -> bool,
) -> Wish {
    let mut elsewhere: BTreeMap<&str, Vec<IpNet>> = BTreeMap::new();
    for host in wish.peers.iter_mut().filter(|peer| !peer.relays) {
        let claim = newest(claims, &host.allowed_ips).filter(|_| !alive(&host.name));
        let Some(claim) = claim else {
            continue;
        };
        let at = neighbors.iter().find(|it| it.has(&claim.gateway));
        let Some(at) = at.filter(|it| alive(&it.peer)) else {
            continue;
        };
        host.accepts.append(&mut host.allowed_ips.clone());
        let moved = std::mem::take(&mut host.allowed_ips);
        elsewhere.entry(&at.peer).or_default().extend(moved);
    }
    for peer in &mut wish.peers {
        if let Some(prefixes) = elsewhere.remove(peer.name.as_str()) {
            peer.accepts.retain(|prefix| !prefixes.contains(prefix));
            peer.allowed_ips.extend(prefixes);
        }
    }
    wish
}

/// The newest claim of a host, by any of its addresses.
pub(crate) fn newest(claims: &Claims, addresses: &[IpNet]) -> Option<Claim> {
    let all = addresses.iter().filter_map(|net| claims.of(net.addr()));
    all.max()
}

/// Whether a peer is another gateway.
pub(crate) fn is_neighbor(peer: &str) -> bool {
    peer.starts_with(NEIGHBOR)
}

/// What gateways tell each other, over their addresses in the tunnel.
pub(crate) struct Relay {
    sockets: Vec<Arc<UdpSocket>>,
    // Dropping the set ends the tasks.
    tasks: JoinSet<()>,
    told_at: Instant,
}

/// Claims, and from whom.
pub(crate) type Heard = (IpAddr, Vec<(IpAddr, Claim)>);

impl Relay {
    /// Listens on each of `addresses`, and gives what it hears to `heard`.
    ///
    /// # Errors
    ///
    /// An address is not on this host or the port is taken.
    pub fn start(addresses: &[IpAddr], heard: &mpsc::Sender<Heard>) -> std::io::Result<Self> {
        let mut tasks = JoinSet::new();
        let mut sockets = Vec::new();
        for address in addresses {
            let socket = std::net::UdpSocket::bind((*address, RELAY_PORT))?;
            socket.set_nonblocking(true)?;
            let socket = Arc::new(UdpSocket::from_std(socket)?);
            tasks.spawn(listen(Arc::clone(&socket), heard.clone()));
            sockets.push(socket);
        }
        Ok(Self {
            sockets,
            tasks,
            told_at: Instant::ZERO,
        })
    }

    /// Tells every neighbor.
    pub fn tell(&self, neighbors: &[Neighbor], claims: impl Iterator<Item = (IpAddr, Claim)>) {
        for (socket, to, datagram) in self.letters(neighbors, claims) {
            send(&socket, to, &datagram);
        }
    }

    /// Tells every neighbor what is new, and again soon: answers to the host are lost until they know,
    /// and one datagram on its own is lost easily. Told twice or out of order does no harm.
    pub fn tell_news(&mut self, neighbors: &[Neighbor], news: (IpAddr, Claim)) {
        while self.tasks.try_join_next().is_some() {}
        let letters = self.letters(neighbors, std::iter::once(news));
        self.tasks.spawn(async move {
            for pause in NEWS {
                tokio::time::sleep(pause).await;
                for (socket, to, datagram) in &letters {
                    send(socket, *to, datagram);
                }
            }
        });
    }

    fn letters(
        &self,
        neighbors: &[Neighbor],
        claims: impl Iterator<Item = (IpAddr, Claim)>,
    ) -> Vec<(Arc<UdpSocket>, SocketAddr, Vec<u8>)> {
        let datagrams = emit_relays(claims);
        let mut letters = Vec::new();
        for address in neighbors.iter().flat_map(|it| it.addresses.first()) {
            let socket = self.sockets.iter().find(|socket| {
                let local = socket.local_addr();
                local.is_ok_and(|local| local.is_ipv4() == address.is_ipv4())
            });
            let to = SocketAddr::new(*address, RELAY_PORT);
            if let Some(socket) = socket {
                let all = datagrams.iter();
                letters.extend(all.map(|datagram| (Arc::clone(socket), to, datagram.clone())));
            }
        }
        letters
    }

    /// Whether all of it is to be told again.
    pub fn is_due(&mut self, now: Instant) -> bool {
        // Whoever asks does so about once a second: a tick that comes a little early must not wait for
        // the next.
        let due = now.since(self.told_at) >= AGAIN / 2;
        if due {
            self.told_at = now;
        }
        due
    }
}

fn send(socket: &UdpSocket, to: SocketAddr, datagram: &[u8]) {
    // What is lost is told again within a second.
    if let Err(error) = socket.try_send_to(datagram, to) {
        debug!(%to, %error, "another gateway was not told");
    }
}

async fn listen(socket: Arc<UdpSocket>, heard: mpsc::Sender<Heard>) {
    let mut buffer = [0; BUFFER];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) => {
                let claims = parse_relay(buffer.get(..length).unwrap_or_default());
                if heard.send((from.ip(), claims)).await.is_err() {
                    return;
                }
            }
            // An ICMP error for something sent earlier. The pause keeps a kernel that goes on refusing
            // from taking a core.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Writes down that a host is somewhere else.
pub(crate) fn log(host: &str, at: &str) {
    info!(host, at, because = "the host says so", "host moved");
}

const NEIGHBOR: &str = "gateway/";
const KEEPALIVE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(1);
/// How long after the one before news are told: at once, and three times more.
const NEWS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];
const BUFFER: usize = 2048;

#[cfg(test)]
mod tests {
    use kedge_tunnel_device::{Workers, offload::Allowed};
    use kedge_tunnel_proto::noise::CoreName;

    use super::*;

    fn key(byte: u8) -> PublicKey {
        PublicKey::from_bytes([byte; 32]).unwrap()
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn host(number: u8) -> PeerSpec {
        PeerSpec {
            name: format!("host-{number}"),
            public_key: key(number),
            preshared_key: None,
            endpoint: None,
            allowed_ips: vec![net(&format!("198.18.0.{number}/32"))],
            keepalive: None,
            always_up: false,
            accepts: Vec::new(),
            relays: false,
            realm: None,
            next_key: None,
        }
    }

    fn config() -> TunnelConfig {
        TunnelConfig {
            tls_port: None,
            other_port: None,
            bench_mbps: 0,
            listen_port: 51820,
            interface: "kedge0".to_owned(),
            mtu: None,
            offload: Allowed::ALL,
            key_rotation: None,
            workers: None,
            gateways: BTreeMap::from([(
                "b".parse().unwrap(),
                NeighborConfig {
                    public_key: key(99),
                    next_public_key: None,
                    endpoint: None,
                    addresses: vec!["198.18.0.2".parse().unwrap()],
                },
            )]),
            behind: vec![net("10.9.0.0/24")],
        }
    }

    fn wish(peers: Vec<PeerSpec>) -> Wish {
        Wish {
            ifname: "kedge0".to_owned(),
            listen_port: 51820,
            other_port: None,
            mtu: 1420,
            noise_core: CoreName::Boringtun,
            offload: Allowed::ALL,
            workers: Workers::ONE,
            addresses: Vec::new(),
            peers,
            realms: BTreeMap::new(),
        }
    }

    #[test]
    fn packets_go_where_the_newest_claim_says_and_come_from_both() {
        let mut wish = wish(vec![host(10), host(11)]);
        let neighbors = add_neighbors(&config(), &mut wish);
        let [ten, eleven, ours] = ["198.18.0.10/32", "198.18.0.11/32", "198.18.0.2/32"].map(net);
        let behind = net("10.9.0.0/24");
        let mut claims = Claims::default();
        let mut claim = |epoch, gateway| {
            let gateway = key(gateway);
            claims.take(ten.addr(), Claim { epoch, gateway });
            claims.clone()
        };
        let moved = place(wish.clone(), &claim(1, 99), &neighbors, is_neighbor);
        let lists = |wish: &Wish| -> Vec<(Vec<IpNet>, Vec<IpNet>)> {
            let of = |it: &PeerSpec| (it.allowed_ips.clone(), it.accepts.clone());
            wish.peers.iter().map(of).collect()
        };
        assert_eq!(
            lists(&moved),
            [
                (vec![], vec![ten]),
                (vec![eleven], vec![]),
                (vec![ours, ten], vec![behind, eleven]),
            ]
        );
        // Who is heard here stays here.
        assert_eq!(
            place(wish.clone(), &claim(1, 99), &neighbors, |_| true),
            wish
        );
        // A gateway that is gone leads nowhere, and neither does one that nobody knows.
        let claims = claim(1, 99);
        assert_eq!(place(wish.clone(), &claims, &neighbors, |_| false), wish);
        assert_eq!(
            place(wish.clone(), &claim(2, 77), &neighbors, is_neighbor),
            wish
        );
    }
}
