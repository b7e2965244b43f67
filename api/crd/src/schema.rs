//! From Rust types to the structural schema a CustomResourceDefinition wants.
//!
//! What schemars writes is JSON Schema; an API server takes a subset of it. Differences that
//! matter: no `null` types (an absent field is absent), no defaults (they would be written into
//! people's documents), enumerations as one list, unknown fields left to pruning, and formats the
//! server knows. Every string, list and map is bounded: rules cost what the bounds allow.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use crate::condition::Condition;

/// The longest text of a field that names no bound of its own.
const MAX_TEXT: u64 = 1024;
/// The longest list of a field that names no bound of its own.
const MAX_ITEMS: u64 = 256;
/// The largest map of a field that names no bound of its own.
const MAX_PROPERTIES: u64 = 64;

/// Keywords that say nothing to an API server, or the wrong thing.
const DROPPED: &[&str] = &[
    "$schema", "title", "default", "examples", "nullable", "const",
];

/// The structural schema of a type.
#[must_use]
pub fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    rewrite(schema.to_value())
}

fn rewrite(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        // `true`: anything.
        return json!({"x-kubernetes-preserve-unknown-fields": true});
    };
    not_null(&mut schema);
    one_enumeration(&mut schema);
    for keyword in DROPPED {
        schema.remove(*keyword);
    }
    known_format(&mut schema);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            *property = rewrite(property.take());
        }
    }
    for keyword in ["items", "additionalProperties"] {
        match schema.remove(keyword) {
            // Unknown fields are refused by strict clients and pruned for all others.
            None | Some(Value::Bool(false)) => {}
            Some(inner) => {
                schema.insert(keyword.to_owned(), rewrite(inner));
            }
        }
    }
    bound(&mut schema);
    Value::Object(schema)
}

/// `null` beside a type stands for an absent field.
fn not_null(schema: &mut Map<String, Value>) {
    let null = Value::from("null");
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| *one != null);
        if let Some(one) = types.pop() {
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(mut any)) = schema.remove("anyOf") {
        any.retain(|one| one.get("type") != Some(&null));
        if let Some(Value::Object(one)) = any.pop() {
            for (keyword, value) in one {
                schema.entry(keyword).or_insert(value);
            }
        }
    }
}

/// Variants with documentation come as a choice of constants.
fn one_enumeration(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(variants)) = schema.remove("oneOf") {
        let values = variants.iter().flat_map(|variant| {
            let list = variant.get("enum").and_then(Value::as_array).cloned();
            let one = variant.get("const").cloned();
            one.into_iter().chain(list.unwrap_or_default())
        });
        let values: Vec<Value> = values.collect();
        let told = variants.iter().filter_map(|variant| {
            let name = variant.get("const")?.as_str()?;
            Some(format!("{name}: {}", variant.get("description")?.as_str()?))
        });
        let told: Vec<String> = told.collect();
        let text = schema.get("description").and_then(Value::as_str);
        let text = [text.unwrap_or_default(), &told.join(" ")].join(" ");
        schema.insert("description".to_owned(), Value::from(text.trim()));
        schema.insert("type".to_owned(), Value::from("string"));
        schema.insert("enum".to_owned(), Value::Array(values));
    } else if let Some(one) = schema.get("const").cloned() {
        schema.insert("enum".to_owned(), Value::Array(vec![one]));
    }
}

/// Formats of Rust become bounds; formats of an API server stay.
fn known_format(schema: &mut Map<String, Value>) {
    let Some(Value::String(format)) = schema.remove("format") else {
        return;
    };
    let (format, least, most) = match format.as_str() {
        "uint8" => ("int32", Some(0), Some(u64::from(u8::MAX))),
        "uint16" => ("int32", Some(0), Some(u64::from(u16::MAX))),
        "uint32" => ("int64", Some(0), Some(u64::from(u32::MAX))),
        "uint" | "uint64" => ("int64", Some(0), None),
        "ip" => {
            schema.entry("maxLength").or_insert(Value::from(45));
            let rule = json!([{"rule": "isIP(self)", "message": "must be an IP address"}]);
            schema.entry("x-kubernetes-validations").or_insert(rule);
            return;
        }
        other @ ("int32" | "int64" | "date-time") => (other, None, None),
        _ => return,
    };
    let format = Value::from(format);
    schema.insert("format".to_owned(), format);
    if let Some(least) = least {
        schema.entry("minimum").or_insert(Value::from(least));
    }
    if let Some(most) = most {
        schema.entry("maximum").or_insert(Value::from(most));
    }
}

fn bound(schema: &mut Map<String, Value>) {
    let kind = schema.get("type").and_then(Value::as_str);
    let (keyword, most) = match kind {
        Some("string") if !schema.contains_key("enum") => ("maxLength", MAX_TEXT),
        Some("array") => ("maxItems", MAX_ITEMS),
        Some("object") if schema.contains_key("additionalProperties") => {
            ("maxProperties", MAX_PROPERTIES)
        }
        _ => return,
    };
    schema.entry(keyword).or_insert(Value::from(most));
}

/// The schema of a duration: [`kedge_core::Span`].
pub(crate) fn span(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^[0-9]+([.][0-9]+)?(ms|s|m|h|d)$')",
            "message": "must be a number with a unit, such as 100ms, 1.5s, 2m or 1h",
        }],
    })
}

/// The schema of the conditions of a status.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Condition>(),
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// The schema of a list of prefixes.
pub(crate) fn prefixes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "maxLength": 49},
        "maxItems": 64,
        "x-kubernetes-validations": [{
            "rule": "self.all(c, isCIDR(c))", "message": "must be prefixes such as 10.0.0.0/8",
        }],
    })
}

/// Prefixes of clients, each once.
pub(crate) fn clients(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "maxLength": 49},
        "maxItems": 64,
        "x-kubernetes-validations": [
            {
                "rule": "self.all(c, isCIDR(c))", "message": "must be prefixes such as 10.0.0.0/8",
            },
            {
                "rule": "self.all(c, self.exists_one(d, d == c))", "message": "a prefix stands twice",
            },
        ],
    })
}

/// Prefixes that somebody is trusted for: some, each once, and none that is everybody.
pub(crate) fn sources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "maxLength": 49},
        "minItems": 1,
        "maxItems": 64,
        "x-kubernetes-validations": [
            {
                "rule": "self.all(c, isCIDR(c))", "message": "must be prefixes such as 10.0.0.0/8",
            },
            {
                "rule": "self.all(c, self.exists_one(d, d == c))", "message": "a prefix stands twice",
            },
            {
                "rule": "self.all(c, !c.endsWith('/0'))", "message": "must not be everybody",
            },
        ],
    })
}
