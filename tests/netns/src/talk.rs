//! One connection through a VIP, which ends when another host has it.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{lan::Host, millis, secs};

/// A client with one connection to the VIP that says something each millisecond and waits for the
/// same word to come back.
#[derive(Debug)]
pub struct Talk {
    over: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Duration)>,
}

impl Talk {
    /// Connects, `server` being who has the VIP.
    #[must_use]
    pub fn begin(server: &Host, client: &Host, vip: &'static str) -> Self {
        let listener = server.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
        thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut word = [0; 4];
            while peer.read_exact(&mut word).is_ok() {
                peer.write_all(&word).unwrap();
            }
        });
        let mut stream = client.run(move || TcpStream::connect((vip, PORT)).unwrap());
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(secs(5))).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let (mut words, mut longest) = (0_u32, Duration::ZERO);
            while !told.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let mut word = [0; 4];
                stream.write_all(&words.to_be_bytes()).unwrap();
                stream.read_exact(&mut word).unwrap();
                assert_eq!(u32::from_be_bytes(word), words);
                words += 1;
                longest = longest.max(asked.elapsed());
                thread::sleep(millis(1));
            }
            (words, longest)
        });
        Self { over, thread }
    }

    /// How many words came back, and after how long the latest.
    #[must_use]
    pub fn end(self) -> (u32, Duration) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

const PORT: u16 = 7777;
