//! `kedge tunnel ping`: questions through the tunnel, from here.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::{Duration, Instant, SystemTime},
};

use ipnet::IpNet;
use kedge_control::local::{PingItem, RoundTrips, Tunnel, TunnelList, TunnelPing};
use kedge_core::{Code, Fix, Problem};
use kedge_host::Role;
use kedge_tunnel_proto::echo::{LENGTH, Message, PORT};

use super::{segment, show};
use crate::{
    App,
    args::{Format, PingArgs},
    client::{Answer, Failure},
    exit::Exit,
    show::own,
    style::{clean, short},
};

/// Asks, tells each answer as it comes, and sums up.
pub(super) fn run(app: &App, role: Role, args: &PingArgs) -> Result<Exit, Failure> {
    let client = app.client(role);
    let path = format!("/v1/tunnels/{}", segment(&args.name)?);
    let peer: Answer<Tunnel> = client.get(&path)?;
    let list: Answer<TunnelList> = client.get("/v1/tunnels")?;
    let Some((from, to)) = ends(&list.body.addresses, &peer.body.allowed_ips) else {
        return Err(no_ends(&peer.body).into());
    };
    let mut ping = Pinging::open(&args.name, from, to, args.size)
        .map_err(|error| not_asked(&args.name, from, &error))?;
    let live = matches!(app.format, Format::Table | Format::Wide) && !app.quiet;
    if live {
        let name = clean(&args.name);
        out!(
            "PING {name} {to} from {from}, {} bytes in the tunnel\n",
            args.size
        );
    }
    let begun = Instant::now();
    for sequence in 1..=args.count {
        ping.ask(sequence);
        let pause = if sequence == args.count {
            args.wait
        } else {
            args.interval
        };
        ping.hear(pause.duration(), sequence == args.count, |sequence, rtt| {
            if live {
                let took = short(rtt.as_secs_f64());
                out!(
                    "{} bytes from {to}: seq={sequence} time={took}\n",
                    args.size
                );
            }
        });
    }
    let told = ping.told(begun.elapsed());
    let exit = if told.received == 0 {
        Exit::Failure
    } else {
        Exit::Ok
    };
    show(app, &own(&told)?, exit)
}

/// Questions to one peer, and what became of them.
pub(super) struct Pinging {
    socket: UdpSocket,
    peer: String,
    from: IpAddr,
    to: SocketAddr,
    size: u16,
    session: u64,
    asked: Vec<(Instant, Option<Duration>)>,
}

impl Pinging {
    pub(super) fn open(peer: &str, from: IpAddr, to: IpAddr, size: u16) -> io::Result<Self> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = since.map_or(0, |since| since.as_nanos());
        Ok(Self {
            socket: UdpSocket::bind((from, 0))?,
            peer: peer.to_owned(),
            from,
            to: SocketAddr::new(to, PORT),
            size,
            // Not a secret: it tells the answers of two processes apart.
            session: u64::try_from(nanos & u128::from(u64::MAX)).unwrap_or_default(),
            asked: Vec::new(),
        })
    }

    pub(super) fn ask(&mut self, sequence: u32) {
        let message = Message {
            is_answer: false,
            session: self.session,
            sequence: u64::from(sequence),
        };
        let headers = if self.from.is_ipv4() { 28 } else { 48 };
        let length = usize::from(self.size).saturating_sub(headers).max(LENGTH);
        let mut question = message.emit().to_vec();
        question.resize(length, 0);
        self.asked.push((Instant::now(), None));
        if let Err(error) = self.socket.send_to(&question, self.to) {
            say!("seq={sequence} was not sent: {error}");
        }
    }

    /// Takes answers for so long; when nothing follows, no longer than until all have come.
    pub(super) fn hear(&mut self, time: Duration, last: bool, mut each: impl FnMut(u32, Duration)) {
        let until = Instant::now() + time;
        let mut buffer = [0; LENGTH];
        while !(last && self.asked.iter().all(|(_, answer)| answer.is_some())) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.socket.set_read_timeout(Some(left)).is_err() {
                return;
            }
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) if from == self.to => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    if let Some((sequence, rtt)) = self.take(bytes) {
                        each(sequence, rtt);
                    }
                }
                Ok(_) => {}
                Err(error) if is_silence(&error) => return,
                // What became of an earlier question: the peer is not reached, or has no echo there.
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(10))),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Option<(u32, Duration)> {
        let message = Message::parse(bytes).ok()?;
        if !message.is_answer || message.session != self.session {
            return None;
        }
        let sequence = u32::try_from(message.sequence).ok()?;
        let at = usize::try_from(sequence).ok()?.checked_sub(1)?;
        let (asked, answer) = self.asked.get_mut(at)?;
        if answer.is_some() {
            return None;
        }
        let rtt = asked.elapsed();
        *answer = Some(rtt);
        Some((sequence, rtt))
    }

    pub(super) fn told(self, duration: Duration) -> TunnelPing {
        let items: Vec<PingItem> = (1..)
            .zip(&self.asked)
            .map(|(sequence, (_, answer))| PingItem {
                sequence,
                rtt_seconds: answer.map(|rtt| rtt.as_secs_f64()),
            })
            .collect();
        let all: Vec<f64> = items.iter().filter_map(|item| item.rtt_seconds).collect();
        let count = |many: usize| u32::try_from(many).unwrap_or(u32::MAX);
        let (sent, received) = (count(items.len()), count(all.len()));
        TunnelPing {
            peer: self.peer,
            from: self.from,
            to: self.to.ip(),
            bytes: self.size,
            sent,
            received,
            loss_percent: f64::from(sent - received) * 100.0 / f64::from(sent.max(1)),
            duration_seconds: duration.as_secs_f64(),
            rtt: RoundTrips::of(&all),
            items,
        }
    }
}

