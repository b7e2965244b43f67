//! A throw-away LAN: a bridge in a namespace of its own, and hosts on it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use ipnet::{IpNet, Ipv4Net};
use kedge_net::{
    link::{Links, sysctl},
    netns::{Lease, Namespace, Worker},
};
use socket2::{Domain, Socket, Type};

use crate::secs;

/// A LAN. Everything on it goes when it is dropped.
#[derive(Debug)]
pub struct Lan {
    switch: Worker,
    _switch: Namespace,
    lease: Lease,
    quiet: bool,
}

/// A host on the LAN, with `eth0`.
#[derive(Debug)]
pub struct Host {
    /// Its name, also that of its port on the bridge.
    pub name: String,
    /// Its address.
    pub net: Ipv4Net,
    worker: Worker,
    namespace: Namespace,
    directory: PathBuf,
}

impl Lan {
    /// A LAN with nobody on it.
    #[must_use]
    pub fn new() -> Self {
        Self::with(false)
    }

    /// A LAN on which nobody says anything of his own accord: without IPv6.
    #[must_use]
    pub fn quiet() -> Self {
        Self::with(true)
    }

    fn with(quiet: bool) -> Self {
        let lease = Lease::take().unwrap();
        let namespace = Namespace::create(&lease.namespace("switch")).unwrap();
        let switch = Worker::start(&namespace).unwrap();
        switch
            .run(move || {
                silence(quiet);
                Links::open().unwrap().bridge(BRIDGE).unwrap();
                if quiet {
                    // A bridge that snoops joins a group itself, and says so.
                    let off = [
                        "link",
                        "set",
                        BRIDGE,
                        "type",
                        "bridge",
                        "mcast_snooping",
                        "0",
                    ];
                    assert!(Command::new("ip").args(off).status().unwrap().success());
                }
            })
            .unwrap();
        Self {
            switch,
            _switch: namespace,
            lease,
            quiet,
        }
    }

    /// Has the bridge run the spanning tree protocol: a port that comes up listens and learns for
    /// [`LISTENING`] before it forwards anything, and its carrier is there meanwhile.
    pub fn run_spanning_tree(&self) {
        self.switch
            .run(|| {
                let line = format!("link set {BRIDGE} type bridge stp_state 1 forward_delay 200");
                let set = Command::new("ip").args(line.split(' ')).status();
                assert!(set.unwrap().success());
            })
            .unwrap();
    }

    /// Two hosts, `a` with 10.20.14.11 and `b` with 10.20.14.12.
    #[must_use]
    pub fn pair(&self) -> (Host, Host) {
        (
            self.host("a", "10.20.14.11/24"),
            self.host("b", "10.20.14.12/24"),
        )
    }

    /// A new host with an address.
    #[must_use]
    pub fn host(&self, name: &str, net: &str) -> Host {
        let net: Ipv4Net = net.parse().unwrap();
        let namespace = Namespace::create(&self.lease.namespace(name)).unwrap();
        let host = namespace.name().to_owned();
        let port = name.to_owned();
        self.switch
            .run(move || {
                let mut links = Links::open().unwrap();
                links
                    .veth(&port, "eth0", Some(&Namespace::open(&host).unwrap()))
                    .unwrap();
                links.attach(&port, BRIDGE).unwrap();
                links.up(&port).unwrap();
            })
            .unwrap();
        let worker = Worker::start(&namespace).unwrap();
        let quiet = self.quiet;
        worker
            .run(move || {
                silence(quiet);
                let mut links = Links::open().unwrap();
                links.up("lo").unwrap();
                if !quiet {
                    // The link-local address is there at once: nobody else has it.
                    sysctl("ipv6/conf/eth0/accept_dad", "0").unwrap();
                }
                links.up("eth0").unwrap();
                links.add_address("eth0", IpNet::V4(net)).unwrap();
            })
            .unwrap();
        let directory = self.lease.directory().join(name);
        std::fs::create_dir(&directory).unwrap();
        Host {
            name: name.to_owned(),
            net,
            worker,
            namespace,
            directory,
        }
    }

    /// A host that others made: its network is a namespace that exists, and has `eth0` with an
    /// address. `port` of the LAN's namespace is its port on the bridge.
    #[must_use]
    pub fn adopt(&self, name: &str, net: &str, namespace: Namespace, port: &str) -> Host {
        let name_of_port = port.to_owned();
        self.switch
            .run(move || {
                let mut links = Links::open().unwrap();
                links.attach(&name_of_port, BRIDGE).unwrap();
                links.up(&name_of_port).unwrap();
            })
            .unwrap();
        let directory = self.lease.directory().join(name);
        std::fs::create_dir(&directory).unwrap();
        Host {
            name: port.to_owned(),
            net: net.parse().unwrap(),
            worker: Worker::start(&namespace).unwrap(),
            namespace,
            directory,
        }
    }

