//! `kedge tunnel capture`: the packets inside the tunnel, for Wireshark.
//!
//! It listens at the tunnel's interface and asks the role for its peers alone: nothing is different for
//! the role, and nobody pays for a capture that is not taken. The kernel's queue is bounded, and counts
//! what it has no room for.

mod owners;
mod pcapng;

use std::{
    fs::File,
    io::{self, BufWriter, ErrorKind, IsTerminal as _, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use kedge_control::local::{TunnelCapture, TunnelList};
use kedge_core::{Code, Fix, Instant, Problem};
use kedge_host::Role;
use kedge_net::{
    clock,
    tap::Tap,
    wait::{Doorbell, Waiter},
};

use self::{
    owners::Owners,
    pcapng::{Packet, Pcapng},
};
use super::show;
use crate::{
    App,
    args::CaptureArgs,
    client::{Answer, Client, Failure},
    exit::Exit,
    show::own,
    style::clean,
};

/// Writes packets until it has seen enough, and says how many they were.
pub(super) fn run(app: &App, role: Role, args: &CaptureArgs) -> Result<Exit, Failure> {
    let to_stdout = args.write == Path::new("-");
    if to_stdout && io::stdout().is_terminal() {
        return Err(at_terminal().into());
    }
    let client = app.client(role);
    let list: Answer<TunnelList> = client.get("/v1/tunnels")?;
    let owners = Owners::of(&list.body);
    if let Some(peer) = args.peer.as_deref().filter(|peer| !owners.know(peer)) {
        return Err(unknown(peer, &owners).into());
    }
    let device = &list.body.device;
    let failed = |error: &io::Error| Failure::from(refused(device, error));
    let tap = Tap::open(device).map_err(|error| failed(&error))?;
    let told = Arc::new(Doorbell::new().map_err(|error| failed(&error))?);
    ring_at_signals(Arc::clone(&told)).map_err(|error| failed(&error))?;
    let output: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout())
    } else {
        // What people send each other is nobody else's business.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&args.write);
        Box::new(file.map_err(|error| not_written(&args.write, &error))?)
    };
    if to_stdout && !app.quiet {
        say!("capturing on {}, end with Ctrl-C", clean(device));
    }
    let begun = clock::now();
    let capture = Capture {
        args,
        client: &client,
        owners,
        asked_at: begun,
        end: args.duration.map(|span| begun + span.duration()),
        tap,
        told: &told,
        counted: Counted::default(),
    };
    let output = BufWriter::with_capacity(BUFFER, output);
    let counted = Pcapng::begin(output, device, args.snaplen)
        .and_then(|file| capture.follow(file))
        .map_err(|error| not_written(&args.write, &error))?;
    let Counted {
        packets,
        bytes,
        dropped,
        because,
    } = counted;
    let seconds = clock::now().since(begun).as_secs_f64();
    if to_stdout {
        if !app.quiet {
            say!("{packets} packets captured, {dropped} dropped by the kernel; {because}");
        }
        return Ok(Exit::Ok);
    }
    let told = TunnelCapture {
        device: device.clone(),
        peer: args.peer.clone(),
        file: args.write.display().to_string(),
        packets,
        bytes,
        dropped,
        duration_seconds: seconds,
        because: because.to_owned(),
    };
    show(app, &own(&told)?, Exit::Ok)
}

struct Capture<'a> {
    args: &'a CaptureArgs,
    client: &'a Client,
    owners: Owners,
    /// When the role was asked for its peers last.
    asked_at: Instant,
    end: Option<Instant>,
    tap: Tap,
    told: &'a Doorbell,
    counted: Counted,
}

#[derive(Default)]
struct Counted {
    packets: u64,
    /// As they were, before they were cut.
    bytes: u64,
    dropped: u64,
    because: &'static str,
}