/// The first pair of single addresses of one family: this end's and the peer's.
pub(super) fn ends(own: &[String], theirs: &[String]) -> Option<(IpAddr, IpAddr)> {
    let nets = |texts: &[String]| -> Vec<IpNet> {
        texts.iter().filter_map(|text| text.parse().ok()).collect()
    };
    let own = nets(own);
    let single = |net: &IpNet| net.prefix_len() == net.max_prefix_len();
    nets(theirs).into_iter().filter(single).find_map(|remote| {
        let remote = remote.addr();
        let mut own = own.iter().map(IpNet::addr);
        let local = own.find(|local| local.is_ipv4() == remote.is_ipv4())?;
        Some((local, remote))
    })
}

fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

pub(super) fn no_ends(peer: &Tunnel) -> Problem {
    Problem::new(
        Code::TunNoAnswer,
        format!("{} cannot be asked through the tunnel", clean(&peer.name)),
    )
    .evidence(format!("its prefixes: {}", peer.allowed_ips.join(", ")))
    .consequence("not both ends have a single address of one family in the tunnel")
    .fix(
        Fix::text("give both ends an address of their own, /32 or /128")
            .command("kedge config view --origins  # tunnel.addresses, allowed_ips"),
    )
}

pub(super) fn not_asked(name: &str, from: IpAddr, error: &io::Error) -> Failure {
    Problem::new(
        Code::TunNoAnswer,
        format!("{} cannot be asked from {from}", clean(name)),
    )
    .caused_by(error)
    .consequence("nothing was sent")
    .fix(
        Fix::text(
            "run it where the role runs, in the same network namespace, while the tunnel is open",
        )
        .command("ip address show to 0.0.0.0/0"),
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_ends_are_single_addresses_of_one_family() {
        for (own, theirs, expected) in [
            (
                &["fd6b::a/128", "198.18.0.10/32"][..],
                &["10.0.0.0/8", "198.18.0.1/32"][..],
                Some(("198.18.0.10", "198.18.0.1")),
            ),
            (&["198.18.0.10/24"], &["fd6b::1/128"], None),
            (
                &["fd6b::a/64"],
                &["fd6b::1/128"],
                Some(("fd6b::a", "fd6b::1")),
            ),
            (&["fd6b::a/128"], &["::/0", "nonsense"], None),
            (&[], &["fd6b::1/128"], None),
        ] {
            let expected =
                expected.map(|(a, b)| (a.parse::<IpAddr>().unwrap(), b.parse().unwrap()));
            assert_eq!(ends(&texts(own), &texts(theirs)), expected);
        }
    }

    #[test]
    fn answers_count_once_and_only_to_what_was_asked() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let mut ping = Pinging::open("gw-0", here, here, 80).unwrap();
        let answer = |session, sequence| {
            let message = Message {
                is_answer: true,
                session,
                sequence,
            };
            message.emit()
        };
        ping.ask(1);
        ping.ask(2);
        let own = ping.session;
        assert_eq!(ping.take(&answer(own + 1, 1)), None, "another process's");
        assert_eq!(ping.take(&answer(own, 3)), None, "not asked");
        assert_eq!(ping.take(&answer(own, 0)), None);
        assert_eq!(ping.take(&answer(own, 2)).unwrap().0, 2);
        assert_eq!(ping.take(&answer(own, 2)), None, "twice");
        let told = ping.told(Duration::from_secs(1));
        assert_eq!((told.sent, told.received), (2, 1));
        assert!((told.loss_percent - 50.0).abs() < 1e-9);
        assert_eq!(told.items[0].rtt_seconds, None);
        assert!(told.items[1].rtt_seconds.is_some());
    }
}
