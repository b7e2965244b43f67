//! Plans that change, messages that take their time, streams that end: in the end Envoy holds what is
//! wanted, and on the way nothing it holds led nowhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kedge_core::{Instant, Machine as _};
use proptest::prelude::*;

use super::{
    change,
    envoy::{Envoy, cluster, listener},
};
use crate::{
    Kind,
    delta::{Change, Input, Name, Outcome, Output, Request, Response, Stream, Version},
};

/// What can happen.
#[derive(Clone, Debug)]
enum Step {
    /// A cluster is new or changes, and its members are there.
    Cluster(u64),
    /// Members change.
    Members(u64),
    /// A listener is new or changes: its name, its address, where it leads if that is there.
    Listener(u64, u64, u64),
    /// A listener goes.
    NoListener(u64),
    /// A cluster goes that no listener wants.
    NoCluster(u64),
    /// From the next change on, Envoy refuses what this cluster or listener says.
    Refuse(Kind, u64),
    /// What is on the way to Envoy arrives, one message.
    Down,
    /// What is on the way from Envoy arrives, one message.
    Up,
    /// The stream ends, and another begins.
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    let index = || 0_u64..5;
    prop_oneof![
        3 => index().prop_map(Step::Cluster),
        2 => index().prop_map(Step::Members),
        4 => (index(), index(), index()).prop_map(|(name, at, to)| Step::Listener(name, at, to)),
        2 => index().prop_map(Step::NoListener),
        2 => index().prop_map(Step::NoCluster),
        1 => (prop_oneof![Just(Kind::Cluster), Just(Kind::Listener)], index())
            .prop_map(|(kind, index)| Step::Refuse(kind, index)),
        8 => Just(Step::Down),
        8 => Just(Step::Up),
        1 => Just(Step::Reconnect),
    ]
}