impl Capture<'_> {
    fn follow<W: Write>(mut self, mut file: Pcapng<W>) -> io::Result<Counted> {
        match self.write_all(&mut file) {
            Ok(because) => self.counted.because = because,
            // Whoever read it has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.counted.because = "nobody reads any more";
                self.counted.dropped = self.tap.dropped();
                return Ok(self.counted);
            }
            Err(error) => return Err(error),
        }
        self.counted.dropped = self.tap.dropped();
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let (all, dropped) = (self.counted.packets, self.counted.dropped);
        file.end(since.unwrap_or_default(), all, dropped)?;
        Ok(self.counted)
    }

    /// Why it ended.
    fn write_all<W: Write>(&mut self, file: &mut Pcapng<W>) -> io::Result<&'static str> {
        let mut waiter = Waiter::new()?;
        waiter.add(&self.tap, TAP)?;
        waiter.add(self.told, TOLD)?;
        let mut buffer = vec![0; self.args.snaplen as usize];
        loop {
            for _ in 0..BATCH {
                if self
                    .args
                    .count
                    .is_some_and(|count| self.counted.packets >= count)
                {
                    return Ok("it has seen enough packets");
                }
                match self.tap.receive(&mut buffer) {
                    Ok(Some(packet)) => {
                        let taken = packet.length.min(buffer.len());
                        let bytes = buffer.get(..taken).unwrap_or_default();
                        self.take(file, bytes, &packet)?;
                    }
                    Ok(None) => break,
                    Err(error) if is_gone(&error) => return Ok("the tunnel's interface went"),
                    Err(error) => return Err(error),
                }
            }
            // Whoever reads it while it grows sees whole packets.
            file.flush()?;
            let now = clock::now();
            if self.end.is_some_and(|end| now >= end) {
                return Ok("its time is over");
            }
            self.ask_again(now);
            let next = self.asked_at + PAUSE;
            let until = self.end.map_or(next, |end| end.min(next));
            if waiter.wait_until(Some(until))?.contains(&TOLD) {
                return Ok("it was told to end");
            }
        }
    }

    fn take<W: Write>(
        &mut self,
        file: &mut Pcapng<W>,
        bytes: &[u8],
        packet: &kedge_net::tap::Tapped,
    ) -> io::Result<()> {
        let owner = self.owners.of_packet(bytes, packet.outgoing);
        let wanted = self.args.peer.as_deref();
        if wanted.is_some() && wanted != owner {
            return Ok(());
        }
        self.counted.packets += 1;
        self.counted.bytes += u64::try_from(packet.length).unwrap_or_default();
        let comment = owner.map(|name| format!("peer {name}")).unwrap_or_default();
        file.packet(&Packet {
            at: packet.at,
            bytes,
            length: packet.length,
            outgoing: packet.outgoing,
            comment: &comment,
        })
    }

    /// Peers come and go, and another gateway may be active.
    fn ask_again(&mut self, now: Instant) {
        if now.since(self.asked_at) < PAUSE {
            return;
        }
        self.asked_at = now;
        let list: Result<Answer<TunnelList>, Failure> = self.client.get("/v1/tunnels");
        if let Ok(list) = list {
            self.owners = Owners::of(&list.body);
        }
    }
}

/// Has Ctrl-C end the capture instead of the process, so that the file has an end.
fn ring_at_signals(bell: Arc<Doorbell>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    let waits = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        bell.ring();
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(waits)
        .map(drop)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NetworkDown | ErrorKind::NotFound)
}

fn at_terminal() -> Problem {
    Problem::new(Code::SysUsage, "a capture is no text for a terminal")
        .consequence("nothing was captured")
        .fix(
            Fix::text("write it to a file, or pipe it")
                .command("kedge tunnel capture | tshark -r -"),
        )
}

fn unknown(peer: &str, owners: &Owners) -> Problem {
    let names: Vec<_> = owners.names().map(clean).collect();
    Problem::new(
        Code::TunUnknown,
        format!("no tunnel peer is called {}", clean(peer)),
    )
    .evidence(format!("there is {}", names.join(", ")))
    .fix(Fix::text("see which peers there are").command("kedge tunnel list"))
}

fn refused(device: &str, error: &io::Error) -> Problem {
    let (code, fix) = match error.kind() {
        ErrorKind::PermissionDenied => (
            Code::NetPermission,
            Fix::text("run the command as root").command("sudo kedge tunnel capture"),
        ),
        _ => (
            Code::TunNoCapture,
            Fix::text("run it where the role runs, in the same network namespace")
                .command("ip link show"),
        ),
    };
    Problem::new(
        code,
        format!("what goes through {} cannot be captured", clean(device)),
    )
    .caused_by(error)
    .consequence("nothing was captured")
    .fix(fix)
}

fn not_written(file: &Path, error: &io::Error) -> Problem {
    Problem::new(
        Code::TunNoCapture,
        format!("the capture cannot be written to {}", file.display()),
    )
    .caused_by(error)
    .consequence("what was captured so far may be incomplete")
    .fix(Fix::text("write it where there is room, as a user who may"))
}

const TAP: u64 = 0;
const TOLD: u64 = 1;

/// How long a change of peers may go unnoticed.
const PAUSE: Duration = Duration::from_secs(2);
/// Packets between two looks at what ends it.
const BATCH: usize = 256;
const BUFFER: usize = 256 * 1_024;
