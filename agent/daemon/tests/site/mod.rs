//! A site for the agent's tests: hosts on one wire, each in a namespace of its own, each running
//! the whole agent.

use std::{
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hyper::{Method, StatusCode};
use kedge_agent_daemon::AgentFile;
use kedge_control::agent::HostConfig;
use kedge_core::Problem;
use kedge_host::{Role, Root, layers::Live, local::call, orders::Order, state::Store};
use kedge_net::{
    link::Links,
    netns::{Lease, Namespace, Worker},
};
use serde_json::Value;
use tokio::{runtime::Builder, sync::mpsc};

/// Whether the tests of this tier can run; says why not, and fails where CI requires the tier.
pub fn ready() -> bool {
    if kedge_net::privilege::check().is_ok() {
        return true;
    }
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|tier| tier == "netns");
    assert!(!required, "network namespaces need root");
    eprintln!("skipped: network namespaces need root");
    false
}

/// Waits for a level, at most `limit`; says how long it took.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{what}: {:?}", start.elapsed());
    start.elapsed()
}

/// Two hosts, `10.20.14.11` and `.12`, on one wire.
pub struct Site {
    pub a: Host,
    pub b: Host,
    // After the hosts: dropped last.
    _lease: Lease,
}

/// A host: a namespace with `eth0`, a folder as root, and at most one agent.
pub struct Host {
    pub root: Root,
    agent: Option<Agent>,
    worker: Worker,
    _namespace: Namespace,
    _dir: tempfile::TempDir,
}

struct Agent {
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<Result<(), Problem>>,
}

impl Site {
    pub fn new() -> Self {
        let lease = Lease::take().unwrap();
        let spaces = ["a", "b"].map(|name| Namespace::create(&lease.namespace(name)).unwrap());
        let [a, b] = spaces;
        let workers = [&a, &b].map(|namespace| Worker::start(namespace).unwrap());
        let [first, second] = workers;
        let other = b.name().to_owned();
        first
            .run(move || {
                let other = Namespace::open(&other).unwrap();
                Links::open()
                    .unwrap()
                    .veth("eth0", "eth0", Some(&other))
                    .unwrap();
            })
            .unwrap();
        Self {
            a: Host::new(a, first, "10.20.14.11/24"),
            b: Host::new(b, second, "10.20.14.12/24"),
            _lease: lease,
        }
    }
}

impl Host {
    fn new(namespace: Namespace, worker: Worker, net: &'static str) -> Self {
        worker
            .run(move || {
                let mut links = Links::open().unwrap();
                links.up("lo").unwrap();
                links.up("eth0").unwrap();
                links.add_address("eth0", net.parse().unwrap()).unwrap();
            })
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir_all(root.config_dir()).unwrap();
        Self {
            root,
            agent: None,
            worker,
            _namespace: namespace,
            _dir: dir,
        }
    }

    /// Writes `agent.yaml`.
    pub fn configure(&self, yaml: &str) {
        std::fs::write(self.root.config_file(Role::Agent), yaml).unwrap();
    }

    /// Leaves what an earlier process was told by its manager.
    pub fn remember(&self, desired: &HostConfig) {
        Store::new(self.root.state_dir(Role::Agent))
            .save("desired", desired)
            .unwrap();
    }

    /// Starts the agent with what is configured.
    pub fn start(&mut self) {
        let (orders, received) = mpsc::channel(4);
        let root = self.root.clone();
        let thread = self.run(move || {
            std::thread::spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                let live = Live::<AgentFile>::load(root, Vec::new()).unwrap();
                runtime
                    .block_on(kedge_agent_daemon::serve(live, None, received))
                    .map(drop)
            })
        });
        self.agent = Some(Agent { orders, thread });
        let socket = self.root.socket(Role::Agent);
        eventually("the agent serves", Duration::from_secs(5), || {
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    /// Gives an order as a signal would.
    pub fn order(&self, order: Order) {
        self.agent.as_ref().unwrap().orders.try_send(order).unwrap();
    }

    /// Lets the agent leave gracefully, and waits for it.
    pub fn stop(&mut self) -> Result<(), Problem> {
        self.order(Order::Leave("test"));
        self.agent.take().unwrap().thread.join().unwrap()
    }

    /// Runs a job in the host's namespace.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.worker.run(job).unwrap()
    }

    /// What the control socket answers.
    pub fn get(&self, route: &str) -> Value {
        let (status, body) = self.ask(Method::GET, route);
        assert_eq!(status, StatusCode::OK, "{route}: {body}");
        body
    }

    pub fn ask(&self, method: Method, route: &str) -> (StatusCode, Value) {
        self.send(method, route, Vec::new())
    }

    /// What it answers to an order, which it takes.
    pub fn post(&self, route: &str, body: &Value) -> Value {
        let body = serde_json::to_vec(body).unwrap();
        let (status, told) = self.send(Method::POST, route, body);
        assert_eq!(status, StatusCode::OK, "{route}: {told}");
        told
    }

    fn send(&self, method: Method, route: &str, body: Vec<u8>) -> (StatusCode, Value) {
        let socket = self.root.socket(Role::Agent);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime
            .block_on(call(&socket, method, route, body))
            .unwrap();
        (reply.status, reply.json().unwrap())
    }

    /// The state of the VIP `api`, as the socket tells.
    pub fn state(&self) -> String {
        let vips = self.get("/v1/vips");
        vips["items"][0]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Whether a VIP became Active once, and again only where the machine stood still for longer
    /// than three adverts.
    pub fn undisturbed(&self, vip: &str) -> bool {
        let explained = self.get(&format!("/v1/vips/{vip}/explain"));
        let counter = |name: &str| explained["counters"][name].as_u64().unwrap();
        let (active, stalls) = (counter("became_active"), counter("stalls"));
        // It may be on its way back from the last one.
        active > 0 && (stalls..=stalls + 1).contains(&active)
    }

    /// Whether `eth0` has an address.
    pub fn holds(&self, address: &str) -> bool {
        let address: std::net::IpAddr = address.parse().unwrap();
        self.run(move || {
            let addresses = Links::open().unwrap().addresses("eth0").unwrap();
            addresses.iter().any(|net| net.addr() == address)
        })
    }

    /// What `ip` prints, told these words.
    pub fn ip(&self, words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        self.run(move || {
            let output = std::process::Command::new("ip").args(words).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        })
    }

    /// The codes of the problems in the status.
    pub fn problems(&self) -> Vec<String> {
        let status = self.get("/v1/status");
        let problems = status["problems"].as_array().unwrap();
        let code = |problem: &Value| problem["code"].as_str().unwrap().to_owned();
        problems.iter().map(code).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take() {
            let _ = agent.orders.try_send(Order::Leave("the test is over"));
            let _ = agent.thread.join();
        }
    }
}
