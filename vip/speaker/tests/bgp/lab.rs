//! Two hosts on a wire, and a real BIRD on one of them.

use std::{
    fs,
    net::Ipv4Addr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use kedge_net::{
    link::Links,
    netns::{Lease, Namespace},
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const BIRD: &str = "/usr/sbin/bird";

/// Whether there is what the tests need. With `KEDGE_REQUIRE=netns` there has to be.
pub fn ready() -> bool {
    let is_ready = kedge_net::privilege::check().is_ok() && fs::exists(BIRD).unwrap();
    let required = std::env::var("KEDGE_REQUIRE").unwrap_or_default();
    assert!(
        is_ready || !required.contains("netns"),
        "needs root and BIRD 2"
    );
    if !is_ready {
        println!("skipped: needs root and BIRD 2");
    }
    is_ready
}

/// What names of namespaces come from.
pub struct Lan(Lease);

/// A host with `eth0`.
pub struct Host {
    namespace: Namespace,
    address: Ipv4Addr,
}

/// A running BIRD; killed when dropped.
pub struct Bird<'a> {
    host: &'a Host,
    process: Option<Child>,
    directory: TempDir,
}

impl Lan {
    pub fn new() -> Self {
        Self(Lease::take().unwrap())
    }

    /// 10.20.14.11 and 10.20.14.12.
    pub fn pair(&self) -> (Host, Host) {
        let host = |name: &str, last| Host {
            namespace: Namespace::create(&self.0.namespace(name)).unwrap(),
            address: Ipv4Addr::new(10, 20, 14, last),
        };
        let (a, b) = (host("a", 11), host("b", 12));
        let far = &b.namespace;
        a.namespace
            .run(|| {
                Links::open()
                    .unwrap()
                    .veth("eth0", "eth0", Some(far))
                    .unwrap()
            })
            .unwrap();
        for it in [&a, &b] {
            it.run(|| {
                let mut links = Links::open().unwrap();
                links.up("lo").unwrap();
                links.up("eth0").unwrap();
            });
            it.add_address(&format!("{}/24", it.address));
        }
        (a, b)
    }
}

impl Host {
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(job).unwrap()
    }

    pub fn add_address(&self, net: &str) {
        let net = net.parse().unwrap();
        self.run(|| Links::open().unwrap().add_address("eth0", net).unwrap());
    }
}

impl<'a> Bird<'a> {
    pub fn running(host: &'a Host, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("bird.conf"), text).unwrap();
        let output = fs::File::create(path.join("out")).unwrap();
        let mut command = Command::new(BIRD);
        command.arg("-f").arg("-c").arg(path.join("bird.conf"));
        command.arg("-s").arg(path.join("ctl")).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        let process = Some(host.run(|| command.spawn().unwrap()));
        let bird = Self {
            host,
            process,
            directory,
        };
        eventually("BIRD answers", secs(10), || {
            bird.birdc("show status").contains("BIRD")
        });
        bird
    }

    /// Runs a command of `birdc`.
    pub fn birdc(&self, command: &str) -> String {
        let mut birdc = Command::new("/usr/sbin/birdc");
        birdc.arg("-s").arg(self.directory.path().join("ctl"));
        birdc.args(command.split(' '));
        let output = self.host.run(|| birdc.output().unwrap());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What it wrote into its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("out")).unwrap_or_default()
    }

    /// Has it stand still, or go on.
    pub fn freeze(&self, is_frozen: bool) {
        let process = self.process.as_ref().unwrap();
        let signal = if is_frozen {
            Signal::STOP
        } else {
            Signal::CONT
        };
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Bird<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until something holds, and says how long that took.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("  {what}: {:?}", start.elapsed());
    start.elapsed()
}

/// Looks that something holds all the time.
pub fn throughout(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(holds(), "not after {:?}: {what}", start.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
