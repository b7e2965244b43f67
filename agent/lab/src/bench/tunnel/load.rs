//! What goes through the tunnel, and what the engine needs for it.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    super::{Samples, cost, said::said},
    site::{DAEMON, Site, inner},
};
use crate::{error::LabError, lab::Lab, topology::ENDS};

/// What passed, and the processor time of both daemons meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) amount: f64,
    pub(super) seconds: f64,
    pub(super) processor_seconds: f64,
}

impl Site {
    /// One TCP stream to an address of the second host, in bytes of payload that arrived.
    pub(super) fn stream(&mut self, to: Ipv4Addr) -> Result<Passed, LabError> {
        let [one, two] = ENDS;
        let mut server = Command::new("iperf3");
        server.args(["-s", "-1", "-B"]).arg(to.to_string());
        self.lab_mut().start(two, SERVER, server)?;
        let seconds = STREAM.as_secs().to_string();
        let client = move || {
            // The server listens in a moment.
            let begun = Instant::now();
            loop {
                let mut client = Command::new("iperf3");
                client.arg("-c").arg(to.to_string());
                client.args(["-J", "-t", &seconds]);
                let said = said(client, "");
                // With `-J` it may end well and say in its report that nobody listens.
                let failed = said
                    .as_ref()
                    .map_or(true, |report| error_of(report).is_some());
                if !failed || begun.elapsed() > Duration::from_secs(2) {
                    return said;
                }
                thread::sleep(Duration::from_millis(20));
            }
        };
        let before = self.processor_seconds()?;
        let report = self.lab().worker(one)?.run(client)??;
        let processor_seconds = self.processor_seconds()? - before;
        // It may end well and have measured nothing.
        let unexpected = || LabError::Unexpected {
            who: "iperf3".to_owned(),
            said: error_of(&report)
                .unwrap_or_else(|| format!("no sum of what it received: {report}")),
        };
        let report: serde_json::Value = serde_json::from_str(&report).map_err(|_| unexpected())?;
        let received = |key: &str| {
            report
                .pointer(&format!("/end/sum_received/{key}"))?
                .as_f64()
        };
        Ok(Passed {
            amount: received("bytes").ok_or_else(unexpected)?,
            seconds: received("seconds").ok_or_else(unexpected)?,
            processor_seconds,
        })
    }

