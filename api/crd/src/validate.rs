//! The rules of an API server, without one: the same schema and the same CEL rules that the
//! CustomResourceDefinitions carry, over a document.
//!
//! Stricter than a server in one place: an unknown field of the spec is refused, where a server
//! refuses it to strict clients and prunes it for all others.

use std::{fmt, sync::OnceLock};

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Map, Value};

use crate::kinds::{KINDS, Kind};

/// What is wrong at one place of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The place, such as `spec.ports[0].port`.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Checks a document of one of our kinds; `old` is what it replaces. Documents of other kinds are
/// not ours to judge.
///
/// # Errors
///
/// Everything that is wrong with it. The rules are asked only where the schema holds.
pub fn validate(document: &Value, old: Option<&Value>) -> Result<(), Vec<Violation>> {
    let Some(compiled) = compiled(document) else {
        return Ok(());
    };
    let mut found = Vec::new();
    for part in ["spec", "status"] {
        let schema = compiled.schema.pointer(&format!("/properties/{part}"));
        match (document.get(part), schema) {
            (Some(value), Some(schema)) => {
                check(schema, value, part.to_owned(), part == "spec", &mut found);
            }
            (None, Some(_)) if part == "spec" => found.push(violation(part, "is required")),
            _ => {}
        }
    }
    if found.is_empty() {
        let rules = Validator::new().validate_compiled(&compiled.rules, document, old);
        let broken = rules.err().into_iter().flat_map(|errors| errors.into_vec());
        found.extend(broken.map(|error| violation(&error.field_path, &error.message)));
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

struct Compiled {
    schema: Value,
    rules: CompiledSchema,
}

/// The compiled schema of a document's kind, if it is ours. Rules are compiled once.
fn compiled(document: &Value) -> Option<&'static Compiled> {
    static COMPILED: [OnceLock<Compiled>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];
    if document.get("apiVersion")?.as_str()? != Kind::api_version() {
        return None;
    }
    let kind = document.get("kind")?.as_str()?;
    let (known, cell) = KINDS
        .iter()
        .zip(&COMPILED)
        .find(|(known, _)| known.kind == kind)?;
    Some(cell.get_or_init(|| {
        let schema = known.schema();
        let rules = compile_schema(&schema);
        Compiled { schema, rules }
    }))
}

fn violation(path: &str, message: impl Into<String>) -> Violation {
    Violation {
        path: path.to_owned(),
        message: message.into(),
    }
}

fn check(schema: &Value, value: &Value, path: String, strict: bool, found: &mut Vec<Violation>) {
    let Some(schema) = schema.as_object() else {
        return;
    };
    let kind = schema.get("type").and_then(Value::as_str);
    let fits = match (kind, value) {
        (Some("object"), Value::Object(_))
        | (Some("array"), Value::Array(_))
        | (Some("string"), Value::String(_))
        | (Some("boolean"), Value::Bool(_))
        | (Some("number"), Value::Number(_))
        | (None, _) => true,
        (Some("integer"), Value::Number(number)) => number.is_i64() || number.is_u64(),
        _ => false,
    };
    if !fits {
        let kind = kind.unwrap_or_default();
        found.push(violation(&path, format!("must be of type {kind}")));
        return;
    }
    match value {
        Value::Object(fields) => object(schema, fields, &path, strict, found),
        Value::Array(items) => list(schema, items, &path, strict, found),
        Value::String(text) => {
            let length = text.chars().count() as u64;
            within(schema, "Length", length, "characters", &path, found);
        }
        Value::Number(number) => found.extend(number_fits(schema, number.as_f64(), &path)),
        Value::Null | Value::Bool(_) => {}
    }
    let one_of = schema.get("enum").and_then(Value::as_array);
    if let Some(allowed) = one_of.filter(|allowed| !allowed.contains(value)) {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        let text = format!("must be one of {}", names.join(", "));
        found.push(violation(&path, text));
    }
}

fn object(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    path: &str,
    strict: bool,
    found: &mut Vec<Violation>,
) {
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            found.push(violation(&format!("{path}.{name}"), "is required"));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    if others.is_some() {
        within(
            schema,
            "Properties",
            fields.len() as u64,
            "entries",
            path,
            found,
        );
    }
    let open = schema.contains_key("x-kubernetes-preserve-unknown-fields");
    for (name, value) in fields {
        let known = properties.and_then(|properties| properties.get(name));
        let path = format!("{path}.{name}");
        match known.or(others) {
            Some(schema) => check(schema, value, path, strict, found),
            None if strict && !open => found.push(violation(&path, "is not a known field")),
            None => {}
        }
    }
}

fn list(
    schema: &Map<String, Value>,
    items: &[Value],
    path: &str,
    strict: bool,
    found: &mut Vec<Violation>,
) {
    within(schema, "Items", items.len() as u64, "items", path, found);
    let of_item = schema.get("items").unwrap_or(&Value::Null);
    for (index, item) in items.iter().enumerate() {
        check(of_item, item, format!("{path}[{index}]"), strict, found);
    }
    let keys = schema.get("x-kubernetes-list-map-keys");
    let Some(keys) = keys.and_then(Value::as_array) else {
        return;
    };
    let key = |item: &Value| -> Vec<Value> {
        let names = keys.iter().filter_map(Value::as_str);
        names
            .map(|name| item.get(name).cloned().unwrap_or_default())
            .collect()
    };
    for (index, item) in items.iter().enumerate() {
        let before = items.iter().take(index);
        if before.map(key).any(|other| other == key(item)) {
            let path = format!("{path}[{index}]");
            found.push(violation(&path, "is there twice"));
        }
    }
}

/// `minLength` and its relatives.
fn within(
    schema: &Map<String, Value>,
    what: &str,
    count: u64,
    unit: &str,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let bound = |end: &str| schema.get(&format!("{end}{what}")).and_then(Value::as_u64);
    if let Some(most) = bound("max").filter(|most| count > *most) {
        found.push(violation(path, format!("may have at most {most} {unit}")));
    }
    if let Some(least) = bound("min").filter(|least| count < *least) {
        found.push(violation(
            path,
            format!("must have at least {least} {unit}"),
        ));
    }
}

fn number_fits(schema: &Map<String, Value>, number: Option<f64>, path: &str) -> Option<Violation> {
    let number = number?;
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    if let Some(least) = bound("minimum").filter(|least| number < *least) {
        return Some(violation(path, format!("must be at least {least}")));
    }
    if let Some(most) = bound("maximum").filter(|most| number > *most) {
        return Some(violation(path, format!("must be at most {most}")));
    }
    let step = bound("multipleOf")?;
    let steps = number / step;
    let off = (steps - steps.round()).abs() > 1e-6;
    off.then(|| violation(path, format!("must be a multiple of {step}")))
}

#[cfg(test)]
mod tests;
