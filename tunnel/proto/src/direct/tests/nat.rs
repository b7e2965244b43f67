//! Two hosts behind NATs of all kinds, two gateways, and a network that delays: the machine on both ends,
//! with a WireGuard that is no more than who answers whom.

use std::collections::BTreeSet;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    FullCone,
    PortRestricted,
    Symmetric,
}

/// What a NAT knows: the host's port by destination (or by none, for a cone), and who may answer.
#[derive(Debug)]
struct Router {
    kind: Kind,
    outside: IpAddr,
    mapped: BTreeMap<(SocketAddr, Option<SocketAddr>), u16>,
    called: BTreeSet<(u16, SocketAddr)>,
    next: u16,
}

impl Router {
    fn out(&mut self, from: SocketAddr, to: SocketAddr) -> SocketAddr {
        if self.kind == Kind::None {
            return from;
        }
        let by = (self.kind == Kind::Symmetric).then_some(to);
        let next = &mut self.next;
        let port = *self.mapped.entry((from, by)).or_insert_with(|| {
            *next += 7;
            *next
        });
        self.called.insert((port, to));
        SocketAddr::new(self.outside, port)
    }

    fn back(&self, from: SocketAddr, to: SocketAddr) -> Option<SocketAddr> {
        let mut all = self.mapped.iter();
        let open = self.kind == Kind::FullCone || self.called.contains(&(to.port(), from));
        let inside = all.find(|(_, port)| **port == to.port());
        inside.filter(|_| open).map(|((inside, _), _)| *inside)
    }

    fn flush(&mut self) {
        self.mapped.clear();
        self.called.clear();
    }
}

#[derive(Clone, Debug)]
enum Bytes {
    Initiation,
    Response,
    Data(Option<Probe>),
}

struct Node {
    machine: Direct,
    own: SocketAddr,
    router: usize,
    called: Vec<SocketAddr>,
    endpoint: Option<SocketAddr>,
    session: bool,
    direct_since: Option<u64>,
}

struct World {
    now: u64,
    nodes: [Node; 2],
    routers: Vec<Router>,
    /// Datagrams by when they arrive: from, to, what, and for whom on the same LAN.
    flying: BTreeMap<(u64, u64), (usize, SocketAddr, SocketAddr, Bytes)>,
    count: u64,
    random: u64,
    cut: bool,
    digest: u64,
}

impl World {
    fn new(kinds: [Kind; 2], same: bool, seed: u64) -> Self {
        let router = |index: u8, kind| Router {
            kind,
            outside: IpAddr::from([203, 0, 113, index]),
            mapped: BTreeMap::new(),
            called: BTreeSet::new(),
            next: 40_000 + u16::from(index) * 1_000,
        };
        let routers = vec![router(1, kinds[0]), router(2, kinds[1])];
        let node = |index: u8, router: usize, kind| {
            let public = kind == Kind::None;
            let own = if public {
                [198, 51, 100, index]
            } else {
                [10, router_of(router), 0, index]
            };
            Node {
                machine: Direct::new(at(0), seed ^ u64::from(index)),
                own: SocketAddr::from((own, 5000)),
                router,
                called: Vec::new(),
                endpoint: None,
                session: false,
                direct_since: None,
            }
        };
        let second = usize::from(!same);
        let nodes = [node(1, 0, kinds[0]), node(2, second, kinds[second])];
        let mut world = Self {
            now: 0,
            nodes,
            routers,
            flying: BTreeMap::new(),
            count: 0,
            random: seed,
            cut: false,
            digest: 0,
        };
        for index in 0..2 {
            let candidate = Candidate {
                kind: CandidateKind::Host,
                at: world.nodes[index].own,
            };
            world.give(index, Input::Candidates(vec![candidate]));
            world.give(index, Input::Gateways(vec!["a".to_owned(), "b".to_owned()]));
            world.give(
                index,
                Input::Peers(vec![key(2 - u8::try_from(index).unwrap())]),
            );
        }
        world
    }

    fn give(&mut self, index: usize, input: Input) {
        // Answers that come late are refused.
        let _ = self.nodes[index].machine.handle_input(at(self.now), input);
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % below
    }