    /// Datagrams of 64 bytes at 50 000 a second, in datagrams that arrived.
    pub(super) fn small(&mut self) -> Result<Passed, LabError> {
        let [from, to] = sockets(self.lab(), [inner(0), inner(1)])?;
        let counted = counting(to)?;
        let before = self.processor_seconds()?;
        let begun = Instant::now();
        let mut due = Duration::ZERO;
        while due < SMALL {
            for _ in 0..SMALL_BURST {
                // A full buffer is the engine's to answer for: what does not arrive is not counted.
                _ = from.send(&[0; 64]);
            }
            due += BURST_PAUSE;
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        let seconds = begun.elapsed().as_secs_f64();
        thread::sleep(DRAIN);
        let processor_seconds = self.processor_seconds()? - before;
        Ok(Passed {
            amount: counted.end(),
            seconds,
            processor_seconds,
        })
    }

    /// Round trips of 64 bytes, in seconds: through the tunnel, and beside it.
    pub(super) fn round_trips(&self) -> Result<[Samples; 2], LabError> {
        let outer = [0, 1].map(crate::topology::end_address);
        Ok([
            exchange(self.lab(), [inner(0), inner(1)], ROUND_TRIPS)?,
            exchange(self.lab(), outer, ROUND_TRIPS)?,
        ])
    }

    /// What is resident of the larger daemon, in MiB.
    pub(super) fn memory(&mut self) -> Result<f64, LabError> {
        let daemons = self.daemons()?;
        Ok(daemons.map(cost::rss).into_iter().fold(0.0, f64::max))
    }

    /// The memory of the gateway that is its own, in KiB.
    pub(super) fn gateway_memory(&mut self) -> Result<f64, LabError> {
        let [_, two] = ENDS;
        let pid = self.lab_mut().process(two, DAEMON)?.pid();
        Ok(cost::pss(pid) * 1024.0)
    }

    /// The same once it rests: what was needed to be told is given back in a moment.
    pub(super) fn gateway_memory_at_rest(&mut self) -> Result<f64, LabError> {
        let mut before = self.gateway_memory()?;
        for _ in 0..REST {
            thread::sleep(SOON);
            let memory = self.gateway_memory()?;
            if (memory - before).abs() < before / 200.0 {
                return Ok(memory);
            }
            before = memory;
        }
        Ok(before)
    }

    /// The processor time of the gateway so far, in seconds.
    pub(super) fn gateway_seconds(&mut self) -> Result<f64, LabError> {
        let [_, two] = ENDS;
        let pid = self.lab_mut().process(two, DAEMON)?.pid();
        Ok(cost::processor_seconds(pid))
    }

    /// What the gateway takes of a processor while nothing happens for so long, in percent.
    pub(super) fn idle(&mut self, time: Duration) -> Result<f64, LabError> {
        let before = self.gateway_seconds()?;
        thread::sleep(time);
        let spent = self.gateway_seconds()? - before;
        Ok(spent / time.as_secs_f64() * 100.0)
    }

    fn processor_seconds(&mut self) -> Result<f64, LabError> {
        Ok(self.daemons()?.map(cost::processor_seconds).iter().sum())
    }
}

/// What iperf3 says went wrong, in its report.
fn error_of(report: &str) -> Option<String> {
    let report: serde_json::Value = serde_json::from_str(report).ok()?;
    report.get("error")?.as_str().map(str::to_owned)
}

/// Sends datagrams one after the other, each when the one before was answered.
pub(super) fn exchange(
    lab: &Lab,
    addresses: [Ipv4Addr; 2],
    many: usize,
) -> Result<Samples, LabError> {
    let [asks, answers] = sockets(lab, addresses)?;
    let over = Arc::new(AtomicBool::new(false));
    let echo = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut bytes = [0; 64];
            while !over.load(Ordering::Relaxed) {
                if answers.recv(&mut bytes).is_ok() {
                    _ = answers.send(&bytes);
                }
            }
        })
    };
    let asked = (0..many).map(|_| {
        let begun = Instant::now();
        asks.send(&[0; 64])?;
        asks.recv(&mut [0; 64])?;
        Ok(begun.elapsed().as_secs_f64())
    });
    let samples: Result<Samples, std::io::Error> = asked.collect();
    over.store(true, Ordering::Relaxed);
    _ = echo.join();
    samples.map_err(LabError::file("a datagram's answer"))
}

/// A thread that counts what comes.
pub(super) struct Counting {
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<u32>,
}

pub(super) fn counting(socket: UdpSocket) -> Result<Counting, LabError> {
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let thread = thread::Builder::new()
        .spawn(move || {
            let mut count = 0;
            while !told.load(Ordering::Relaxed) {
                count += u32::from(socket.recv(&mut [0; 64]).is_ok());
            }
            count
        })
        .map_err(LabError::file("a thread"))?;
    Ok(Counting { over, thread })
}

impl Counting {
    pub(super) fn end(self) -> f64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(0).into()
    }
}

/// A socket on each host, connected to each other, that waits no longer than a moment.
pub(super) fn sockets(lab: &Lab, addresses: [Ipv4Addr; 2]) -> Result<[UdpSocket; 2], LabError> {
    let [one, two] = ENDS;
    let bind = |end, at: Ipv4Addr, to: Ipv4Addr| {
        lab.worker(end)?
            .run(move || -> std::io::Result<UdpSocket> {
                let socket = UdpSocket::bind(SocketAddr::from((at, PORT)))?;
                socket.connect(SocketAddr::from((to, PORT)))?;
                socket.set_read_timeout(Some(MOMENT))?;
                Ok(socket)
            })?
            .map_err(LabError::file("a socket"))
    };
    let [at, to] = addresses;
    Ok([bind(one, at, to)?, bind(two, to, at)?])
}

const SERVER: &str = "iperf3";
const PORT: u16 = 5_005;
/// Longer than a machine stands still, and than a handshake takes.
const MOMENT: Duration = Duration::from_secs(2);

const STREAM: Duration = Duration::from_secs(4);
const SMALL: Duration = Duration::from_secs(2);
const SMALL_BURST: u32 = 50;
const BURST_PAUSE: Duration = Duration::from_millis(1);
/// Until the last datagrams have arrived.
const DRAIN: Duration = Duration::from_millis(100);
const ROUND_TRIPS: usize = 4_000;
/// How often and for how long a process is given the time to rest.
const REST: u32 = 10;
const SOON: Duration = Duration::from_secs(1);
