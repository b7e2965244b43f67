//! What lowers or raises an instance's priority: scripts, files, processes, interfaces, BFD.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Map, Value, json};

use super::{of_kind, tree::Statement};
use crate::migrate::{
    draft::Draft,
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

    const fn consequence(self) -> &'static str {
        match self {
            Self::Script => {
                "Kedge runs no scripts: this host keeps the address when what the script looks at fails. \
                 Where it asks a web or API server, a probe does the same: `health: auto`, or \
                 `health.url` with https"
            }
            Self::File => "no equivalent yet: the file does not move the priority",
            Self::Process => {
                "no equivalent yet: the address stays when the process ends. Where it serves https, \
                 `health.url` asks it"
            }
            Self::Bfd => "no equivalent yet: a session that goes down does not move the address",
            Self::Interface => "no equivalent yet: the address stays when that link goes down",
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
        Self {
            defined,
            used: RefCell::default(),
            groups,
        }
    }

    /// The group an instance moves together with.
    pub(super) fn group(&self, instance: &str) -> Option<&'a str> {
        self.groups.get(instance).copied()
    }

    /// Tells what an instance tracks, and how far it moves its priority.
    pub(super) fn tell(
        &self,
        block: &Statement,
        kind: Kind,
        draft: &mut Draft,
        interface: Option<&str>,
        report: &mut Report,
    ) -> Weights {
        let mut weights = Weights::default();
        let mut tracks = Map::new();
        for line in &block.block {
            let name = line.keyword();
            let what = format!("{}: {} {}", draft.origin, block.keyword(), line.shown(0));
            let weight = self.weight(line, kind);
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
            // A file's weight is multiplied by what stands in it, which nobody knows here.
            match weight.filter(|_| kind != Kind::File).unwrap_or_default() {
                up if up > 0 => weights.up = weights.up.saturating_add(up),
                down => weights.down = weights.down.saturating_add(down),
            }
            match (Later::Track.key(), self.as_key(kind, name, weight)) {
                (Some(key), Some((name, value))) => {
                    report.taken(&line.place, what, draft.path(key));
                    tracks.insert(name, value);
                }
                _ => report.missing(&line.place, what, kind.consequence()),
            }
        }
        if let (Some(key), false) = (Later::Track.key(), tracks.is_empty()) {
            draft.set(key, tracks);
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
        let weight = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        Some(i32::clamp(weight, -253, 253))
    }

    /// As `track` has it: by name, what to look at and the weight.
    fn as_key(&self, kind: Kind, name: &str, weight: Option<i32>) -> Option<(String, Value)> {
        let key = crate::migrate::draft::name(name, &BTreeMap::new())?;
        let weight = weight?;
        let value = match kind {
            Kind::Interface => json!({ "interface": name, "weight": weight }),
            Kind::File => {
                let block = &self.defined.get(&(kind, name))?.block;
                let file = block.iter().find(|one| one.keyword() == "file")?;
                json!({ "file": file.word(1), "weight": weight })
            }
            Kind::Process => {
                let block = &self.defined.get(&(kind, name))?.block;
                let process = block.iter().find(|one| one.keyword() == "process")?;
                json!({ "process": process.word(1), "weight": weight })
            }
            Kind::Script | Kind::Bfd => return None,
        };
        Some((key.to_string(), value))
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
