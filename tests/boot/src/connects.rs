//! A TCP connect every 20 ms to an address, and who answered it.

use std::{
    io::Read as _,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_tests_netns::{lan::Host, millis, secs};

/// Connects under way.
#[derive(Debug)]
pub struct Connects {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Answer>>>,
}

#[derive(Debug)]
struct Answer {
    /// When it was connected, if it was.
    after: Duration,
    who: Result<String, Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// No connection came about.
    Connect,
    /// It came about, and ended before it said who is there: whoever had the address has it no longer.
    Cut,
}

/// What became of them.
#[derive(Debug)]
pub struct Outcome {
    /// How many were tried.
    pub tried: usize,
    /// How many of them failed.
    pub failed: usize,
    /// How many connections came about and ended before they said anything.
    pub cut: usize,
    /// The longest time from one connect to the next.
    pub gap: Duration,
    /// Who answered, one after the other.
    pub who: Vec<String>,
}

impl Connects {
    /// Starts them from a host.
    #[must_use]
    pub fn start(from: &Host, to: SocketAddr) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        // Threads are in the network of the thread that made them.
        let thread = from.run(move || thread::spawn(move || many(to, &flag)));
        let thread = Some(thread);
        Self { over, thread }
    }

    /// Ends them.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        self.over.store(true, Ordering::Relaxed);
        let mut answers = self.thread.take().unwrap().join().unwrap();
        answers.sort_by_key(|answer| answer.after);
        let tried = answers.len();
        let those = |what| move |it: &&Answer| it.who == Err(what);
        let failed = answers.iter().filter(those(Failure::Connect)).count();
        let cut = answers.iter().filter(those(Failure::Cut)).count();
        answers.retain(|answer| answer.who != Err(Failure::Connect));
        let pairs = answers.iter().zip(answers.iter().skip(1));
        let gap = pairs.map(|(one, next)| next.after - one.after).max();
        let mut who: Vec<_> = answers
            .iter()
            .filter_map(|it| it.who.clone().ok())
            .collect();
        who.dedup();
        Outcome {
            tried,
            failed,
            cut,
            gap: gap.unwrap_or(Duration::MAX),
            who,
        }
    }
}

impl Drop for Connects {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Who answers there, if anybody does.
pub fn once(from: &Host, to: SocketAddr) -> Option<String> {
    from.run(move || name(TcpStream::connect_timeout(&to, LIMIT).ok()?).ok())
}

fn many(to: SocketAddr, over: &AtomicBool) -> Vec<Answer> {
    let begun = Instant::now();
    let mut under_way = Vec::new();
    let mut due = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        // One that waits for its answer does not keep the next one waiting.
        under_way.push(thread::spawn(move || {
            let connected = TcpStream::connect_timeout(&to, LIMIT);
            let after = begun.elapsed();
            let who = connected.map_err(|_| Failure::Connect).and_then(name);
            Answer { after, who }
        }));
        due += EVERY;
        thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let answers = under_way.into_iter().map(|it| it.join().unwrap());
    answers.collect()
}

/// What whoever is there calls himself.
fn name(mut stream: TcpStream) -> Result<String, Failure> {
    let mut who = String::new();
    _ = stream.set_read_timeout(Some(LIMIT));
    match stream.read_to_string(&mut who) {
        Ok(1..) => Ok(who.trim().to_owned()),
        _ => Err(Failure::Cut),
    }
}

const EVERY: Duration = millis(20);
/// Less than a lost packet takes to be sent again.
const LIMIT: Duration = millis(900);
const _: () = assert!(LIMIT.as_millis() < secs(1).as_millis());
