//! Two ends that look what their ways carry, and traffic that has to arrive.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_net::netns::Namespace;
use kedge_tunnel_device::{
    Device,
    backend::Backend as _,
    echo,
    paths::{Because, Config, PathFinder, PathMtu, Peer},
};
use tokio::runtime::Runtime;

use super::tunnel::{Site, run};

/// A device that keeps to what its way carries, and answers the other end's questions.
pub struct End<'a> {
    namespace: &'a Namespace,
    runtime: &'a Runtime,
    pub device: Device,
    finder: PathFinder,
    peer: Peer,
    _answers: echo::Responder,
    tended: Option<Instant>,
}

impl<'a> End<'a> {
    pub fn new(
        namespace: &'a Namespace,
        runtime: &'a Runtime,
        device: Device,
        peer: &str,
        [local, remote]: [&str; 2],
        config: Config,
    ) -> Self {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let own = [address(local)];
        let answers = namespace
            .run(|| {
                let _guard = runtime.enter();
                echo::Responder::start(&own).unwrap()
            })
            .unwrap();
        Self {
            namespace,
            runtime,
            device,
            finder: PathFinder::new(config),
            peer: Peer {
                name: peer.to_owned(),
                ends: Some((address(local), address(remote))),
            },
            _answers: answers,
            tended: None,
        }
    }

    /// What a role does each second, a little more often.
    pub fn tend(&mut self) {
        if self.tended.is_some_and(|at| at.elapsed() < TEND) {
            return;
        }
        self.tended = Some(Instant::now());
        let Self {
            device,
            finder,
            peer,
            ..
        } = self;
        let runtime = self.runtime;
        self.namespace
            .run(|| {
                let _guard = runtime.enter();
                finder.tend(Some(&*device), 1, std::slice::from_ref(peer));
                device.lead(&finder.paths()).unwrap();
            })
            .unwrap();
    }

    pub fn known(&self) -> Option<PathMtu> {
        self.finder.of(&self.peer.name)
    }

    pub fn mtu(&self) -> u16 {
        self.known().map_or(0, |known| known.mtu)
    }

    /// Whether no larger ones are being tried.
    pub fn is_settled(&self) -> bool {
        let known = self.known().map(|known| known.because);
        known.is_some_and(|it| !matches!(it, Because::Searching | Because::Unasked))
    }

    /// What the kernel says of the route to the other end.
    pub fn route(&self) -> String {
        let to = self.peer.ends.unwrap().1.to_string();
        run(self.namespace, "ip", &["route", "get", &to])
    }
}

const TEND: Duration = Duration::from_millis(200);

/// Has a hop drop what tells of its MTU, and its neighbour drop what was cut there.
pub fn say_nothing(site: &Site) {
    let rules = "add table inet quiet; \
        add chain inet quiet out { type filter hook output priority 0; }; \
        add rule inet quiet out icmp type destination-unreachable counter drop; \
        add rule inet quiet out icmpv6 type packet-too-big counter drop;";
    run(&site.router, "nft", &[rules]);
    let rules = "add table netdev whole; \
        add chain netdev whole in { type filter hook ingress device eth0 priority 0; }; \
        add rule netdev whole in ip frag-off & 0x3fff != 0 counter drop;";
    for namespace in [&site.host, &site.gateway] {
        run(namespace, "nft", &[rules]);
    }
}

pub fn link_mtu(namespace: &Namespace, link: &str, mtu: u16) {
    let mtu = mtu.to_string();
    run(namespace, "ip", &["link", "set", link, "mtu", &mtu]);
}

/// TCP from one end to the other, for as long as this lives.
pub struct Flow {
    end: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    pub fn start(from: &Namespace, to: &Namespace, address: &str) -> Self {
        let address: IpAddr = address.parse().unwrap();
        let listener = to.run(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        let stream = from
            .run(|| TcpStream::connect_timeout(&at, Duration::from_secs(5)).unwrap())
            .unwrap();
        let (end, arrived) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut threads = Vec::new();
        let (ended, counter) = (Arc::clone(&end), Arc::clone(&arrived));
        threads.push(thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(TICK)).unwrap();
            let mut buffer = vec![0; 1 << 17];
            while !ended.load(Ordering::Relaxed) {
                if let Ok(length) = stream.read(&mut buffer) {
                    counter.fetch_add(length as u64, Ordering::Relaxed);
                }
            }
        }));
        let ended = Arc::clone(&end);
        threads.push(thread::spawn(move || {
            let mut stream = stream;
            stream.set_write_timeout(Some(TICK)).unwrap();
            let buffer = vec![7; 1 << 16];
            while !ended.load(Ordering::Relaxed) {
                // A full buffer is no end.
                let _ = stream.write(&buffer);
                // Some 60 MB/s: the machine has other work.
                thread::sleep(Duration::from_millis(1));
            }
        }));
        Self {
            end,
            arrived,
            threads,
        }
    }

    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

const TICK: Duration = Duration::from_millis(50);
