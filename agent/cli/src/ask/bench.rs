//! `kedge tunnel bench`: what the way to a peer carries, if the peer allows to find out.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{IpAddr, Shutdown, SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use kedge_control::local::{
    BenchDirection, BenchItem, Tunnel, TunnelBench, TunnelList, TunnelPing,
};
use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;
use kedge_tunnel_proto::bench::{Direction, PORT, Pace, Request, Tally, Verdict};

use super::{
    ping::{Pinging, ends, no_ends, not_asked},
    segment, show,
};
use crate::{
    App,
    args::{BenchArgs, Way},
    client::{Answer, Failure},
    exit::Exit,
    show::own,
    style::clean,
};

/// Sends and fetches as much as it may, with questions before and beside that.
pub(super) fn run(app: &App, role: Role, args: &BenchArgs) -> Result<Exit, Failure> {
    let client = app.client(role);
    let path = format!("/v1/tunnels/{}", segment(&args.name)?);
    let peer: Answer<Tunnel> = client.get(&path)?;
    let list: Answer<TunnelList> = client.get("/v1/tunnels")?;
    let Some(pair) = ends(&list.body.addresses, &peer.body.allowed_ips) else {
        return Err(no_ends(&peer.body).into());
    };
    let site = Site {
        peer: &args.name,
        from: pair.0,
        to: pair.1,
    };
    let directions: &[Direction] = match args.direction {
        Way::Up => &[Direction::Up],
        Way::Down => &[Direction::Down],
        Way::Both => &[Direction::Up, Direction::Down],
    };
    let mut told = TunnelBench {
        peer: args.name.clone(),
        from: site.from,
        to: site.to,
        idle_rtt: site.questions(None)?.rtt,
        items: Vec::new(),
    };
    for direction in directions {
        let granted = site.open(request(args, *direction))?;
        told.items.push(site.run(*direction, granted)?);
    }
    show(app, &own(&told)?, Exit::Ok)
}

fn request(args: &BenchArgs, direction: Direction) -> Request {
    Request {
        direction,
        seconds: u16::try_from(args.time.duration().as_secs()).unwrap_or(u16::MAX),
        mbps: args.rate,
    }
}

/// The two ends.
struct Site<'a> {
    peer: &'a str,
    from: IpAddr,
    to: IpAddr,
}

/// A connection on which a bench was granted.
struct Granted {
    stream: TcpStream,
    time: Duration,
    mbps: u32,
}

