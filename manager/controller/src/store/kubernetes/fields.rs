//! Sets of fields as `metadata.managedFields` writes them (`fieldsV1`), and what of an object is
//! in them.
//!
//! `f:<name>` is a member of a map, `k:{…}` the item of a list with these keys, `v:…` the item of
//! a set with this value, `i:<n>` the item at that place, `.` the map or item itself. A field
//! without members is owned with everything in it.

use serde_json::{Map, Value};

/// A set of fields.
pub type Fields = Map<String, Value>;

/// What of `value` is in `own`. Of a map that is owned without its members, and whose members
/// others own, nothing but the map is taken.
#[must_use]
pub fn extract(value: &Value, own: &Fields, others: &[&Fields]) -> Option<Value> {
    if is_leaf(own) {
        let shared = others.iter().any(|fields| !is_leaf(fields));
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
                let step = format!("f:{name}");
                if let Some(own) = child(own, &step)
                    && let Some(part) = extract(member, own, &children(others, &step))
                {
                    taken.insert(name.clone(), part);
                }
            }
            (!taken.is_empty() || own.contains_key(SELF)).then_some(Value::Object(taken))
        }
        Value::Array(items) => {
            let taken: Vec<Value> = items
                .iter()
                .enumerate()
                .filter_map(|(index, item)| {
                    let step = own.keys().find(|step| is_step(step, index, item))?;
                    extract(item, child(own, step)?, &children(others, step))
                })
                .collect();
            (!taken.is_empty() || own.contains_key(SELF)).then_some(Value::Array(taken))
        }
        // The object changed its shape since the field was owned.
        _ => None,
    }
}

/// What of `value` is left without the fields in `own` that none of `others` owns too.
#[must_use]
pub fn without(value: Value, own: &Fields, others: &[&Fields]) -> Option<Value> {
    if is_leaf(own) {
        return (!others.is_empty()).then_some(value);
    }
    let kept = match value {
        Value::Object(members) => {
            let mut left = Map::new();
            for (name, member) in members {
                let step = format!("f:{name}");
                let rest = match child(own, &step) {
                    Some(own) => without(member, own, &children(others, &step)),
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
                .filter_map(|(index, item)| {
                    match own.keys().find(|step| is_step(step, index, &item)) {
                        Some(step) => without(item, child(own, step)?, &children(others, step)),
                        None => Some(item),
                    }
                })
                .collect();
            (!left.is_empty()).then_some(Value::Array(left))
        }
        scalar => Some(scalar),
    };
    // Somebody else wrote it, empty as it is.
    kept.or_else(|| {
        let theirs = others.iter().any(|fields| owns_itself(fields));
        (theirs && !own.is_empty()).then(|| Value::Object(Map::new()))
    })
}

/// The fields below a path of steps, if the path is in the set.
#[must_use]
pub fn at<'a>(fields: &'a Fields, path: &[&str]) -> Option<&'a Fields> {
    path.iter()
        .try_fold(fields, |fields, step| child(fields, step))
}

/// Adds the fields of `more`.
pub fn join(fields: &mut Fields, more: Fields) {
    for (step, more) in more {
        match (fields.get_mut(&step), more) {
            (Some(Value::Object(fields)), Value::Object(more)) => {
                // Owned with everything in it, beside the same with some of it.
                if fields.is_empty() != more.is_empty() {
                    fields.insert(SELF.to_owned(), Value::Object(Map::new()));
                }
                join(fields, more);
            }
            (Some(_), _) => {}
            (None, more) => {
                fields.insert(step, more);
            }
        }
    }
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

fn is_leaf(fields: &Fields) -> bool {
    fields.keys().all(|step| step == SELF)
}

fn owns_itself(fields: &Fields) -> bool {
    fields.is_empty() || fields.contains_key(SELF)
}

fn child<'a>(fields: &'a Fields, step: &str) -> Option<&'a Fields> {
    fields.get(step)?.as_object()
}

fn children<'a>(all: &[&'a Fields], step: &str) -> Vec<&'a Fields> {
    all.iter()
        .filter_map(|fields| child(fields, step))
        .collect()
}

/// Whether the step leads to that item of a list.
fn is_step(step: &str, index: usize, item: &Value) -> bool {
    match step.split_at_checked(2) {
        Some(("k:", keys)) => {
            let keys: Option<Map<String, Value>> = serde_json::from_str(keys).ok();
            keys.is_some_and(|keys| {
                keys.iter()
                    .all(|(name, key)| item.get(name).is_some_and(|value| same(value, key)))
            })
        }
        Some(("v:", value)) => {
            let value: Option<Value> = serde_json::from_str(value).ok();
            value.is_some_and(|value| same(&value, item))
        }
        Some(("i:", place)) => place.parse() == Ok(index),
        _ => false,
    }
}

const SELF: &str = ".";

#[cfg(test)]
mod tests;
