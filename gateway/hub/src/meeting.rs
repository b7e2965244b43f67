//! Hosts of one mesh, told of each other: where this gateway sees each, and what each says of itself. All
//! of it goes through their tunnels, and nobody hears of a host that is not in the mesh with it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use kedge_control::agent::Mesh;
use kedge_core::{Coded as _, Instant, Problem};
use kedge_net::clock;
use kedge_tunnel_device::{
    PeerStats,
    direct::{Heard, Sockets},
};
use kedge_tunnel_proto::{
    direct::{Hello, Mention, Told, Word},
    keys::PublicKey,
};
use tokio::sync::mpsc;
use tracing::debug;

use crate::hub::Hub;

/// What hosts say of themselves, and the way to tell others.
pub(crate) struct Meeting {
    book: Book,
    sockets: Option<(Sockets, Vec<IpAddr>, u64)>,
    problem: Option<Problem>,
    tell: mpsc::Sender<Heard>,
    pub heard: mpsc::Receiver<Heard>,
}

/// What hosts said, by name.
#[derive(Debug, Default)]
struct Book(BTreeMap<String, Entry>);

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// The overlay address that it said it from.
    from: IpAddr,
    key: PublicKey,
    said_at: Instant,
    hello: Hello,
    /// Where it was seen then.
    seen: Option<SocketAddr>,
}

impl Meeting {
    pub fn new() -> Self {
        let (tell, heard) = mpsc::channel(QUEUE);
        Self {
            book: Book::default(),
            sockets: None,
            problem: None,
            tell,
            heard,
        }
    }

    /// Why hosts are not told.
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    fn send(&self, to: IpAddr, word: &Word) {
        let Some((sockets, own, _)) = &self.sockets else {
            return;
        };
        let from = own.iter().find(|own| own.is_ipv4() == to.is_ipv4());
        for datagram in word.emit() {
            if let Some(from) = from {
                sockets.send((*from, to), &datagram);
            }
        }
    }
}

impl Book {
    /// Takes what a host says; whether others have to hear of it.
    fn hear(&mut self, host: &str, entry: Entry) -> bool {
        let before = self.0.insert(host.to_owned(), entry.clone());
        before.is_none_or(|before| {
            let known = (before.hello, before.seen, before.key);
            let absent = entry.said_at.since(before.said_at) >= PRESENT;
            absent || known != (entry.hello, entry.seen, entry.key)
        })
    }

    /// The other hosts of a host's meshes that were heard lately.
    fn others<'a>(
        &'a self,
        now: Instant,
        host: &'a str,
        meshes: &'a [Mesh],
    ) -> impl Iterator<Item = &'a Entry> {
        let is_in = move |mesh: &&Mesh| mesh.hosts.iter().any(|it| it == host);
        let names = meshes.iter().filter(is_in).flat_map(|mesh| &mesh.hosts);
        let others = names.filter(move |name| *name != host);
        others
            .filter_map(|name| self.0.get(name))
            .filter(move |entry| now.since(entry.said_at) < PRESENT)
    }
}

impl Entry {
    fn mention(&self) -> Mention {
        let Hello {
            willing,
            nat,
            candidates,
        } = self.hello.clone();
        Mention {
            peer: self.key,
            told: Told {
                willing,
                nat,
                at: self.seen,
                candidates,
            },
        }
    }
}

impl Hub {
    /// Takes what a host says of itself, answers with where it is seen and who else there is, and tells
    /// those when it is news.
    pub fn meet(&mut self, from: IpAddr, bytes: &[u8]) {
        let host = self.host_at(from).map(str::to_owned);
        let Some((name, hello)) = host.zip(Hello::parse(bytes)) else {
            debug!(%from, "a datagram from somebody who is no host ignored");
            return;
        };
        let stats = self.keeper.device().map(|device| device.stats());
        let mut stats = stats.into_iter().flatten();
        let Some(PeerStats {
            public_key: key,
            endpoint: seen,
            ..
        }) = stats.find(|peer| peer.name == name)
        else {
            return;
        };
        let now = clock::now();
        let entry = Entry {
            from,
            key,
            said_at: now,
            hello,
            seen,
        };
        let mention = entry.mention();
        let news = self.meeting.book.hear(&name, entry);
        let others = self.meeting.book.others(now, &name, &self.plan.meshes);
        let others: Vec<&Entry> = others.collect();
        let word = Word {
            seen,
            mentions: others.iter().map(|it| it.mention()).collect(),
        };
        self.meeting.send(from, &word);
        if news {
            for other in others {
                let word = Word {
                    seen: other.seen,
                    mentions: vec![mention.clone()],
                };
                self.meeting.send(other.from, &word);
            }
        }
    }

