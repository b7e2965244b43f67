//! VIPs on their way into the agent's configuration.
//!
//! A draft is what stood in another tool's words; the configuration is made by the agent's own
//! types and its own check, so that nothing comes out that `kedge config check` refuses.

use std::collections::BTreeMap;

use kedge_agent_daemon::{AgentFile, config::VipFile};
use kedge_core::{Code, Name, Problem};
use serde_json::{Map, Value, json};

use super::{
    later::Later,
    report::{Place, Report},
    source::refused,
};

/// A VIP that is being put together.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Its name.
    pub(super) name: Name,
    /// What it was called.
    pub(super) origin: String,
    /// Where it stood.
    pub(super) place: Place,
    keys: Map<String, Value>,
}

impl Draft {
    /// A VIP without any key.
    pub(super) fn new(name: Name, origin: String, place: Place) -> Self {
        Self {
            name,
            origin,
            place,
            keys: Map::new(),
        }
    }

    /// Sets a key that Kedge has.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.insert(key.to_owned(), value.into());
    }

    /// Where a key of this VIP stands in the configuration.
    pub(super) fn path(&self, key: &str) -> String {
        format!("vips.{}.{key}", self.name)
    }

    /// Sets a key and says so.
    pub(super) fn take(
        &mut self,
        report: &mut Report,
        place: &Place,
        what: String,
        key: &str,
        value: impl Into<Value>,
    ) {
        self.set(key, value);
        report.taken(place, what, self.path(key));
    }

    /// Sets a key if this Kedge understands it; else says what follows from its absence.
    pub(super) fn later(
        &mut self,
        report: &mut Report,
        place: &Place,
        what: String,
        (later, value): (Later, Value),
        consequence: &str,
    ) {
        match later.key() {
            Some(key) => self.take(report, place, what, key, value),
            None => report.missing(place, what, format!("no equivalent yet: {consequence}")),
        }
    }
}

/// Refuses more VIPs than any host has: names and rules are compared with each other.
///
/// # Errors
///
/// There are more.
pub(super) fn limit(count: usize, place: &Place) -> Result<(), Problem> {
    if count <= MOST {
        return Ok(());
    }
    let what = "more addresses to hold than any host has";
    let fix = "check that this is the file you mean, or cut it into several";
    Err(refused(Code::ConfigTooLarge, &place.to_string(), what, fix))
}

/// A name Kedge takes, as close to `text` as can be, and not in `taken`. There always is one.
pub(super) fn name(text: &str, taken: &BTreeMap<Name, Place>) -> Option<Name> {
    let plain = |c: char| match c {
        'a'..='z' | '0'..='9' => c,
        'A'..='Z' => c.to_ascii_lowercase(),
        _ => '-',
    };
    let mut base: String = text.chars().map(plain).take(LONGEST).collect();
    base = base.trim_matches('-').to_owned();
    if !base.starts_with(|c: char| c.is_ascii_lowercase()) {
        base = format!("vip-{base}").trim_end_matches('-').to_owned();
    }
    let numbered = (2..).map(|number: usize| format!("{base}-{number}"));
    std::iter::once(base.clone())
        .chain(numbered)
        .filter_map(|name| name.parse().ok())
        .find(|name| !taken.contains_key(name))
}

/// The configuration of these VIPs. What the agent's check refuses is left out and told.
///
/// # Errors
///
/// The agent refuses the whole for a reason no single VIP is to blame for.
pub(super) fn assemble(drafts: Vec<Draft>, report: &mut Report) -> Result<AgentFile, Problem> {
    let mut places = BTreeMap::new();
    let mut vips: BTreeMap<Name, VipFile> = BTreeMap::new();
    for draft in drafts {
        match serde_json::from_value(Value::Object(draft.keys)) {
            Ok(vip) => {
                vips.insert(draft.name.clone(), vip);
                places.insert(draft.name, (draft.place, draft.origin));
            }
            Err(error) => {
                report.forget(&draft.name, &draft.origin);
                report.missing(&draft.place, draft.origin, left_out(&error.to_string()));
            }
        }
    }
    loop {
        let mut file: AgentFile = serde_json::from_value(json!({ "version": 1 }))
            .map_err(|error| Problem::new(Code::SysUnexpected, error.to_string()))?;
        file.vips = Some(vips.clone());
        let Err(problems) = file.checked() else {
            return Ok(file);
        };
        let before = vips.len();
        for problem in &problems {
            let name = problem.object.strip_prefix("vips.");
            let name = name.and_then(|rest| rest.split('.').next());
            if let Some((name, _)) = name.and_then(|name| vips.remove_entry(name))
                && let Some((place, origin)) = places.get(&name)
            {
                report.forget(&name, origin);
                report.missing(place, origin.clone(), left_out(&problem.what));
            }
        }
        if vips.len() == before {
            let whole = Problem::new(Code::SysUnexpected, "the configuration does not hold");
            return Err(problems.into_iter().next().unwrap_or(whole));
        }
    }
}

fn left_out(because: &str) -> String {
    format!("left out, because Kedge would refuse it: {because}")
}

/// Leaves room for a number and `vip-` within the 63 characters of a name.
const LONGEST: usize = 50;
/// Several times what VRRP has room for on one interface.
const MOST: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            file: "a".into(),
            line: 1,
        }
    }

    #[test]
    fn names_become_names_of_kedge() {
        let mut taken = BTreeMap::new();
        for (text, expected) in [
            ("VI_1", "vi-1"),
            ("VI-1", "vi-1-2"),
            ("51", "vip-51"),
            ("", "vip"),
            ("Ünï", "n"),
            (&"x".repeat(90), &"x".repeat(50)),
        ] {
            let made = name(text, &taken).unwrap();
            assert_eq!(made.as_str(), expected, "{text}");
            taken.insert(made, place());
        }
    }

    #[test]
    fn what_the_check_refuses_is_an_item_and_not_in_the_file() {
        let draft = |name: &str, address: &str, vrid: i64| {
            let mut draft = Draft::new(name.parse().unwrap(), format!("i {name}"), place());
            draft.set("addresses", json!([address]));
            draft.set("vrid", vrid);
            draft.set("interface", "eth0");
            draft
        };
        let mut report = Report::default();
        let drafts = vec![
            draft("a", "10.0.0.1", 5),
            draft("b", "10.0.0.2", 5),
            draft("c", "10.0.0.3", 300),
            draft("d", "10.0.0.4", 6),
        ];
        let file = assemble(drafts, &mut report).unwrap();
        let names: Vec<String> = file.vips.unwrap().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "d"]);
        assert_eq!(report.items.len(), 2, "{report:?}");
    }
}
