//! Numbered packets, one a millisecond, there and back, and which of them arrived at either end.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_net::netns::Namespace;
use rustix::net::sockopt;

use crate::tunnel::{eventually, ready};

/// Runs a body, where namespaces can be had, that ends with a train of which nothing may be lost.
/// Where the kernel itself threw packets away meanwhile, because a processor had no time for what
/// had arrived, it says nothing about a tunnel: the body runs again, three times in all.
pub fn lossless(body: impl Fn() -> Arrived) {
    if !ready() {
        return;
    }
    for left in (0..RUNS).rev() {
        let before = overflows();
        let arrived = body();
        let overflowed = overflows() - before;
        if arrived.lost() == 0 {
            return;
        }
        assert!(left > 0 && overflowed > 0, "{arrived:?}");
        println!("the kernel's own queues overflowed by {overflowed} packets: again");
    }
}

/// Packets that the kernel took and had no time for, in all namespaces.
fn overflows() -> u64 {
    let all = fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let dropped = |line: &str| {
        let column = line.split_whitespace().nth(1);
        column.and_then(|text| u64::from_str_radix(text, 16).ok())
    };
    all.lines().filter_map(dropped).sum()
}

/// Packets on their way. One train at a time: they have the processors to themselves.
pub struct Train {
    _alone: MutexGuard<'static, ()>,
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    sender: JoinHandle<()>,
    there: JoinHandle<BTreeSet<u64>>,
    back: JoinHandle<BTreeSet<u64>>,
}

/// What became of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrived {
    pub sent: u64,
    pub lost_there: Vec<u64>,
    pub lost_back: Vec<u64>,
}

impl Train {
    /// Starts it when a first packet has come back.
    pub fn start((from, at): (&Namespace, &str), (to, there): (&Namespace, &str)) -> Self {
        let bind = |namespace: &Namespace, address: &str, port| {
            let address: IpAddr = address.parse().unwrap();
            let socket = namespace.run(|| UdpSocket::bind((address, port)));
            let socket = socket.unwrap().unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            // A listener that does not run for a while loses nothing here.
            sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).unwrap();
            socket
        };
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (near, far) = (bind(from, at, 0), bind(to, there, PORT));
        let target = SocketAddr::new(there.parse().unwrap(), PORT);
        let over = Arc::new(AtomicBool::new(false));
        let echo = far.try_clone().unwrap();
        let there = listen(far, Arc::clone(&over), move |packet, from| {
            let _ = echo.send_to(packet, from);
        });
        eventually("the train's first packet", super::LIMIT, || {
            let _ = near.send_to(&FIRST.to_be_bytes(), target);
            near.recv_from(&mut [0; 8]).is_ok()
        });
        let sent = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&sent);
        let end = Arc::clone(&over);
        let sending = near.try_clone().unwrap();
        let back = listen(near, Arc::clone(&over), |_, _| {});
        let sender = thread::spawn(move || {
            let begun = Instant::now();
            while !end.load(Ordering::Relaxed) {
                let number = counter.load(Ordering::Relaxed);
                // What the kernel refuses has not been sent.
                sending.send_to(&number.to_be_bytes(), target).unwrap();
                counter.store(number + 1, Ordering::Relaxed);
                let due = Duration::from_millis(number + 1);
                thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        });
        Self {
            _alone,
            over,
            sent,
            sender,
            there,
            back,
        }
    }

    /// Lets that many more packets leave.
    pub fn go_on(&self, packets: u64) {
        let until = self.sent.load(Ordering::Relaxed) + packets;
        while self.sent.load(Ordering::Relaxed) < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it, and waits for what is under way.
    pub fn finish(self) -> Arrived {
        self.over.store(true, Ordering::Relaxed);
        self.sender.join().unwrap();
        let sent = self.sent.load(Ordering::Relaxed);
        let [there, back] = [self.there, self.back].map(|thread| thread.join().unwrap());
        let lost = |arrived: &BTreeSet<u64>| (0..sent).filter(|n| !arrived.contains(n)).collect();
        let arrived = Arrived {
            sent,
            lost_there: lost(&there),
            lost_back: lost(&back),
        };
        println!(
            "{} sent, lost {} there and {} back",
            arrived.sent,
            arrived.lost_there.len(),
            arrived.lost_back.len()
        );
        arrived
    }
}

impl Arrived {
    /// How many are missing at either end.
    pub fn lost(&self) -> usize {
        self.lost_there.len() + self.lost_back.len()
    }
}

/// Notes what comes until the train is over and nothing has come for a while.
fn listen(
    socket: UdpSocket,
    over: Arc<AtomicBool>,
    seen: impl Fn(&[u8], SocketAddr) + Send + 'static,
) -> JoinHandle<BTreeSet<u64>> {
    thread::spawn(move || {
        let (mut all, mut buffer) = (BTreeSet::new(), [0; 8]);
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((_, from)) => {
                    seen(&buffer, from);
                    all.insert(u64::from_be_bytes(buffer));
                }
                Err(_) if over.load(Ordering::Relaxed) => return all,
                Err(_) => {}
            }
        }
    })
}

static ALONE: Mutex<()> = Mutex::new(());

const RUNS: u32 = 3;
const PORT: u16 = 7_007;
const BUFFER: usize = 8 * 1024 * 1024;
const FIRST: u64 = u64::MAX;

/// Nothing is under way for longer.
const PATIENCE: Duration = Duration::from_millis(500);
