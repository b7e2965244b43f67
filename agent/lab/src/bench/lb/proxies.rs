//! What proxies take of the processor for the same bytes and connections: the gateway's own, Envoy beside a
//! gateway, and HAProxy where it is installed. They take turns.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    num::NonZeroU16,
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use kedge_net::link::{LinkError, Links};

use super::{
    super::{Samples, cost},
    Sizes,
    ends::{BackEnd, ask, asked},
    gateway::{GATEWAY, Gateway, Service, back, envoy_beside},
    place::MOMENT,
    site::CLIENT,
};
use crate::{
    error::LabError,
    lab::Lab,
    preflight::is_installed,
    stage::Stage,
    topology::{Topology, lan_address},
};

/// What was measured of one proxy.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Seconds of processor time for each GiB.
    pub(super) bulk: Samples,
    /// Microseconds of it for each connection that was opened, answered and closed.
    pub(super) connect: Samples,
    /// MiB: all that is resident, and what of it is no page of a file.
    pub(super) resident: Samples,
    pub(super) anonymous: Samples,
    /// Connections to one service that were not served while all were open.
    pub(super) refused: Samples,
}

/// What was measured of each.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    pub(super) builtin: Cost,
    pub(super) envoy: Cost,
    pub(super) haproxy: Option<Cost>,
}

/// A proxy on a node.
struct Proxy {
    name: &'static str,
    node: &'static str,
    process: &'static str,
    address: Ipv4Addr,
    cost: Cost,
    _back: [BackEnd; 3],
}

/// Measures on a lab of its own; and what could not be removed.
pub(super) fn measure(
    kedge: &Path,
    envoy: &Path,
    sizes: &Sizes,
    stage: &Stage,
) -> Result<(Proxies, Vec<String>), LabError> {
    super::on_a_lab(("proxies", Topology::balancers()), kedge, sizes, |lab| {
        run(lab, envoy, sizes, stage)
    })
}

fn run(lab: &mut Lab, envoy: &Path, sizes: &Sizes, stage: &Stage) -> Result<Proxies, LabError> {
    let services = services();
    let mut proxies = Vec::new();
    for (name, node, edge, number) in [
        ("builtin", "builtin", "edge-a", 22),
        ("envoy", GATEWAY, "edge-b", 21),
    ] {
        let address = lan_address(number);
        let gateway = Gateway {
            node,
            address,
            edge,
            engine: name,
        };
        gateway.start(lab, &services)?;
        let process = if name == "envoy" {
            let at = (node, node, "envoy");
            envoy_beside(lab, at, envoy, |_| (), stage)?;
            "envoy"
        } else {
            GATEWAY
        };
        proxies.push(Proxy::new(lab, (name, node, process), address)?);
    }
    if is_installed("haproxy") {
        haproxy(lab, &services, sizes.connections)?;
        let what = ("haproxy", "haproxy", "haproxy");
        proxies.push(Proxy::new(lab, what, lan_address(23))?);
    } else {
        stage.tell("HAProxy is not installed and is left out (Debian package haproxy)");
    }
    for proxy in &proxies {
        proxy.until_served(lab, stage)?;
    }
    let many = proxies.len();
    for run in 0..sizes.runs as usize {
        for turn in 0..many {
            let Some(proxy) = proxies.get_mut((turn + run) % many) else {
                continue;
            };
            let bulk = proxy.bulk(lab, sizes.bytes)?;
            let connect = proxy.connect(lab, sizes.connects)?;
            proxy.cost.bulk.push(bulk);
            proxy.cost.connect.push(connect);
            stage.tell(&format!(
                "{}: {bulk:.3} s of processor for a GiB, {connect:.1} µs for a connection",
                proxy.name
            ));
        }
    }
    for proxy in &mut proxies {
        let pid = proxy.pid(lab)?;
        let (resident, anonymous) = (cost::rss(pid), cost::anonymous(pid));
        proxy.cost.resident.push(resident);
        proxy.cost.anonymous.push(anonymous);
        let refused = proxy.crowd(lab, sizes.connections)?;
        proxy.cost.refused.push(refused);
        stage.tell(&format!(
            "{}: {resident:.1} MiB resident, {anonymous:.1} of it its own, {refused} of {} connections at once refused",
            proxy.name, sizes.connections
        ));
    }
    let mut costs = proxies.into_iter().map(|proxy| proxy.cost);
    Ok(Proxies {
        builtin: costs.next().unwrap_or_default(),
        envoy: costs.next().unwrap_or_default(),
        haproxy: costs.next(),
    })
}

