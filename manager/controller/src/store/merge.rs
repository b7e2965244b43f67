//! Puts one layer of an object over another.

use serde_json::Value;

/// Puts `upper` over `lower`: maps merge by key, lists of named things merge by name, anything
/// else replaces. `null` says nothing.
pub fn over(lower: &mut Value, upper: &Value) {
    match (lower, upper) {
        (_, Value::Null) => {}
        (Value::Object(lower), Value::Object(upper)) => {
            for (key, value) in upper {
                over(lower.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(lower), Value::Array(upper)) if named(lower) && named(upper) => {
            for item in upper {
                match lower
                    .iter_mut()
                    .find(|other| other.get("name") == item.get("name"))
                {
                    Some(same) => over(same, item),
                    None => lower.push(item.clone()),
                }
            }
        }
        (lower, upper) => lower.clone_from(upper),
    }
}

fn named(items: &[Value]) -> bool {
    !items.is_empty()
        && items
            .iter()
            .all(|item| item.get("name").is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_and_named_lists_merge_and_the_rest_is_replaced() {
        let mut value = json!({"a": {"x": 1, "y": [1, 2]}, "items": [{"name": "n", "p": 1}]});
        over(
            &mut value,
            &json!({"a": {"y": [3], "z": null}, "items": [{"name": "n", "q": 2}, {"name": "m"}]}),
        );
        assert_eq!(
            value,
            json!({
                "a": {"x": 1, "y": [3], "z": null},
                "items": [{"name": "n", "p": 1, "q": 2}, {"name": "m"}],
            })
        );
    }
}