#[derive(Debug, Default)]
struct World {
    wanted: BTreeMap<(Kind, Name), u64>,
    envoy: Envoy,
    stream: Stream,
    down: VecDeque<Response>,
    up: VecDeque<Request>,
    /// Responses of each kind that Envoy has not answered yet.
    flying: BTreeSet<Kind>,
    refused: BTreeSet<(Kind, Name)>,
    refuse_next: BTreeSet<(Kind, u64)>,
    number: u64,
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        world.up.extend(world.envoy.connect());
        world
    }

    fn step(&mut self, step: Step) {
        self.number += 1;
        let number = self.number;
        match step {
            Step::Cluster(index) => {
                let name = format!("c{index}");
                let mut changes = vec![self.want(Kind::Cluster, &name, number)];
                if !self
                    .wanted
                    .contains_key(&(Kind::Endpoint, Name::from(&*name)))
                {
                    changes.push(self.want(Kind::Endpoint, &name, number));
                }
                self.changed(changes);
            }
            Step::Members(index) => {
                let name = format!("c{index}");
                if self
                    .wanted
                    .contains_key(&(Kind::Cluster, Name::from(&*name)))
                {
                    let change = self.want(Kind::Endpoint, &name, number);
                    self.changed(vec![change]);
                }
            }
            Step::Listener(index, address, to) => {
                let to_cluster = Name::from(format!("c{to}"));
                if !self.wanted.contains_key(&(Kind::Cluster, to_cluster)) {
                    return;
                }
                // A name never changes its address: a listener that moves is another.
                let name = format!("l{index}-{address}");
                // Whoever had the address before makes room in the same change.
                let had = |((kind, of), version): (&(Kind, Name), &u64)| {
                    let at = version >> 8 & 0xff;
                    (*kind == Kind::Listener && at == address && **of != *name).then(|| of.clone())
                };
                let had: Vec<Name> = self.wanted.iter().filter_map(had).collect();
                let mut changes: Vec<Change> = Vec::new();
                for old in had {
                    changes.push(self.unwant(Kind::Listener, &old));
                }
                changes.push(self.want(Kind::Listener, &name, listener(address, to, number)));
                self.changed(changes);
            }
            Step::NoListener(index) => {
                let of = format!("l{index}-");
                let is_of =
                    |(kind, name): &&(Kind, Name)| *kind == Kind::Listener && name.starts_with(&of);
                let names: Vec<_> = self.wanted.keys().filter(is_of).cloned().collect();
                let gone = names.iter().map(|(kind, name)| self.unwant(*kind, name));
                let gone = gone.collect();
                self.changed(gone);
            }
            Step::NoCluster(index) => {
                let name = Name::from(format!("c{index}"));
                let leads = |((kind, _), version): (&(Kind, Name), &u64)| {
                    *kind == Kind::Listener && cluster(Version(*version)) == name
                };
                if !self.wanted.iter().any(leads) {
                    let changes =
                        [Kind::Cluster, Kind::Endpoint].map(|kind| self.unwant(kind, &name));
                    self.changed(changes.into());
                }
            }
            Step::Refuse(kind, index) => {
                self.refuse_next.insert((kind, index));
            }
            Step::Down => {
                if let Some(response) = self.down.pop_front() {
                    self.up.extend(self.envoy.hear(&response));
                }
            }
            Step::Up => {
                if let Some(request) = self.up.pop_front() {
                    if request.nonce.is_some() {
                        self.flying.remove(&request.kind);
                    }
                    self.input(Input::Request(request));
                }
            }
            Step::Reconnect => {
                self.down.clear();
                self.up.clear();
                self.flying.clear();
                let all = self.wanted.iter();
                let all = all.map(|((kind, name), version)| change(*kind, name, Some(*version)));
                self.stream = Stream::new(all.collect());
                self.refused.clear();
                self.up.extend(self.envoy.connect());
            }
        }
    }

    fn want(&mut self, kind: Kind, name: &str, version: u64) -> Change {
        let key = (kind, Name::from(name));
        let index = name[1..2].parse().unwrap();
        if self.refuse_next.remove(&(kind, index)) {
            let bad = (kind, key.1.clone(), Version(version));
            self.envoy.bad.insert(bad);
        }
        self.wanted.insert(key, version);
        change(kind, name, Some(version))
    }

    fn unwant(&mut self, kind: Kind, name: &str) -> Change {
        self.wanted.remove(&(kind, Name::from(name)));
        change(kind, name, None)
    }

    fn changed(&mut self, changes: Vec<Change>) {
        self.input(Input::Changed(changes));
    }

    fn input(&mut self, input: Input) {
        self.stream.handle_input(Instant::ZERO, input).unwrap();
        while let Some(output) = self.stream.poll_output() {
            match output {
                Output::Send(response) => {
                    let kind = response.kind;
                    assert!(
                        self.flying.insert(kind),
                        "two responses of {kind:?} at once"
                    );
                    self.down.push_back(response);
                }
                Output::Settled(settled) => {
                    let key = (settled.kind, settled.name);
                    match settled.outcome {
                        Outcome::Refused { .. } => self.refused.insert(key),
                        Outcome::Applied(_) | Outcome::Gone => self.refused.remove(&key),
                    };
                }
            }
        }
    }

    /// Everything that is on its way arrives.
    fn rest(&mut self) {
        let mut steps = 0;
        while !(self.down.is_empty() && self.up.is_empty()) {
            self.step(Step::Down);
            self.step(Step::Up);
            steps += 1;
            assert!(steps < 10_000, "it never comes to rest");
        }
    }

    fn holds_what_is_wanted(&self) {
        let bad = |kind: Kind, name: &Name, version: u64| {
            self.envoy
                .bad
                .contains(&(kind, name.clone(), Version(version)))
        };
        for ((kind, name), version) in &self.wanted {
            let held = self.envoy.held.get(kind).and_then(|held| held.get(name));
            let key = (*kind, name.clone());
            if bad(*kind, name, *version) {
                assert_ne!(held, Some(&Version(*version)));
                assert!(
                    self.refused.contains(&key),
                    "nobody hears that {name} is refused"
                );
            } else if *kind != Kind::Endpoint || self.envoy_has_cluster(name) {
                assert_eq!(held, Some(&Version(*version)), "{kind:?} {name}");
                assert!(
                    !self.refused.contains(&key),
                    "{name} is held, and called refused"
                );
            }
        }
        let is_pure = !self.stream_holds_refused();
        for kind in [Kind::Cluster, Kind::Endpoint, Kind::Listener] {
            for (name, _) in self.envoy.of(kind) {
                let is_wanted = self.wanted.contains_key(&(kind, name.clone()));
                assert!(is_wanted || !is_pure, "{kind:?} {name} is left behind");
            }
        }
        for name in &self.envoy.warming {
            let is_wanted = self.wanted.contains_key(&(Kind::Cluster, name.clone()));
            assert!(!is_wanted, "{name} waits for its members");
        }
        assert_eq!(self.stream.is_settled(), is_pure && self.wanted_is_held());
    }

    fn envoy_has_cluster(&self, name: &Name) -> bool {
        self.envoy.of(Kind::Cluster).any(|(held, _)| held == name)
    }

    fn stream_holds_refused(&self) -> bool {
        let bad = |((kind, name), version): (&(Kind, Name), &u64)| {
            self.envoy
                .bad
                .contains(&(*kind, name.clone(), Version(*version)))
        };
        self.wanted.iter().any(bad)
    }

    fn wanted_is_held(&self) -> bool {
        let held = |((kind, name), version): (&(Kind, Name), &u64)| {
            let held = self.envoy.held.get(kind).and_then(|held| held.get(name));
            held == Some(&Version(*version))
        };
        self.wanted.iter().all(held)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn envoy_comes_to_hold_what_is_wanted_and_never_leads_nowhere(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.rest();
        world.holds_what_is_wanted();
        // And what it holds then it need not be told again.
        world.step(Step::Reconnect);
        world.rest();
        world.holds_what_is_wanted();
    }
}