    /// Both gateways see both hosts, and tell each of the other some time later.
    fn gateways(&mut self) {
        for (name, ip) in [("a", [192, 0, 2, 1]), ("b", [192, 0, 2, 2])] {
            let gateway = SocketAddr::from((ip, 51820));
            let seen = [0, 1].map(|index| {
                let node = &self.nodes[index];
                let (own, router) = (node.own, node.router);
                self.routers[router].out(own, gateway)
            });
            for (index, at) in seen.into_iter().enumerate() {
                let gateway = name.to_owned();
                self.give(index, Input::SeenAt { gateway, at });
            }
            for index in 0..2 {
                let other = &self.nodes[1 - index];
                let candidates = vec![Candidate {
                    kind: CandidateKind::Host,
                    at: other.own,
                }];
                let told = Told {
                    willing: true,
                    nat: other.machine.nat(),
                    at: Some(seen[1 - index]),
                    candidates,
                };
                let (gateway, peer) = (name.to_owned(), key(2 - u8::try_from(index).unwrap()));
                self.give(
                    index,
                    Input::Told {
                        gateway,
                        peer,
                        told,
                    },
                );
            }
        }
    }

    fn send(&mut self, index: usize, to: SocketAddr, bytes: Bytes) {
        let (own, router) = (self.nodes[index].own, self.nodes[index].router);
        let local = self.nodes[1 - index].router == router && self.nodes[1 - index].own == to;
        let from = if local {
            own
        } else {
            self.routers[router].out(own, to)
        };
        let delay = if local { 1 } else { 8 + self.random(4) };
        let (private, ip) = (to.ip().to_string().starts_with("10."), to.ip());
        let back_in = ip == self.routers[router].outside;
        if back_in || !local && (private || self.cut) {
            // To nobody, into the fault, or back in again, which these NATs do not do.
            return;
        }
        self.count += 1;
        let arrives = (self.now + delay, self.count);
        self.flying.insert(arrives, (1 - index, from, to, bytes));
    }

    fn arrive(&mut self, index: usize, from: SocketAddr, to: SocketAddr, bytes: &Bytes) {
        let node = &self.nodes[index];
        let inside = if node.own == to {
            Some(to)
        } else {
            self.routers[node.router].back(from, to)
        };
        if inside != Some(node.own) {
            return;
        }
        let node = &mut self.nodes[index];
        match bytes {
            Bytes::Initiation => self.send(index, from, Bytes::Response),
            Bytes::Response => {
                if node.called.contains(&from) {
                    node.endpoint = Some(from);
                }
                node.session = true;
                self.send(index, from, Bytes::Data(None));
            }
            Bytes::Data(probe) => {
                node.endpoint = Some(from);
                node.session = true;
                if let Some(Probe { path, message }) = *probe {
                    match message.answer() {
                        Some(message) => {
                            let probe = Probe { path, message };
                            self.send(index, from, Bytes::Data(Some(probe)));
                        }
                        None => {
                            let peer = key(2 - u8::try_from(index).unwrap());
                            self.give(
                                index,
                                Input::Answer {
                                    peer,
                                    path,
                                    message,
                                },
                            );
                        }
                    }
                }
            }
        }
    }

    fn step(&mut self) {
        self.now += 1;
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (index, from, to, bytes) = entry.remove();
            self.arrive(index, from, to, &bytes);
        }
        for index in 0..2 {
            let node = &self.nodes[index];
            let at_ = node.endpoint.filter(|_| node.session);
            let peer = key(2 - u8::try_from(index).unwrap());
            self.give(index, Input::Session { peer, at: at_ });
            self.nodes[index].machine.handle_timeout(at(self.now));
            while let Some(output) = self.nodes[index].machine.poll_output() {
                self.digest =
                    self.digest.rotate_left(5) ^ self.now ^ format!("{output:?}").len() as u64;
                match output {
                    Output::Call { to, .. } => {
                        self.nodes[index].called.clone_from(&to);
                        for to in to {
                            self.send(index, to, Bytes::Initiation);
                        }
                    }
                    // Through the gateway it takes 30 ms, always.
                    Output::Ask {
                        path: Path::Gateway,
                        message,
                        peer,
                    } => {
                        let message = message.answer().unwrap();
                        let input = Input::Answer {
                            peer,
                            path: Path::Gateway,
                            message,
                        };
                        let later = at(self.now + 30);
                        // What is open is told by its number alone.
                        let _ = self.nodes[index].machine.handle_input(later, input);
                    }
                    Output::Ask { path, message, .. } => {
                        let node = &self.nodes[index];
                        if let Some(to) = node.endpoint.filter(|_| node.session) {
                            self.send(index, to, Bytes::Data(Some(Probe { path, message })));
                        }
                    }
                    Output::Use { path, .. } => {
                        let now = self.now;
                        self.nodes[index].direct_since = (path == Path::Direct).then_some(now);
                    }
                }
            }
        }
    }

    fn run(&mut self, time: u64) {
        for _ in 0..time {
            if self.now.is_multiple_of(5_000) {
                self.gateways();
            }
            self.step();
        }
    }

    fn both(&self) -> Option<u64> {
        let [a, b] = &self.nodes;
        Some(a.direct_since?.max(b.direct_since?))
    }

    fn why(&self) -> [Because; 2] {
        [0, 1].map(|index| {
            let peer = key(2 - u8::try_from(index).unwrap());
            self.nodes[index].machine.view(&peer).unwrap().because
        })
    }
}

