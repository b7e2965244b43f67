//! Sets of fields as `metadata.managedFields` writes them (`fieldsV1`), and what of an object is
//! in them.
//!
//! `f:<name>` is a member of a map, `k:{…}` the item of a list with these keys, `v:…` the item of
//! a set with this value, `i:<n>` the item at that place, `.` the map or item itself. A field
//! without members is owned with everything in it.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value};

/// A set of fields. Every object comes with several, so they are read once and into little: a
/// tree of JSON would take ten times as much.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Vec<(Step, Fields)>);

/// One step of the way to a field.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The map or item itself.
    Itself,
    /// A member of a map.
    Member(Box<str>),
    /// The item of a list with these keys.
    Keys(Map<String, Value>),
    /// The item of a set with this value.
    Item(Value),
    /// The item of a list at that place.
    Place(usize),
    /// What nobody can follow.
    Unknown(Box<str>),
}

impl Step {
    fn new(text: &str) -> Self {
        if text == "." {
            return Self::Itself;
        }
        let known = match text.split_at_checked(2) {
            Some(("f:", name)) => Some(Self::Member(name.into())),
            Some(("k:", keys)) => serde_json::from_str(keys).ok().map(Self::Keys),
            Some(("v:", value)) => serde_json::from_str(value).ok().map(Self::Item),
            Some(("i:", place)) => place.parse().ok().map(Self::Place),
            _ => None,
        };
        known.unwrap_or_else(|| Self::Unknown(text.into()))
    }

    fn is_member(&self, wanted: &str) -> bool {
        matches!(self, Self::Member(name) if **name == *wanted)
    }

    /// Whether it leads to that item of a list.
    fn leads_to(&self, index: usize, item: &Value) -> bool {
        match self {
            Self::Keys(keys) => keys
                .iter()
                .all(|(name, key)| item.get(name).is_some_and(|value| same(value, key))),
            Self::Item(value) => same(value, item),
            Self::Place(place) => *place == index,
            Self::Itself | Self::Member(_) | Self::Unknown(_) => false,
        }
    }
}

impl Fields {
    /// Whether it names nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it names something beside these members and the map itself.
    #[must_use]
    pub fn goes_beyond(&self, members: &[&str]) -> bool {
        let is_known = |step: &Step| {
            *step == Step::Itself || members.iter().any(|member| step.is_member(member))
        };
        self.0.iter().any(|(step, _)| !is_known(step))
    }

    /// Adds the fields of `more`.
    pub fn join(&mut self, more: Self) {
        for (step, more) in more.0 {
            match self.0.iter_mut().find(|(own, _)| *own == step) {
                Some((_, fields)) => {
                    // Owned with everything in it, beside the same with some of it.
                    if fields.is_empty() != more.is_empty() && !fields.has(&Step::Itself) {
                        fields.0.push((Step::Itself, Self::default()));
                    }
                    fields.join(more);
                }
                None => self.0.push((step, more)),
            }
        }
    }

    /// The fields below a way of members, if the way is in the set.
    #[must_use]
    pub fn at(&self, members: &[&str]) -> Option<&Self> {
        let mut members = members.iter();
        members.try_fold(self, |fields, member| fields.member(member))
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let mut all = self.0.iter();
        all.find(|(step, _)| step.is_member(name))
            .map(|(_, below)| below)
    }

    fn below(&self, step: &Step) -> Option<&Self> {
        let mut all = self.0.iter();
        all.find(|(own, _)| own == step).map(|(_, below)| below)
    }

    fn has(&self, step: &Step) -> bool {
        self.below(step).is_some()
    }

    /// The step that leads to that item of a list, and what is below it.
    fn item(&self, index: usize, item: &Value) -> Option<(&Step, &Self)> {
        let mut all = self.0.iter();
        let (step, below) = all.find(|(step, _)| step.leads_to(index, item))?;
        Some((step, below))
    }

    fn is_leaf(&self) -> bool {
        self.0.iter().all(|(step, _)| *step == Step::Itself)
    }

    fn owns_itself(&self) -> bool {
        self.is_empty() || self.has(&Step::Itself)
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Step;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a step to a field")
            }

