use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fields(value: Value) -> Fields {
    serde_json::from_value(value).unwrap()
}

#[test]
fn what_is_owned_is_taken_and_the_rest_is_left() {
    let object = json!({
        "spec": {
            "scalar": 1, "theirs": 2,
            "map": {"a": 1, "b": 2},
            "whole": {"x": [1, 2]},
            "items": [{"name": "a", "x": 1, "y": 2}, {"name": "b", "x": 3}],
            "set": ["u", "v"],
            "places": [10, 20],
        },
    });
    let own = fields(json!({"f:spec": {
        "f:scalar": {}, "f:map": {"f:a": {}}, "f:whole": {}, "f:gone": {},
        "f:items": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:x": {}}},
        "f:set": {"v:\"v\"": {}}, "f:places": {"i:1": {}},
    }}));
    let others = fields(json!({"f:spec": {"f:theirs": {}, "f:items": {
        "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:y": {}},
        "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:x": {}},
    }}}));
    assert_eq!(
        extract(&object, &own, &[&others]),
        Some(json!({"spec": {
            "scalar": 1, "map": {"a": 1}, "whole": {"x": [1, 2]},
            "items": [{"name": "a", "x": 1}], "set": ["v"], "places": [20],
        }}))
    );
    assert_eq!(
        without(object, &own, &[&others]),
        Some(json!({"spec": {
            "theirs": 2, "map": {"b": 2},
            "items": [{"name": "a", "y": 2}, {"name": "b", "x": 3}],
            "set": ["u"], "places": [10],
        }}))
    );
}

#[test]
fn a_field_that_two_own_belongs_to_both() {
    let object = json!({"spec": {"host": "a", "port": 1}});
    let own = fields(json!({"f:spec": {"f:host": {}, "f:port": {}}}));
    let others = fields(json!({"f:spec": {"f:host": {}}}));
    assert_eq!(extract(&object, &own, &[&others]), Some(object.clone()));
    let left = without(object, &own, &[&others]);
    assert_eq!(left, Some(json!({"spec": {"host": "a"}})));
}

#[test]
fn a_map_that_is_owned_alone_does_not_take_the_members_of_others() {
    let object = json!({"labels": {"a": "1"}});
    let own = fields(json!({"f:labels": {}}));
    let others = fields(json!({"f:labels": {"f:a": {}}}));
    assert_eq!(
        extract(&object, &own, &[&others]),
        Some(json!({"labels": {}}))
    );
    assert_eq!(
        without(object.clone(), &own, &[&others]),
        Some(object.clone())
    );
    assert_eq!(extract(&object, &own, &[]), Some(object.clone()));
    assert_eq!(without(object, &own, &[]), None);
}

#[test]
fn keys_of_list_items_are_compared_as_values() {
    let object =
        json!({"ports": [{"port": 6443, "protocol": "TCP"}, {"port": 6443, "protocol": "UDP"}]});
    let own = fields(
        json!({"f:ports": {"k:{\"port\":6443,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}}}),
    );
    assert_eq!(
        extract(&object, &own, &[]),
        Some(json!({"ports": [{"port": 6443, "protocol": "UDP"}]}))
    );
}

#[test]
fn a_list_that_became_a_map_is_not_ours_any_more() {
    let own = fields(json!({"f:items": {"k:{\"name\":\"a\"}": {".": {}}}}));
    assert_eq!(extract(&json!({"items": {"a": 1}}), &own, &[]), None);
    assert_eq!(extract(&json!({"items": 3}), &own, &[]), None);
}

#[test]
fn contents_are_compared_by_what_they_say() {
    let table = [
        (json!({"a": null}), json!({}), true),
        (json!({"a": 1.0}), json!({"a": 1}), true),
        (json!({"a": 0.1}), json!({"a": 0.1}), true),
        (json!({"a": {}}), json!({}), false),
        (json!({"a": [1]}), json!({"a": [1, 2]}), false),
        (json!({}), json!({"a": 1}), false),
        (json!({"a": "1"}), json!({"a": 1}), false),
    ];
    for (one, other, is_same) in table {
        assert_eq!(same(&one, &other), is_same, "{one} {other}");
        assert_eq!(same(&other, &one), is_same, "{other} {one}");
    }
}

/// The set of every field of a value, as an API server writes it for untyped maps.
fn all_of(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (format!("f:{name}"), all_of(member)))
            .collect(),
        _ => json!({}),
    }
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        Just(json!([1, 2])),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        proptest::collection::btree_map("[a-e]", inner, 1..4)
            .prop_map(|members| members.into_iter().collect())
    })
}

fn spec() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-e]", tree(), 1..4)
        .prop_map(|members| members.into_iter().collect())
}

proptest! {
    /// Two who apply different documents get their own back, whole, and the rest is the other's.
    #[test]
    fn what_two_applied_is_told_apart(ours in spec(), theirs in spec()) {
        // A user's `u` and our `o` never meet; both share the map above them.
        let object = json!({"spec": {"o": ours, "u": theirs}});
        let own = fields(json!({"f:spec": {"f:o": all_of(&ours)}}));
        let other = fields(json!({"f:spec": {"f:u": all_of(&theirs)}}));
        prop_assert_eq!(
            extract(&object, &own, &[&other]),
            Some(json!({"spec": {"o": ours}}))
        );
        prop_assert_eq!(
            without(object, &own, &[&other]),
            Some(json!({"spec": {"u": theirs}}))
        );
    }

    /// Nothing is lost: what is ours put over what is left makes the object again.
    #[test]
    fn the_parts_make_the_whole(object in spec(), own in spec()) {
        let own = fields(all_of(&own));
        let taken = extract(&object, &own, &[]).unwrap_or_else(|| json!({}));
        let mut whole = without(object.clone(), &own, &[]).unwrap_or_else(|| json!({}));
        put(&mut whole, taken);
        prop_assert!(whole == object, "{} {}", whole, object);
    }
}