fn router_of(router: usize) -> u8 {
    u8::try_from(router).unwrap()
}

const KINDS: [Kind; 4] = [
    Kind::None,
    Kind::FullCone,
    Kind::PortRestricted,
    Kind::Symmetric,
];
const SEEDS: u64 = 20;

#[test]
fn every_pair_of_nats_that_can_has_a_direct_path_within_three_seconds_and_the_others_say_why() {
    let mut slowest = 0;
    for (one, other) in KINDS
        .iter()
        .flat_map(|one| KINDS.map(|other| (*one, other)))
    {
        for seed in 0..SEEDS {
            let mut world = World::new([one, other], false, seed);
            // They do not begin together.
            let skew = world.random(400);
            world.run(3_000 + skew);
            let hopeless = |one, other| one == Kind::Symmetric && other != Kind::None;
            if hopeless(one, other) || hopeless(other, one) {
                assert_eq!(world.both(), None, "{one:?} {other:?} {seed}");
                let there = if other == Kind::Symmetric && one != Kind::Symmetric {
                    Refusal::SymmetricThere
                } else {
                    Refusal::SymmetricHere
                };
                assert_eq!(world.why()[0], Because::Refused(there), "{one:?} {other:?}");
            } else {
                let took = world.both();
                let why = world.why();
                let took = took.unwrap_or_else(|| panic!("{one:?} {other:?} {seed} {why:?}"));
                slowest = slowest.max(took);
            }
        }
    }
    println!("the slowest of {} took {slowest} ms", 12 * SEEDS);
}

#[test]
fn two_hosts_behind_one_nat_meet_on_their_lan_whatever_it_does() {
    for kind in [Kind::FullCone, Kind::PortRestricted, Kind::Symmetric] {
        for seed in 0..SEEDS {
            let mut world = World::new([kind, kind], true, seed);
            world.run(3_000);
            assert!(world.both().is_some(), "{kind:?} {seed} {:?}", world.why());
            let [a, b] = &world.nodes;
            assert_eq!((a.endpoint, b.endpoint), (Some(b.own), Some(a.own)));
        }
    }
}

#[test]
fn a_cut_is_gone_around_within_three_and_a_half_seconds_and_the_path_comes_back() {
    for seed in 0..SEEDS {
        let mut world = World::new([Kind::PortRestricted, Kind::FullCone], false, seed);
        world.run(4_000);
        let wait = world.random(1_500);
        world.run(wait);
        assert!(world.both().is_some(), "{seed}");
        world.cut = true;
        world.run(3_500);
        assert!(
            world.nodes.iter().all(|it| it.direct_since.is_none()),
            "{seed}"
        );
        assert_eq!(world.why(), [Because::Lost; 2]);
        world.cut = false;
        world.run(3_000);
        assert!(world.both().is_some(), "{seed} {:?}", world.why());
    }
}

#[test]
fn a_nat_that_forgets_everything_costs_no_more_than_a_cut() {
    for seed in 0..SEEDS {
        let mut world = World::new([Kind::PortRestricted, Kind::PortRestricted], false, seed);
        world.run(6_000 + seed * 13);
        assert!(world.both().is_some(), "{seed}");
        world.routers[0].flush();
        // By its own packets the peer learns the new port, or it is called there once gateways tell.
        world.run(3_600);
        let paths: Vec<bool> = world
            .nodes
            .iter()
            .map(|it| it.direct_since.is_some())
            .collect();
        world.run(10_000);
        assert!(world.both().is_some(), "{seed} {paths:?} {:?}", world.why());
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let digest = |seed| {
        let mut world = World::new([Kind::PortRestricted, Kind::FullCone], false, seed);
        world.run(9_000);
        world.cut = true;
        world.run(9_000);
        world.digest
    };
    for seed in 0..5 {
        assert_eq!(digest(seed), digest(seed));
    }
    assert_ne!(digest(1), digest(2));
}