            fn visit_str<E>(self, text: &str) -> Result<Step, E> {
                Ok(Step::new(text))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Steps;

        impl<'de> Visitor<'de> for Steps {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a set of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(next) = map.next_entry()? {
                    fields.0.push(next);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Steps)
    }
}

/// What of `value` is in `own`. Of a map that is owned without its members, and whose members
/// others own, nothing but the map is taken.
#[must_use]
pub fn extract(value: &Value, own: &Fields, others: &[&Fields]) -> Option<Value> {
    if own.is_leaf() {
        let shared = others.iter().any(|fields| !fields.is_leaf());
        return Some(match value {
            Value::Object(_) if shared => Value::Object(Map::new()),
            Value::Array(_) if shared => Value::Array(Vec::new()),
            whole => whole.clone(),
        });
    }
    match value {
        Value::Object(members) => {
            let mut taken = Map::new();
            for (name, member) in members {
                if let Some(own) = own.member(name)
                    && let others = children(others, |fields| fields.member(name))
                    && let Some(part) = extract(member, own, &others)
                {
                    taken.insert(name.clone(), part);
                }
            }
            (!taken.is_empty() || own.has(&Step::Itself)).then_some(Value::Object(taken))
        }
        Value::Array(items) => {
            let taken: Vec<Value> = items
                .iter()
                .enumerate()
                .filter_map(|(index, item)| {
                    let (step, own) = own.item(index, item)?;
                    extract(item, own, &children(others, |fields| fields.below(step)))
                })
                .collect();
            (!taken.is_empty() || own.has(&Step::Itself)).then_some(Value::Array(taken))
        }
        // The object changed its shape since the field was owned.
        _ => None,
    }
}

/// What of `value` is left without the fields in `own` that none of `others` owns too.
#[must_use]
pub fn without(value: Value, own: &Fields, others: &[&Fields]) -> Option<Value> {
    if own.is_leaf() {
        return (!others.is_empty()).then_some(value);
    }
    let kept = match value {
        Value::Object(members) => {
            let mut left = Map::new();
            for (name, member) in members {
                let rest = match own.member(&name) {
                    Some(own) => {
                        let others = children(others, |fields| fields.member(&name));
                        without(member, own, &others)
                    }
                    None => Some(member),
                };
                if let Some(rest) = rest {
                    left.insert(name, rest);
                }
            }
            (!left.is_empty()).then_some(Value::Object(left))
        }
        Value::Array(items) => {
            let left: Vec<Value> = items
                .into_iter()
                .enumerate()
                .filter_map(|(index, item)| match own.item(index, &item) {
                    Some((step, own)) => {
                        without(item, own, &children(others, |fields| fields.below(step)))
                    }
                    None => Some(item),
                })
                .collect();
            (!left.is_empty()).then_some(Value::Array(left))
        }
        scalar => Some(scalar),
    };
    // Somebody else wrote it, empty as it is.
    kept.or_else(|| {
        let theirs = others.iter().any(|fields| fields.owns_itself());
        (theirs && !own.is_empty()).then(|| Value::Object(Map::new()))
    })
}

/// Puts the members of `upper` into `lower`, map by map.
pub fn put(lower: &mut Value, upper: Value) {
    match (lower, upper) {
        (Value::Object(lower), Value::Object(upper)) => {
            for (name, value) in upper {
                match lower.get_mut(&name) {
                    Some(member) => put(member, value),
                    None => {
                        lower.insert(name, value);
                    }
                }
            }
        }
        (lower, upper) => *lower = upper,
    }
}

/// Whether two contents say the same: `null` is as good as nothing, and 1.0 is 1.
#[must_use]
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let covers = |one: &Map<String, Value>, other: &Map<String, Value>| {
                one.iter().all(|(name, value)| {
                    value.is_null() || other.get(name).is_some_and(|other| same(value, other))
                })
            };
            covers(one, other)
                && other
                    .iter()
                    .all(|(name, value)| value.is_null() || one.contains_key(name))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other
                || one
                    .as_f64()
                    .zip(other.as_f64())
                    .is_some_and(|(one, other)| one.to_bits() == other.to_bits())
        }
        (one, other) => one == other,
    }
}

fn children<'a>(
    all: &[&'a Fields],
    of: impl Fn(&'a Fields) -> Option<&'a Fields>,
) -> Vec<&'a Fields> {
    all.iter().filter_map(|fields| of(fields)).collect()
}

#[cfg(test)]
mod tests;