/// Five hundred cases, or as many as `PROPTEST_CASES` asks for.
fn config() -> ProptestConfig {
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    if is_asked {
        ProptestConfig::default()
    } else {
        ProptestConfig::with_cases(500)
    }
}

/// Orders of things that an earlier form of the machine got wrong.
#[test]
fn what_went_wrong_once_does_not_go_wrong_again() {
    use Step::{Cluster, Down, Listener, Members, NoCluster, NoListener, Reconnect, Refuse, Up};
    let cases = [
        // A cluster changes while its first members are on their way: it waits for others.
        vec![Cluster(4), Up, Down, Up, Cluster(0), Cluster(4)],
        // A cluster goes and comes back before Envoy has heard of it.
        vec![
            Up,
            Down,
            Members(0),
            Up,
            Cluster(2),
            NoCluster(2),
            Cluster(2),
            Listener(0, 0, 2),
        ],
        // Members of a cluster that was are taken before the new one is there.
        vec![
            Up,
            Down,
            Down,
            Up,
            Cluster(4),
            NoCluster(4),
            Down,
            Members(0),
            Members(0),
            Up,
            Up,
            Down,
            Up,
            Up,
            Down,
            Cluster(4),
            Members(0),
            Listener(0, 0, 4),
        ],
        // A cluster that goes is part of a response that is refused for another.
        vec![
            Refuse(Kind::Cluster, 3),
            Cluster(2),
            Up,
            Listener(1, 0, 2),
            Down,
            Up,
            Up,
            Cluster(3),
            Listener(2, 1, 0),
            Down,
            Down,
            Cluster(2),
            Up,
            Up,
            Up,
            Cluster(2),
            NoListener(1),
            Down,
            Refuse(Kind::Cluster, 0),
            Down,
            Down,
            Reconnect,
            Up,
            NoCluster(2),
        ],
        // What is left of a refused response is not wanted any more.
        vec![
            Up,
            Down,
            Down,
            Up,
            Cluster(2),
            Refuse(Kind::Listener, 3),
            Members(0),
            Listener(0, 0, 2),
            Down,
            Reconnect,
            Up,
            Down,
            Up,
            Up,
            Listener(3, 1, 2),
            Cluster(3),
            Up,
            NoCluster(3),
            Cluster(0),
            NoListener(3),
        ],
    ];
    for steps in cases {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.rest();
        world.holds_what_is_wanted();
    }
}