impl Site<'_> {
    /// Asks for a bench.
    fn open(&self, request: Request) -> Result<Granted, Failure> {
        let asked = || -> io::Result<(TcpStream, Verdict)> {
            let to = SocketAddr::new(self.to, PORT);
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(&request.emit())?;
            let mut bytes = [0; Verdict::LENGTH];
            stream.read_exact(&mut bytes)?;
            let verdict = Verdict::parse(&bytes);
            let verdict = verdict.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            Ok((stream, verdict))
        };
        match asked().map_err(|error| self.refused(&error))? {
            (stream, Verdict::Granted { seconds, mbps }) => Ok(Granted {
                stream,
                time: Duration::from_secs(seconds.into()),
                mbps,
            }),
            (_, Verdict::Later { seconds }) => Err(self.later(seconds).into()),
        }
    }

    fn run(&self, direction: Direction, granted: Granted) -> Result<BenchItem, Failure> {
        let over = AtomicBool::new(false);
        let mbps = granted.mbps;
        let (tally, questions) = thread::scope(|scope| {
            let asking = scope.spawn(|| self.questions(Some(&over)));
            let tally = match direction {
                Direction::Up => give(granted),
                Direction::Down => take(granted),
            };
            over.store(true, Ordering::Relaxed);
            (tally, asking.join())
        });
        let tally = tally.map_err(|error| self.broken(&error))?;
        let asked = questions.map_err(|_| self.broken(&ErrorKind::Other.into()))??;
        let seconds = tally.time.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate of ten figures")]
        let bits = tally.bytes as f64 * 8.0;
        Ok(BenchItem {
            direction: match direction {
                Direction::Up => BenchDirection::Up,
                Direction::Down => BenchDirection::Down,
            },
            bytes: tally.bytes,
            duration_seconds: seconds,
            bits_per_second: if seconds > 0.0 { bits / seconds } else { 0.0 },
            limit_mbps: mbps,
            sent: asked.sent,
            received: asked.received,
            loss_percent: asked.loss_percent,
            rtt: asked.rtt,
        })
    }

    /// Asks until it is over, or a few times.
    fn questions(&self, over: Option<&AtomicBool>) -> Result<TunnelPing, Failure> {
        let mut ping = Pinging::open(self.peer, self.from, self.to, SIZE)
            .map_err(|error| not_asked(self.peer, self.from, &error))?;
        let begun = Instant::now();
        let mut sequence = 0;
        let goes_on = |sequence: u32| match over {
            Some(over) => !over.load(Ordering::Relaxed) && sequence < MOST,
            None => sequence < FEW,
        };
        while goes_on(sequence) {
            sequence += 1;
            ping.ask(sequence);
            ping.hear(BETWEEN, false, |_, _| {});
        }
        ping.hear(LAST, true, |_, _| {});
        Ok(ping.told(begun.elapsed()))
    }

    fn refused(&self, error: &io::Error) -> Problem {
        Problem::new(
            Code::TunNoBench,
            format!("{} answers no bench", clean(self.peer)),
        )
        .evidence(format!("TCP port {PORT} of {}", self.to))
        .caused_by(error)
        .consequence("nothing was measured")
        .fix(
            Fix::text("allow it on the peer, up to a rate, and reload it there")
                .command("bench_mbps: 1000  # below `tunnel`"),
        )
    }

    fn later(&self, seconds: u16) -> Problem {
        Problem::new(
            Code::TunNoBench,
            format!("{} answers no bench at the moment", clean(self.peer)),
        )
        .evidence("there is one already, or there were too many of late")
        .consequence("nothing was measured")
        .fix(Fix::text(format!("try again in {seconds} s")))
    }

    fn broken(&self, error: &io::Error) -> Problem {
        Problem::new(
            Code::TunNoBench,
            format!("the bench with {} has ended early", clean(self.peer)),
        )
        .caused_by(error)
        .consequence("what was measured so far is not shown")
        .fix(Fix::text("see whether the peer is up").command("kedge tunnel list"))
    }
}

/// Sends for the time it was granted, and hears what arrived.
fn give(granted: Granted) -> io::Result<Tally> {
    let Granted {
        mut stream,
        time,
        mbps,
    } = granted;
    let pace = Pace::new(mbps);
    let buffer = vec![0; pace.chunk()];
    let (begun, mut bytes) = (Instant::now(), 0);
    while begun.elapsed() < time {
        bytes += u64::try_from(stream.write(&buffer)?).unwrap_or_default();
        let ahead = pace.due(bytes).saturating_sub(begun.elapsed());
        thread::sleep(ahead.min(time.saturating_sub(begun.elapsed())));
    }
    stream.shutdown(Shutdown::Write)?;
    let mut tally = [0; Tally::LENGTH];
    stream.read_exact(&mut tally)?;
    Ok(Tally::parse(&tally))
}

/// Takes what comes until the peer ends it.
fn take(granted: Granted) -> io::Result<Tally> {
    let Granted {
        mut stream,
        time,
        mbps,
    } = granted;
    let mut buffer = vec![0; Pace::new(mbps).chunk()];
    let (begun, mut last, mut bytes) = (Instant::now(), Duration::ZERO, 0);
    while begun.elapsed() < time + PATIENCE {
        match stream.read(&mut buffer)? {
            0 => break,
            length => bytes += u64::try_from(length).unwrap_or_default(),
        }
        last = begun.elapsed();
    }
    Ok(Tally { bytes, time: last })
}

const PATIENCE: Duration = Duration::from_secs(5);
/// How long each question is inside the tunnel.
const SIZE: u16 = 80;
const FEW: u32 = 10;
const MOST: u32 = 10_000;
const BETWEEN: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_secs(1);
