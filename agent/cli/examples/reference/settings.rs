//! The page of a role's settings, from the JSON Schema of its file.

use serde_json::Value;

use super::{cell, defaults::Defaults};

/// Every setting of a role, as Markdown.
pub(super) fn page(role: &str, schema: &Value, defaults: &Defaults) -> String {
    let mut rows = Vec::new();
    walk(schema, schema, "", 0, &mut rows);
    let (variable, sets) = match role {
        "agent" => ("VIPS__API__VRID=51", "vips.api.vrid"),
        "gateway" => ("TUNNEL__MTU=1380", "tunnel.mtu"),
        _ => ("LISTEN=127.0.0.1:9444", "listen"),
    };
    let whose = match role {
        "agent" => String::new(),
        other => format!(" --role {other}"),
    };
    let mut page = format!(
        "# Configuration of `kedge {role}`\n\nFiles, lowest layer first: `/usr/lib/kedge/{role}.yaml`, \
         `/etc/kedge/{role}.yaml`, `/etc/kedge/{role}.yaml.d/*.yaml`; then environment variables \
         `KEDGE_SET_…` (`KEDGE_SET_{variable}` sets `{sets}`), then flags. Unknown keys are errors. \
         The schema for editors is `kedge config schema{whose}`; `kedge config view --origins{whose}` \
         says who set what.\n"
    );
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        page.push_str(&format!("\n{text}\n"));
    }
    page.push_str("\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for (key, kind, meaning) in rows {
        page.push_str(&format!(
            "| `{key}` | {} | {} | {} |\n",
            cell(&kind),
            cell(&defaults.get(&key)),
            cell(&meaning)
        ));
    }
    page
}

/// Settings nest a few levels; a schema that refers to itself must not go on for ever.
const DEEPEST: usize = 8;

fn walk(
    root: &Value,
    node: &Value,
    path: &str,
    depth: usize,
    rows: &mut Vec<(String, String, String)>,
) {
    if depth > DEEPEST {
        return;
    }
    let node = resolve(root, node);
    for branch in branches(node) {
        walk(root, branch, path, depth + 1, rows);
    }
    if let Some(properties) = node.get("properties").and_then(Value::as_object) {
        for (name, child) in properties {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let resolved = resolve(root, child);
            let text = |node: &Value| {
                node.get("description")
                    .and_then(Value::as_str)
                    .map(ToOwned::to_owned)
            };
            let meaning = text(child).or_else(|| text(resolved)).unwrap_or_default();
            rows.push((path.clone(), kind(root, child, 0), meaning));
            walk(root, child, &path, depth + 1, rows);
        }
    }
    if let Some(inner) = node
        .get("additionalProperties")
        .filter(|inner| inner.is_object())
    {
        walk(root, inner, &format!("{path}.NAME"), depth + 1, rows);
    }
}

/// The parts of a choice that may hold settings of their own.
fn branches(node: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|key| node.get(key).and_then(Value::as_array))
        .flatten()
}

fn resolve<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    node.get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| root.pointer(reference.trim_start_matches('#')))
        .unwrap_or(node)
}

/// The type in words.
fn kind(root: &Value, node: &Value, depth: usize) -> String {
    let node = resolve(root, node);
    if depth > DEEPEST {
        return String::new();
    }
    if let Some(constant) = node.get("const") {
        return literal(constant);
    }
    if let Some(choices) = node.get("enum").and_then(Value::as_array) {
        let choices: Vec<String> = choices
            .iter()
            .filter(|choice| !choice.is_null())
            .map(literal)
            .collect();
        return choices.join(", ");
    }
    let parts: Vec<String> = branches(node)
        .map(|branch| kind(root, branch, depth + 1))
        .filter(|part| !part.is_empty() && part != "null")
        .collect();
    if !parts.is_empty() {
        return parts.join(" or ");
    }
    let name = match node.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|name| *name != "null");
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => return String::new(),
    };
    match name.as_str() {
        "null" => String::new(),
        "object"
            if node
                .get("additionalProperties")
                .is_some_and(Value::is_object) =>
        {
            "map by name".to_owned()
        }
        "object" => "section".to_owned(),
        "array" => {
            let item = node.get("items").map(|item| kind(root, item, depth + 1));
            format!("list of {}", item.unwrap_or_default())
        }
        "integer" | "number" => format!("{name}{}", range(node)),
        _ => name,
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

fn range(node: &Value) -> String {
    match (node.get("minimum"), node.get("maximum")) {
        (Some(low), Some(high)) if low == high => format!(" {low}"),
        (Some(low), Some(high)) => format!(" {low} to {high}"),
        (Some(low), None) => format!(" from {low}"),
        (None, Some(high)) => format!(" up to {high}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_choices_and_references_become_rows() {
        let schema = json!({
            "type": "object",
            "properties": {
                "version": {"type": "integer", "minimum": 1, "maximum": 1, "description": "One"},
                "vips": {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/Vip"}},
            },
            "$defs": {
                "Vip": {"type": "object", "properties": {
                    "vrid": {"description": "Which", "anyOf": [
                        {"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 255}, {"type": "null"}
                    ]}
                }}
            }
        });
        let page = page("agent", &schema, &Defaults::of(kedge_host::Role::Agent));
        assert!(
            page.contains("| `version` | integer 1 | `1` | One |"),
            "{page}"
        );
        assert!(
            page.contains("| `vips.NAME.vrid` | `auto` or integer 1 to 255 | `auto` | Which |"),
            "{page}"
        );
    }
}