    /// What tells this LAN's namespaces from those of others.
    #[must_use]
    pub fn id(&self) -> &str {
        self.lease.id()
    }

    /// The name of a host's namespace.
    #[must_use]
    pub fn namespace(&self, host: &str) -> String {
        self.lease.namespace(host)
    }

    /// Cuts a host's port on the bridge.
    pub fn unplug(&self, host: &Host) {
        let port = host.name.clone();
        self.switch
            .run(move || Links::open().unwrap().down(&port).unwrap())
            .unwrap();
    }

    /// Connects a host's port again.
    pub fn plug(&self, host: &Host) {
        let port = host.name.clone();
        self.switch
            .run(move || Links::open().unwrap().up(&port).unwrap())
            .unwrap();
    }

    /// Has the switch drop what is longer than that on its way to a host, and say nothing.
    pub fn narrow(&self, host: &Host, mtu: u32) {
        let port = host.name.clone();
        self.switch
            .run(move || Links::open().unwrap().set_mtu(&port, mtu).unwrap())
            .unwrap();
    }

    /// Starts a process that sees every frame of the LAN on [`BRIDGE`].
    #[must_use]
    pub fn spawn(&self, command: Command) -> Child {
        self.switch.spawn(command).unwrap().unwrap()
    }

    /// A directory that goes with the LAN.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.lease.directory().to_owned()
    }
}

impl Default for Lan {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// Gives the host's firewall an order, in the words of `nft`.
    pub fn nft(&self, rules: impl Into<String>) {
        let rules = rules.into();
        self.run(move || {
            let status = Command::new("nft").arg(rules).status().unwrap();
            assert!(status.success());
        });
    }

    /// Its own address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.net.addr()
    }

    /// The hardware address of `eth0`.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.run(|| Links::open().unwrap().show("eth0").unwrap().mac.unwrap())
    }

    /// The index of `eth0`.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.run(|| Links::open().unwrap().index("eth0").unwrap())
    }

    /// Whether `eth0` has an address, with whatever prefix.
    #[must_use]
    pub fn holds(&self, address: &str) -> bool {
        let address: IpAddr = address.parse().unwrap();
        self.run(move || {
            let addresses = Links::open().unwrap().addresses("eth0").unwrap();
            addresses.iter().any(|net| net.addr() == address)
        })
    }

    /// Has it forward, and tell nobody that everything is on one wire.
    pub fn forwards(&self) {
        self.run(|| {
            sysctl("ipv4/ip_forward", "1").unwrap();
            for scope in ["all", "eth0"] {
                sysctl(&format!("ipv4/conf/{scope}/send_redirects"), "0").unwrap();
            }
        });
    }

    /// Gives `eth0` another address.
    pub fn add_address(&self, net: &str) {
        let net: IpNet = net.parse().unwrap();
        self.run(move || Links::open().unwrap().add_address("eth0", net).unwrap());
    }

    /// Gives `eth0` the address of its number in fd00:14::/64 too: fd00:14::b for 10.20.14.11.
    pub fn add_ipv6(&self) {
        let [.., number] = self.address().octets();
        self.add_address(&format!("fd00:14::{number:x}/64"));
    }

    /// Its link-local address.
    #[must_use]
    pub fn link_local(&self) -> IpAddr {
        let addresses = self.run(|| Links::open().unwrap().addresses("eth0").unwrap());
        // A VIP may be link-local too, and stands there alone.
        let own = addresses.iter().filter(|net| net.prefix_len() == 64);
        own.map(IpNet::addr)
            .find(|it| matches!(it, IpAddr::V6(v6) if v6.is_unicast_link_local()))
            .unwrap()
    }

    /// A connection from one of its addresses, if it comes about.
    #[must_use]
    pub fn connect(&self, from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
        self.try_connect(from, to).ok()
    }

    /// The same, or why it does not: one that was taken may have been reset before this could look.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn try_connect(&self, from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
        self.run(move || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
            socket.connect_timeout(&to.into(), secs(1))?;
            Ok(socket.into())
        })
    }

    /// Runs a job inside.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.worker.run(job).unwrap()
    }

    /// Starts a process inside; it ends with the host.
    #[must_use]
    pub fn spawn(&self, command: Command) -> Child {
        self.worker.spawn(command).unwrap().unwrap()
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// A directory of its own.
    #[must_use]
    pub fn directory(&self) -> &PathBuf {
        &self.directory
    }
}

/// Switches IPv6 off in the calling thread's namespace.
fn silence(quiet: bool) {
    if quiet {
        for scope in ["all", "default"] {
            sysctl(&format!("ipv6/conf/{scope}/disable_ipv6"), "1").unwrap();
        }
    }
}

/// The bridge's name.
pub const BRIDGE: &str = "br0";
/// For how long a port forwards nothing: twice the shortest delay Linux takes.
pub const LISTENING: Duration = Duration::from_secs(4);
