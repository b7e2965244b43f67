//! What lowers or raises an instance's priority: scripts, files, processes, interfaces, BFD.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kedge_core::{Name, Span};
use serde_json::{Map, Value, json};

use super::{of_kind, timers, tree::Statement};
use crate::migrate::{
    draft::{self, Draft},
    later::Later,
    report::{Place, Report},
};

/// What is defined to be tracked, by kind and name.
#[derive(Debug)]
pub(super) struct Tracked<'a> {
    defined: BTreeMap<(Kind, &'a str), &'a Statement>,
    used: RefCell<BTreeSet<(Kind, String)>>,
    // The group of each instance that moves together with others.
    groups: BTreeMap<&'a str, &'a str>,
    // Groups whose members have not the same priority, or do not all preempt.
    uneven: BTreeSet<&'a str>,
}

/// A kind of thing that is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Script,
    File,
    Process,
    Bfd,
    Interface,
}

/// What an instance tracks, as `track` has it, and where each of them stood.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    /// By name.
    pub(super) values: Map<String, Value>,
    places: BTreeMap<Name, Place>,
}

/// How far what is tracked moves a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weights {
    /// Added while all is well.
    pub(super) up: i32,
    /// Taken away while nothing is.
    pub(super) down: i32,
}

impl Kind {
    /// The kind an instance's `track_…` block is about.
    pub(super) fn of_block(keyword: &str) -> Option<Self> {
        Some(match keyword {
            "track_script" => Self::Script,
            "track_file" => Self::File,
            "track_process" => Self::Process,
            "track_bfd" => Self::Bfd,
            "track_interface" => Self::Interface,
            _ => return None,
        })
    }

    const fn keywords(self) -> &'static [&'static str] {
        match self {
            Self::Script => &["vrrp_script"],
            Self::File => &["track_file", "vrrp_track_file"],
            Self::Process => &["vrrp_track_process"],
            Self::Bfd => &["bfd_instance"],
            Self::Interface => &[],
        }
    }

    /// What follows where it cannot be taken over.
    const fn consequence(self) -> &'static str {
        match self {
            Self::Script => {
                "not taken over: Kedge's `script` is an absolute path and plain words, run by no \
                 shell, and good when it ends with 0. Write one, or ask a service that answers https \
                 with `health.url`"
            }
            Self::File => {
                "not taken over: keepalived multiplies the number in the file by the weight, and \
                 Kedge's `file` asks whether it is there. Let whatever writes it create and remove \
                 it, and track that"
            }
            Self::Process => {
                "not taken over: Kedge tracks one process by the name of its program, without \
                 arguments, numbers or delays"
            }
            Self::Bfd => {
                "not taken over: write the session into `bfd.sessions` (neighbor_ip is `peer`, min_tx and \
                 min_rx are `transmit_interval` and `receive_interval`), and track it: `bfd: NAME`"
            }
            Self::Interface => "not taken over: Kedge counts what fails, not what is well",
        }
    }

    /// keepalived's weight where none is written.
    const fn default_weight(self) -> i32 {
        match self {
            Self::File | Self::Process => 1,
            Self::Script | Self::Bfd | Self::Interface => 0,
        }
    }
}

impl<'a> Tracked<'a> {
    /// Everything that is defined.
    pub(super) fn read(top: &'a [Statement]) -> Self {
        let mut defined = BTreeMap::new();
        for kind in [Kind::Script, Kind::File, Kind::Process, Kind::Bfd] {
            for keyword in kind.keywords() {
                for statement in of_kind(top, keyword) {
                    defined.insert((kind, statement.word(1)), statement);
                }
            }
        }
        let mut groups = BTreeMap::new();
        for group in of_kind(top, "vrrp_sync_group") {
            let lists = group.block.iter().filter(|one| one.keyword() == "group");
            for member in lists.flat_map(|list| &list.block) {
                groups.insert(member.keyword(), group.word(1));
            }
        }
        let mut alike: BTreeMap<&str, (&str, bool, bool)> = BTreeMap::new();
        let mut uneven = BTreeSet::new();
        for instance in of_kind(top, "vrrp_instance") {
            let Some(group) = groups.get(instance.word(1)) else {
                continue;
            };
            let one = |keyword: &str| instance.block.iter().find(|one| one.keyword() == keyword);
            let own = (
                one("priority").map_or("", |one| one.word(1)),
                one("nopreempt").is_some(),
                one("state").is_some_and(|one| one.word(1) == "MASTER"),
            );
            if *alike.entry(group).or_insert(own) != own {
                uneven.insert(*group);
            }
        }
        Self {
            defined,
            used: RefCell::default(),
            groups,
            uneven,
        }
    }

