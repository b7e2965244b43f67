//! When an address was not there, as the kernel tells it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_tests_netns::{lan::Host, quietly, secs};

/// Listens to what becomes of an address of a host.
#[derive(Debug)]
pub struct Gone {
    ip: Child,
    heard: Arc<Mutex<Heard>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Heard {
    since: Option<Instant>,
    spans: Vec<Duration>,
    /// That the listener listens: an address of its own came.
    mark: bool,
}

impl Gone {
    /// Starts to listen; the address is there.
    #[must_use]
    pub fn listen(host: &Host, address: &'static str) -> Self {
        let mut command = Command::new("ip");
        command
            .args(["-o", "monitor", "address"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut ip = host.spawn(command);
        let lines = BufReader::new(ip.stdout.take().unwrap()).lines();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let told = Arc::clone(&heard);
        let thread = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                told.lock().unwrap().hear(&line, address);
            }
        });
        let gone = Self {
            ip,
            heard,
            thread: Some(thread),
        };
        let lo = |verb: &'static str| {
            host.run(move || {
                let mut ip = Command::new("ip");
                ip.args(["address", verb, MARK, "dev", "lo"]);
                _ = ip.output().unwrap();
            });
        };
        quietly("changes of addresses are heard", secs(5), || {
            lo("add");
            lo("del");
            gone.heard.lock().unwrap().mark
        });
        gone
    }

    /// Whether it was gone, and is back.
    #[must_use]
    pub fn was_gone(&self) -> bool {
        let heard = self.heard.lock().unwrap();
        heard.since.is_none() && !heard.spans.is_empty()
    }

    /// Ends, and returns for how long it was gone each time. It is there again.
    #[must_use]
    pub fn end(mut self) -> Vec<Duration> {
        self.ip.kill().unwrap();
        self.ip.wait().unwrap();
        self.thread.take().unwrap().join().unwrap();
        let heard = self.heard.lock().unwrap();
        assert!(heard.since.is_none(), "it never came back");
        heard.spans.clone()
    }
}

impl Heard {
    fn hear(&mut self, line: &str, address: &str) {
        let mut words = line.split_whitespace();
        self.mark |= words.clone().any(|word| word == MARK);
        let about = words
            .clone()
            .any(|word| word.split_once('/').map(|(it, _)| it) == Some(address) || word == address);
        if !about {
            return;
        }
        if words.next() == Some("Deleted") {
            self.since.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.since.take() {
            self.spans.push(since.elapsed());
        }
    }
}

const MARK: &str = "192.0.2.254/32";