impl Proxy {
    fn new(
        lab: &Lab,
        (name, node, process): (&'static str, &'static str, &'static str),
        address: Ipv4Addr,
    ) -> Result<Self, LabError> {
        let [sink, answer, hold] =
            services().map(|service| SocketAddr::from((back(), service.to.get())));
        let mut held = Vec::new();
        let back = [
            BackEnd::start(lab, node, sink, |stream| {
                // Who sends sees that it was not taken.
                thread::spawn(move || swallow(stream));
            })?,
            BackEnd::answering(lab, node, answer, b'x')?,
            BackEnd::start(lab, node, hold, move |mut stream| {
                // Who asks sees that it was not answered.
                let _ = stream.write_all(b"h");
                held.push(stream);
            })?,
        ];
        Ok(Self {
            name,
            node,
            process,
            address,
            cost: Cost::default(),
            _back: back,
        })
    }

    fn at(&self, place: usize) -> SocketAddr {
        let port = services().get(place).map_or(0, |it| it.port.get());
        (self.address, port).into()
    }

    fn pid(&self, lab: &mut Lab) -> Result<u32, LabError> {
        Ok(lab.process(self.node, self.process)?.pid())
    }

    fn until_served(&self, lab: &mut Lab, stage: &Stage) -> Result<(), LabError> {
        let what = format!("{} serves", self.name);
        for place in [ANSWER, HOLD] {
            let at = self.at(place);
            stage.eventually(&what, SERVED, || match lab.fallen() {
                Some(fallen) => Err(fallen),
                None => asked(lab, CLIENT, at),
            })?;
        }
        Ok(())
    }

    fn bulk(&self, lab: &mut Lab, bytes: u64) -> Result<f64, LabError> {
        let (pid, at) = (self.pid(lab)?, self.at(SINK));
        let before = cost::processor_seconds(pid);
        let arrived = lab.worker(CLIENT)?.run(move || send(at, bytes))?;
        let spent = cost::processor_seconds(pid) - before;
        let arrived = arrived.map_err(LabError::file(format!("a stream through {}", self.name)))?;
        if arrived != bytes {
            return Err(LabError::Unexpected {
                who: self.name.to_owned(),
                said: format!("carried {arrived} of {bytes} bytes"),
            });
        }
        Ok(spent / (amount(bytes) / GIB))
    }

    fn connect(&self, lab: &mut Lab, many: u32) -> Result<f64, LabError> {
        let (pid, at) = (self.pid(lab)?, self.at(ANSWER));
        let before = cost::processor_seconds(pid);
        let all = move || (0..many).try_for_each(|_| ask(at, MOMENT).map(drop));
        let asked = lab.worker(CLIENT)?.run(all)?;
        let spent = cost::processor_seconds(pid) - before;
        asked.map_err(LabError::file(format!(
            "a connection through {}",
            self.name
        )))?;
        Ok(spent / f64::from(many.max(1)) * 1e6)
    }

    /// How many of so many connections are not served while all of them are open.
    fn crowd(&self, lab: &Lab, many: u32) -> Result<f64, LabError> {
        let at = self.at(HOLD);
        let refused = lab.worker(CLIENT)?.run(move || {
            let open: Vec<Option<TcpStream>> = (0..many).map(|_| open(at).ok()).collect();
            let lives = |stream: &&Option<TcpStream>| stream.as_ref().is_some_and(is_open);
            let living = open.iter().filter(lives).count();
            many.saturating_sub(u32::try_from(living).unwrap_or(0))
        })?;
        Ok(f64::from(refused))
    }
}

/// Reads until nothing comes any more, and says how much it was.
fn swallow(mut stream: TcpStream) {
    let mut buffer = vec![0; CHUNK];
    let mut taken = 0_u64;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => taken += u64::try_from(length).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
    // Who has left needs no answer.
    let _ = stream.write_all(&taken.to_be_bytes());
}

/// Sends so many bytes, and returns how many arrived.
fn send(at: SocketAddr, bytes: u64) -> io::Result<u64> {
    let mut stream = TcpStream::connect_timeout(&at, MOMENT)?;
    stream.set_read_timeout(Some(STREAM))?;
    stream.set_write_timeout(Some(STREAM))?;
    let buffer = vec![0x55; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let next = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        stream.write_all(buffer.get(..next).unwrap_or_default())?;
        left -= u64::try_from(next).unwrap_or(left);
    }
    stream.shutdown(Shutdown::Write)?;
    let mut arrived = [0; 8];
    stream.read_exact(&mut arrived)?;
    Ok(u64::from_be_bytes(arrived))
}

/// A connection whose back end has said something.
fn open(at: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&at, MOMENT)?;
    stream.set_read_timeout(Some(MOMENT))?;
    stream.read_exact(&mut [0])?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Whether nobody has closed it.
fn is_open(stream: &TcpStream) -> bool {
    let read = (&mut &*stream).read(&mut [0]);
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn haproxy(lab: &mut Lab, services: &[Service], connections: u32) -> Result<(), LabError> {
    let node = "haproxy";
    let back_end = back();
    lab.worker(node)?.run(move || -> Result<(), LinkError> {
        Links::open()?.add_address("lo", back_end.into())
    })??;
    // It wants two descriptors for each connection that may come.
    let most = connections + 1_000;
    let mut text = format!(
        "global\n  maxconn {most}\n  nbthread 1\ndefaults\n  mode tcp\n  maxconn {most}\n  \
         timeout connect 1s\n  timeout client 1h\n  timeout server 1h\n"
    );
    for service in services {
        text += &format!(
            "listen {}\n  bind {}:{} backlog 4096\n  server one {}:{}\n",
            service.name,
            lan_address(23),
            service.port,
            back(),
            service.to
        );
    }
    let folder = lab.root(node);
    std::fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
    let file = folder.join("haproxy.cfg");
    std::fs::write(&file, text).map_err(LabError::file(&file))?;
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file);
    lab.start(node, "haproxy", command)
}

/// One that swallows, one that answers and closes, and one that answers and keeps.
fn services() -> [Service; 3] {
    let service = |(place, name): (u16, &'static str)| Service {
        name,
        port: NonZeroU16::MIN.saturating_add(8_099 + place),
        to: NonZeroU16::MIN.saturating_add(9_099 + place),
    };
    [(0, "sink"), (1, "answer"), (2, "hold")].map(service)
}

fn amount(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / MIB).unwrap_or(u32::MAX)) * (GIB / 1024.0)
}

const SINK: usize = 0;
const ANSWER: usize = 1;
const HOLD: usize = 2;
const CHUNK: usize = 256 * 1024;
const GIB: f64 = 1_073_741_824.0;
pub(super) const MIB: u64 = 1 << 20;
const SERVED: Duration = Duration::from_secs(20);
/// Longer than any stream stands still.
const STREAM: Duration = Duration::from_secs(20);