    /// The group an instance moves together with.
    pub(super) fn group(&self, instance: &str) -> Option<&'a str> {
        self.groups.get(instance).copied()
    }

    /// The group, where its members are elected alike: a group of Kedge's has one priority.
    pub(super) fn even_group(&self, instance: &str) -> Option<&'a str> {
        self.group(instance)
            .filter(|group| !self.uneven.contains(group))
    }

    /// Tells what an instance tracks, and how far it moves its priority; what can be taken over is
    /// added to `tracks`. In a group that moves together weights count for nothing.
    pub(super) fn tell(
        &self,
        block: &Statement,
        kind: Kind,
        of: (&Draft, Option<&str>, bool),
        tracks: &mut Tracks,
        report: &mut Report,
    ) -> Weights {
        let (draft, interface, grouped) = of;
        let mut weights = Weights::default();
        for line in &block.block {
            let name = line.keyword();
            let what = format!("{}: {} {}", draft.origin, block.keyword(), line.shown(0));
            let weight = self.weight(line, kind);
            let weight = if grouped { weight.map(|_| 0) } else { weight };
            if kind == Kind::Interface && Some(name) == interface && weight == Some(0) {
                // The VIP's own link decides without being asked to.
                report.taken(&line.place, what, "");
                continue;
            }
            let what = match weight {
                Some(0) => what,
                Some(weight) => format!("{what} weight {weight}"),
                None => format!("{what} reverse"),
            };
            let key = Later::Track.key();
            let value = weight.and_then(|weight| self.as_key(kind, name, weight));
            let up = weight.unwrap_or_default().max(0);
            let taken = key.zip(value).and_then(|(key, value)| {
                let called = draft::name(name, &tracks.places)?;
                Some((key, called, value))
            });
            if let Some((key, called, value)) = taken {
                let key = format!("{}.{called}", draft.path(key));
                weights.up = weights.up.saturating_add(up);
                let as_nobody = kind == Kind::Script && value.get("user").is_none();
                match (up > 0, as_nobody) {
                    (false, false) => report.taken(&line.place, what, key),
                    (true, false) => report.different(&line.place, what, key, RAISED),
                    (false, true) => report.different(&line.place, what, key, AS_NOBODY),
                    (true, true) => {
                        let both = format!("{AS_NOBODY}; {RAISED}");
                        report.different(&line.place, what, key, both);
                    }
                }
                tracks.values.insert(called.to_string(), value);
                tracks.places.insert(called, line.place.clone());
                continue;
            }
            // A file's weight is multiplied by what stands in it, which nobody knows here.
            match weight.filter(|_| kind != Kind::File).unwrap_or_default() {
                up if up > 0 => weights.up = weights.up.saturating_add(up),
                down => weights.down = weights.down.saturating_add(down),
            }
            report.missing(&line.place, what, kind.consequence());
        }
        weights
    }

    /// The weight a line or its definition gives; `None` when it counts the wrong way round.
    fn weight(&self, line: &Statement, kind: Kind) -> Option<i32> {
        let name = line.keyword();
        self.used.borrow_mut().insert((kind, name.to_owned()));
        let definition = self.defined.get(&(kind, name));
        let defined = definition.and_then(|one| {
            let mut block = one.block.iter();
            block.find(|one| one.keyword() == "weight")
        });
        let reversed = defined.is_some_and(|one| one.has("reverse"));
        if line.has("reverse") || (reversed && !line.has("noreverse")) {
            return None;
        }
        let text = line.after("weight");
        let text = text.or_else(|| defined.map(|one| one.word(1)));
        let weight = text.and_then(|text| text.parse().ok());
        Some(i32::clamp(
            weight.unwrap_or(kind.default_weight()),
            -253,
            253,
        ))
    }

    /// As `track` has it: what to look at, and what its failure means. keepalived adds a positive
    /// weight while all is well, and Kedge takes it away while it is not: the base is raised by it.
    fn as_key(&self, kind: Kind, name: &str, weight: i32) -> Option<Value> {
        let mut value = match kind {
            Kind::Interface => json!({ "interface": name }),
            Kind::Process => json!({ "process": self.process(name)? }),
            Kind::Script => self.script(name)?,
            Kind::File | Kind::Bfd => return None,
        };
        let (key, failure) = match weight {
            0 => ("critical", Value::Bool(true)),
            weight => ("weight", json!(-weight.abs())),
        };
        value.as_object_mut()?.insert(key.to_owned(), failure);
        Some(value)
    }

    /// The name of a process that is tracked as one.
    fn process(&self, name: &str) -> Option<&str> {
        let block = &self.defined.get(&(Kind::Process, name))?.block;
        let process = block.iter().find(|one| one.keyword() == "process")?;
        let more = block.iter().any(|one| match one.keyword() {
            "quorum" => one.word(1) != "1",
            "quorum_max" | "param_match" | "full_command" => true,
            _ => false,
        });
        let called = process.word(1);
        let plain = process.words.len() == 2 && !called.contains(['/', ' ']) && !called.is_empty();
        (plain && !more).then_some(called)
    }

    /// A script that is a program and its words.
    fn script(&self, name: &str) -> Option<Value> {
        let block = &self.defined.get(&(Kind::Script, name))?.block;
        let one = |keyword: &str| block.iter().find(|one| one.keyword() == keyword);
        let line = one("script")?.words.get(1..)?.join(" ");
        let words: Vec<&str> = line.split_whitespace().collect();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,@%+".contains(c);
        if !line.starts_with('/') || !words.iter().all(|word| word.chars().all(plain)) {
            return None;
        }
        let mut value = json!({ "script": words });
        let keys = value.as_object_mut()?;
        let time = |keyword: &str| {
            let time = timers::seconds(one(keyword)?.word(1))?;
            let time = time.clamp(Duration::from_millis(100), Duration::from_secs(3_600));
            Some(Span::new(time).to_string())
        };
        let interval = time("interval").unwrap_or_else(|| "1s".to_owned());
        // Without a limit keepalived waits until the next run is due.
        let timeout = time("timeout").unwrap_or_else(|| interval.clone());
        keys.insert("interval".to_owned(), json!(interval));
        keys.insert("timeout".to_owned(), json!(timeout));
        for keyword in ["rise", "fall"] {
            let times = one(keyword).and_then(|one| one.word(1).parse::<u32>().ok());
            keys.insert(keyword.to_owned(), json!(times.unwrap_or(1).clamp(1, 100)));
        }
        if let Some(user) = one("user") {
            keys.insert("user".to_owned(), json!(user.word(1)));
        }
        Some(value)
    }

    /// Tells what is defined and tracked by nobody.
    pub(super) fn tell_unused(&self, report: &mut Report) {
        let used = self.used.borrow();
        let mut unused: Vec<(&Place, String)> = self
            .defined
            .iter()
            .filter(|((kind, name), _)| !used.contains(&(*kind, (*name).to_owned())))
            .map(|(_, one)| (&one.place, format!("{} {}", one.keyword(), one.shown(1))))
            .collect();
        unused.sort();
        for (place, what) in unused {
            let consequence = "nothing follows: no instance tracks it";
            report.different(place, what, "", consequence);
        }
    }
}

const RAISED: &str = "the priority is raised by the weight, and a failure takes it away again: the same \
                      numbers as keepalived's, which adds it while all is well";
const AS_NOBODY: &str = "it runs as nobody, where keepalived takes `script_user`, keepalived_script or root: \
                         set `user` if it needs more";
/// What follows for instances of a group that are not elected alike.
pub(super) const UNEVEN: &str = "each VIP is elected by itself: a group of Kedge's has one election, and these instances differ \
                                 in `priority`, `nopreempt` or `state`. Give them the same and set `sync_group`";
