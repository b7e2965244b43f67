//! What became of each line that was read.

use std::{fmt, sync::Arc};

use kedge_core::Name;
use serde::{Serialize, Serializer};

/// Where a setting stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Place {
    /// The file, as it was named.
    #[serde(serialize_with = "as_text")]
    pub(super) file: Arc<str>,
    /// The line, from 1.
    pub(super) line: usize,
}

/// What became of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    /// Kedge does the same.
    TakenOver,
    /// Kedge does something close to it.
    Different,
    /// Kedge has nothing like it.
    NoEquivalent,
}

/// A setting and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    /// What became of it.
    pub(super) verdict: Verdict,
    /// Where it stands.
    #[serde(flatten)]
    pub(super) place: Place,
    /// The setting; never a secret and never the text of a command.
    pub(super) what: String,
    /// The key of Kedge's that stands for it; empty when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) key: String,
    /// What follows from the difference.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) consequence: String,
}

/// Everything there is to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Setting by setting, in the order they were read.
    pub(super) items: Vec<Item>,
    /// What to do or to know before the hosts are switched over.
    pub(super) steps: Vec<String>,
}

impl Report {
    /// Kedge does the same, under this key; without a key, by itself.
    pub(super) fn taken(&mut self, place: &Place, what: impl Into<String>, key: impl Into<String>) {
        self.items.push(Item {
            verdict: Verdict::TakenOver,
            place: place.clone(),
            what: what.into(),
            key: key.into(),
            consequence: String::new(),
        });
    }

    /// Kedge does something close to it.
    pub(super) fn different(
        &mut self,
        place: &Place,
        what: impl Into<String>,
        key: impl Into<String>,
        consequence: impl Into<String>,
    ) {
        self.items.push(Item {
            verdict: Verdict::Different,
            place: place.clone(),
            what: what.into(),
            key: key.into(),
            consequence: consequence.into(),
        });
    }

    /// Kedge has nothing like it.
    pub(super) fn missing(
        &mut self,
        place: &Place,
        what: impl Into<String>,
        consequence: impl Into<String>,
    ) {
        self.items.push(Item {
            verdict: Verdict::NoEquivalent,
            place: place.clone(),
            what: what.into(),
            key: String::new(),
            consequence: consequence.into(),
        });
    }

    /// Takes back what was said to be taken over of a VIP that is left out.
    pub(super) fn forget(&mut self, vip: &Name, origin: &str) {
        let (key, own) = (format!("vips.{vip}."), format!("{origin}: "));
        self.items.retain(|item| {
            let is_told = item.verdict == Verdict::TakenOver && item.what.starts_with(&own);
            !is_told && !item.key.starts_with(&key)
        });
    }

    /// Something to do or to know, told once.
    pub(super) fn step(&mut self, step: impl Into<String>) {
        let step = step.into();
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Whether everything was taken over as it is.
    pub(super) fn is_complete(&self) -> bool {
        self.count(Verdict::TakenOver) == self.items.len()
    }

    /// How many settings met this fate.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.of(verdict).count()
    }

    /// The settings that met this fate.
    pub(super) fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Item> {
        self.items
            .iter()
            .filter(move |item| item.verdict == verdict)
    }
}

impl Verdict {
    /// Every verdict, the harmless first.
    pub(super) const ALL: [Self; 3] = [Self::TakenOver, Self::Different, Self::NoEquivalent];

    /// The verdict as a heading.
    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::TakenOver => "Taken over",
            Self::Different => "Different",
            Self::NoEquivalent => "No equivalent",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

fn as_text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}
