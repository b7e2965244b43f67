//! The prober: one UDP probe per interval, events as JSON lines while it runs, the report last.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use kedge_core::{Code, Problem, Span};
use serde::{Deserialize, Serialize};

use super::PRIORITY;
use crate::probe::{NAME_BYTES, PROBE_BYTES, ProbeReport, Train, emit, parse};

/// Flags of the prober.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// Where the probes go
    #[arg(long)]
    target: SocketAddr,
    /// The time between probes
    #[arg(long, default_value = "1ms")]
    interval: Span,
}

/// A line on the prober's stdout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "event",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ProbeEvent {
    /// Somebody answers, who did not answer last.
    Responder {
        /// Who.
        name: String,
        /// Since when, in seconds of the train.
        at_seconds: f64,
    },
    /// The train is over.
    Report(ProbeReport),
}

pub(super) fn run(args: &ProbeArgs) -> Result<(), Problem> {
    let failed = |what: &str, err: io::Error| {
        Problem::new(Code::LabStepFailed, format!("{what} {}", args.target)).caused_by(&err)
    };
    // Not connected: answers come from the host's own address.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .map_err(|err| failed("cannot open a socket towards", err))?;
    socket
        .set_read_timeout(Some(Duration::from_millis(20)))
        .map_err(|err| failed("cannot listen for answers of", err))?;

    let train = std::process::id();
    let begun_boottime_seconds = boottime_seconds();
    let running = Running {
        begun: Instant::now(),
        state: Mutex::new(Train::default()),
        stop: AtomicBool::new(false),
    };
    let running = Arc::new(running);
    watch_stdin(Arc::clone(&running));
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| running.listen(&socket, train));
        running.send(&socket, args, train);
        listener
            .join()
            .map_err(|_| Problem::new(Code::LabStepFailed, "the prober's listener panicked"))
    })?;
    let mut report = running
        .lock()
        .report(args.interval.duration().as_secs_f64());
    report.begun_boottime_seconds = begun_boottime_seconds;
    tell(&ProbeEvent::Report(report)).map_err(|err| failed("cannot report on", err))
}

struct Running {
    begun: Instant,
    state: Mutex<Train>,
    stop: AtomicBool,
}

impl Running {
    fn send(&self, socket: &UdpSocket, args: &ProbeArgs, train: u32) {
        _ = kedge_net::sched::real_time(PRIORITY);
        let interval = args.interval.duration();
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let probe = emit(train, number);
            // Recorded before it is sent: the answer may be faster than the lock.
            self.lock().sent(number, self.now());
            // A full queue or a link that is down is a lost probe.
            _ = socket.send_to(&probe, args.target);
            number = self.sleep_until_tick(interval, number + 1);
        }
    }

    /// Sleeps until the tick of a probe and returns the tick it woke in.
    fn sleep_until_tick(&self, interval: Duration, next: u64) -> u64 {
        let tick = interval.as_nanos().max(1);
        let due = tick.saturating_mul(u128::from(next));
        let elapsed = self.begun.elapsed().as_nanos();
        if let Some(rest) = due.checked_sub(elapsed) {
            std::thread::sleep(Duration::from_nanos(
                u64::try_from(rest).unwrap_or(u64::MAX),
            ));
            return next;
        }
        // Overslept: the missed ticks get no probe, or a burst would hide how long it was.
        u64::try_from(elapsed / tick).unwrap_or(next).max(next)
    }

    fn listen(&self, socket: &UdpSocket, train: u32) {
        _ = kedge_net::sched::real_time(PRIORITY);
        let mut buffer = [0; PROBE_BYTES + NAME_BYTES + 1];
        let mut ends = None;
        loop {
            let received = socket.recv_from(&mut buffer);
            let at = self.now();
            if let Ok((length, _)) = received
                && let Some((number, name)) = answer_of(train, buffer.get(..length))
                && self.lock().answered(number, at, name)
            {
                let news = ProbeEvent::Responder {
                    name: name.to_owned(),
                    at_seconds: at,
                };
                // Nobody listens any more: the report fails as well and says so.
                _ = tell(&news);
            }
            if self.stop.load(Ordering::Relaxed) {
                let end = *ends.get_or_insert_with(|| Instant::now() + GRACE);
                if Instant::now() >= end {
                    return;
                }
            }
        }
    }

    fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Train> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer_of(train: u32, bytes: Option<&[u8]>) -> Option<(u64, &str)> {
    let (of, number, name) = parse(bytes?)?;
    (of == train && !name.is_empty()).then_some((number, name))
}

/// The train ends with stdin: with a command, or with the one who asked for it.
fn watch_stdin(running: Arc<Running>) {
    std::thread::spawn(move || {
        _ = io::stdin().lock().read(&mut [0; 1]);
        running.stop.store(true, Ordering::Relaxed);
    });
}

/// The machine's clock that every process shares, so that a fault can be found in a train.
pub(crate) fn boottime_seconds() -> f64 {
    Duration::from_nanos(kedge_net::clock::now().as_nanos()).as_secs_f64()
}

fn tell(event: &ProbeEvent) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// How long after the last probe answers still count.
const GRACE: Duration = Duration::from_millis(200);
