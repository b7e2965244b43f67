//! A packet a millisecond to an address, and which of them came back.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::{lan::Host, millis, quietly, secs};

/// A service that returns what it is sent, on every address of a host.
#[derive(Debug)]
pub struct Echo {
    _running: Running,
}

/// Packets on their way.
#[derive(Debug)]
pub struct Train {
    running: Running,
    sent: Arc<AtomicU64>,
    back: Option<JoinHandle<BTreeSet<u64>>>,
}

#[derive(Debug)]
struct Running {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts it.
    #[must_use]
    pub fn start(host: &Host) -> Self {
        Self::over(host.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap()))
    }

    /// Starts it on a socket.
    #[must_use]
    pub fn over(socket: UdpSocket) -> Self {
        let socket = patient(socket);
        let _running = Running::start(move |over| {
            let mut buffer = [0; 8];
            while !over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    _ = socket.send_to(buffer.get(..length).unwrap(), from);
                }
            }
        });
        Self { _running }
    }
}

impl Train {
    /// Starts it and waits for the first answer.
    #[must_use]
    pub fn start(client: &Host, to: Ipv4Addr) -> Self {
        let socket = client.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
        Self::over(socket, SocketAddr::from((to, PORT)))
    }

    /// The same over a socket.
    #[must_use]
    pub fn over(socket: UdpSocket, to: SocketAddr) -> Self {
        let socket = patient(socket);
        let waits = || {
            _ = socket.send_to(&u64::MAX.to_be_bytes(), to);
            socket.recv_from(&mut [0; 8]).is_ok()
        };
        quietly("the first answer", secs(5), waits);
        let (sent, listener) = (Arc::new(AtomicU64::new(0)), socket.try_clone().unwrap());
        let counter = Arc::clone(&sent);
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let running = Running::start(move |over| {
            let begun = Instant::now();
            while !over.load(Ordering::Relaxed) {
                let number = counter.fetch_add(1, Ordering::Relaxed);
                _ = socket.send_to(&number.to_be_bytes(), to);
                let due = Duration::from_millis(number + 1);
                thread::sleep(due.saturating_sub(begun.elapsed()));
            }
            ended.store(true, Ordering::Relaxed);
        });
        let all = Arc::clone(&sent);
        let back = thread::spawn(move || {
            let (mut back, mut buffer) = (BTreeSet::new(), [0; 8]);
            let mut last = Instant::now();
            loop {
                if listener.recv_from(&mut buffer).is_ok() {
                    back.insert(u64::from_be_bytes(buffer));
                    last = Instant::now();
                } else if over.load(Ordering::Relaxed) {
                    // What waits for a processor still is not lost.
                    let sent = all.load(Ordering::Relaxed);
                    let missing = (0..sent).any(|number| !back.contains(&number));
                    if !missing || last.elapsed() > SILENCE {
                        return back;
                    }
                }
            }
        });
        Self {
            running,
            sent,
            back: Some(back),
        }
    }

    /// Ends it: how many were sent, and how many of them did not come back.
    #[must_use]
    pub fn finish(self) -> (u64, u64) {
        let (sent, back) = self.end();
        let lost = (0..sent).filter(|number| !back.contains(number)).count();
        (sent, lost as u64)
    }

    /// Ends it: how many were sent, and how many of them in a row did not come back at most, which is
    /// the longest outage in milliseconds.
    #[must_use]
    pub fn outage(self) -> (u64, u64) {
        let (sent, back) = self.end();
        let (mut longest, mut now) = (0, 0);
        for number in 0..sent {
            now = if back.contains(&number) { 0 } else { now + 1 };
            longest = longest.max(now);
        }
        (sent, longest)
    }

    fn end(mut self) -> (u64, BTreeSet<u64>) {
        self.running.end();
        let back = self.back.take().unwrap().join().unwrap();
        (self.sent.load(Ordering::Relaxed), back)
    }
}

impl Running {
    fn start(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        let thread = Some(thread::spawn(move || work(&flag)));
        Self { over, thread }
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a socket took while its thread waited for a processor is not lost.
fn patient(socket: UdpSocket) -> UdpSocket {
    set_socket_recv_buffer_size_force(&socket, BUFFER).unwrap();
    socket.set_read_timeout(Some(millis(20))).unwrap();
    socket
}

const PORT: u16 = 7007;
/// After so long without an answer no more are waited for.
const SILENCE: Duration = secs(1);
const BUFFER: usize = 8 << 20;