    /// Listens for hosts while there are meshes; forgets hosts that there are no more.
    pub fn open_meeting(&mut self) {
        let wanted: Vec<IpAddr> = match (self.keeper.device(), &self.plan.tunnel) {
            (Some(_), Some(wish)) if !self.plan.meshes.is_empty() => {
                wish.addresses.iter().map(IpNet::addr).collect()
            }
            _ => Vec::new(),
        };
        let mut gone = std::mem::take(&mut self.meeting.book.0);
        gone.retain(|name, entry| self.host_at(entry.from) == Some(name));
        self.meeting.book.0 = gone;
        let opening = self.keeper.openings();
        let meeting = &mut self.meeting;
        let stays = meeting
            .sockets
            .as_ref()
            .is_some_and(|(_, on, at)| *on == wanted && *at == opening);
        if stays {
            return;
        }
        meeting.sockets = None;
        meeting.problem = None;
        if wanted.is_empty() {
            return;
        }
        let ifname = &self.live.config().tunnel.interface;
        match Sockets::open(ifname, &wanted, &meeting.tell) {
            Ok(sockets) => meeting.sockets = Some((sockets, wanted, opening)),
            Err(error) => {
                let told = &error as &dyn std::error::Error;
                debug!(error = told, "hosts are not told of each other yet");
                meeting.problem = Some(error.problem());
            }
        }
    }
}

/// What may wait for the loop; more comes again.
const QUEUE: usize = 256;
/// A host that has said nothing for so long is not told of: it says hello every five seconds.
const PRESENT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1_000 + seconds)
    }

    fn entry(number: u8, seconds: u64, port: u16) -> Entry {
        Entry {
            from: IpAddr::from([198, 18, 0, number]),
            key: PublicKey::from_bytes([number; 32]).unwrap(),
            said_at: at(seconds),
            hello: Hello::default(),
            seen: Some(SocketAddr::from(([203, 0, 113, number], port))),
        }
    }

    fn mesh(hosts: &[&str]) -> Mesh {
        Mesh {
            hosts: hosts.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn hosts_hear_of_their_own_mesh_alone_and_of_those_that_are_there() {
        let mut book = Book::default();
        for (number, name) in [(1, "x/a"), (2, "x/b"), (3, "y/c"), (4, "x/late")] {
            book.hear(name, entry(number, if number == 4 { 0 } else { 15 }, 1));
        }
        let meshes = [mesh(&["x/a", "x/b", "x/late", "x/silent"]), mesh(&["y/c"])];
        for (host, now, heard) in [
            ("x/a", 15, &[2_u8, 4][..]),
            ("x/a", 20, &[2]),
            ("x/b", 20, &[1]),
            ("y/c", 20, &[]),
            ("z/d", 20, &[]),
        ] {
            let others = book.others(at(now), host, &meshes);
            let keys: Vec<u8> = others.map(|it| it.key.as_bytes()[0]).collect();
            assert_eq!(keys, heard, "{host} at {now}");
        }
    }

    #[test]
    fn only_news_is_passed_on_at_once() {
        let mut book = Book::default();
        for (said, news) in [
            (entry(1, 0, 1), true),
            (entry(1, 5, 1), false),
            (entry(1, 10, 2), true),
            (entry(1, 15, 2), false),
            (entry(1, 40, 2), true),
        ] {
            assert_eq!(book.hear("x/a", said.clone()), news, "{said:?}");
        }
        let unwilling = Hello {
            willing: true,
            ..Hello::default()
        };
        let said = Entry {
            hello: unwilling,
            ..entry(1, 41, 2)
        };
        assert!(book.hear("x/a", said));
    }
}
