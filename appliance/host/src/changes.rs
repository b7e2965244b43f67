//! What differs between two configurations, as sentences.

use serde_json::Value;

/// Every key whose value differs, such as `vips.api.priority: 200 instead of 210`.
#[must_use]
pub fn changes(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

fn compare(key: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<String>) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(before)), Some(Value::Object(after))) = (before, after) {
        let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
        keys.sort();
        keys.dedup();
        for child in keys {
            let path = if key.is_empty() {
                child.clone()
            } else {
                format!("{key}.{child}")
            };
            compare(&path, before.get(child), after.get(child), found);
        }
        return;
    }
    found.push(match (before, after) {
        (None, Some(after)) => format!("{key}: {after} is new"),
        (Some(before), None) => format!("{key}: {before} is gone"),
        (before, after) => {
            let show = |value: Option<&Value>| value.map_or_else(String::new, Value::to_string);
            format!("{key}: {} instead of {}", show(after), show(before))
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let before = json!({"vips": {"api": {"vrid": 7, "addresses": ["a"]}, "old": {}}, "n": 1});
        let after = json!({"vips": {"api": {"vrid": 8, "addresses": ["a"]}, "new": {}}, "n": 1});
        assert_eq!(
            changes(&before, &after),
            [
                "vips.api.vrid: 8 instead of 7",
                "vips.new: {} is new",
                "vips.old: {} is gone"
            ]
        );
        assert!(changes(&before, &before).is_empty());
    }
}
