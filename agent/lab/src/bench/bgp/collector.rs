//! A neighbour that takes routes and keeps none: it says when they were there.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use kedge_core::{
    Instant,
    bgp::{Asn, RouterId},
};
use kedge_net::{clock, netns::Namespace, sched};
use kedge_vip_proto::wire::bgp::{
    AsPath, Attributes, Capability, Context, Family, Frame, HoldTime, Message, NextHop, Open, PORT,
    Prefix, announce, keepalive,
};

use super::speaker::FEEDER_AS;
use crate::roles::PRIORITY;

/// A session that is not established yet: both sides said who they are, the other one said that this is
/// fine, and this one did not.
#[derive(Debug)]
pub(super) struct Collector {
    stream: TcpStream,
    buffer: Vec<u8>,
    context: Context,
    prefixes: BTreeSet<Prefix>,
}

impl Collector {
    /// Calls a speaker from a router as that router.
    pub(super) fn call(
        namespace: &Namespace,
        to: Ipv4Addr,
        asn: u32,
        router_id: Ipv4Addr,
    ) -> io::Result<Self> {
        let to = SocketAddr::from((to, PORT));
        let stream = namespace
            .run(|| TcpStream::connect_timeout(&to, PATIENCE))
            .map_err(io::Error::other)??;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut collector = Self {
            stream,
            buffer: Vec::new(),
            context: Context {
                internal: false,
                four_octet: true,
                extended_next_hop: false,
            },
            prefixes: BTreeSet::new(),
        };
        let mut bytes = Vec::new();
        open(asn, router_id)?.put(&mut bytes);
        collector.stream.write_all(&bytes)?;
        let mut is_known = false;
        loop {
            match collector.next()? {
                Message::Open(open) => {
                    collector.context.four_octet = open.four_octet();
                    is_known = true;
                }
                Message::Keepalive if is_known => return Ok(collector),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Says that who the other one is is fine: it is established on the other side with that.
    pub(super) fn confirm(&mut self) -> io::Result<()> {
        self.stream.write_all(&keepalive().bytes)
    }

    /// Takes routes until there are `count`, and then the mark of their end, if it comes soon; when the last
    /// of it was there.
    pub(super) fn take(&mut self, count: usize) -> io::Result<Taken> {
        // Where it is refused a busy machine is taken for a slow speaker.
        let _ = sched::real_time(PRIORITY);
        let mut taken = Taken::default();
        loop {
            match self.next() {
                Ok(Message::Update(update)) => {
                    let now = clock::now();
                    let all = update.announced.iter().map(|route| route.prefix);
                    self.prefixes.extend(all);
                    if update.end_of_rib == Some(Family::Ipv4) {
                        taken.end = Some(now);
                    }
                    if taken.all.is_none() && self.prefixes.len() >= count {
                        taken.all = Some(now);
                        self.stream.set_read_timeout(Some(MARK))?;
                    }
                }
                Ok(Message::Keepalive) => {}
                Ok(other) => return Err(unexpected(&other)),
                Err(error) if taken.all.is_some() && is_late(&error) => return Ok(taken),
                Err(error) => {
                    let had = self.prefixes.len();
                    let text = format!("{error}, after {had} of {count} routes");
                    return Err(io::Error::new(error.kind(), text));
                }
            }
            if taken.all.is_some() && taken.end.is_some() {
                return Ok(taken);
            }
        }
    }

    /// Tells of routes, and keeps them told as long as it lives.
    pub(super) fn tell(&mut self, routes: &[Ipv4Addr], next_hop: Ipv4Addr) -> io::Result<()> {
        let asn = Asn::new(FEEDER_AS).ok_or(ErrorKind::InvalidInput)?;
        let prefixes: Vec<Prefix> = routes
            .iter()
            .map(|route| Prefix::host(IpAddr::V4(*route)))
            .collect();
        let attributes = Attributes::new(AsPath::sequence(&[asn]));
        let messages = announce(
            &attributes,
            NextHop::V4(next_hop),
            &prefixes,
            self.context.four_octet,
        );
        self.stream
            .write_all(&messages.map_err(io::Error::other)?.bytes)
    }

    /// The next message.
    fn next(&mut self) -> io::Result<Message> {
        let ended = |refusal| io::Error::new(ErrorKind::InvalidData, format!("{refusal:?}"));
        loop {
            if let Some((frame, rest)) = Frame::split(&self.buffer).map_err(ended)? {
                let message = Message::parse(&frame, &self.context).map_err(ended)?;
                let used = self.buffer.len() - rest.len();
                self.buffer.drain(..used);
                return Ok(message);
            }
            let mut more = [0; 4096];
            let count = self.stream.read(&mut more)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend(more.iter().take(count));
        }
    }
}

/// When routes were there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// The last of them.
    all: Option<Instant>,
    /// The mark of their end, where one is sent.
    end: Option<Instant>,
}

impl Taken {
    /// When nothing more was to come.
    pub(super) fn over(&self) -> Option<Instant> {
        self.all.max(self.end)
    }

    /// Whether the end was marked.
    pub(super) const fn is_marked(&self) -> bool {
        self.end.is_some()
    }
}

fn open(asn: u32, router_id: Ipv4Addr) -> io::Result<Open> {
    let asn = Asn::new(asn).ok_or(ErrorKind::InvalidInput)?;
    Ok(Open {
        asn,
        // Nobody stays for long, and who does says nothing. Not "never": with that GoBGP takes no time to
        // send anything either, and sends nothing.
        hold_time: HoldTime::from_secs(u16::MAX).unwrap_or(HoldTime::DEFAULT),
        router_id: RouterId::try_from(router_id).map_err(io::Error::other)?,
        capabilities: vec![
            Capability::of(Family::Ipv4),
            Capability::FourOctetAs(asn),
            // Without it BIRD and GoBGP do not mark the end.
            Capability::GracefulRestart {
                restarted: false,
                notification: false,
                seconds: 10,
                families: vec![(1, 1, 0)],
            },
        ],
    })
}

fn unexpected(message: &Message) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("it said {message:?}"))
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

const PATIENCE: Duration = Duration::from_secs(5);
/// How soon after the last route the mark of their end is waited for.
const MARK: Duration = Duration::from_millis(500);
