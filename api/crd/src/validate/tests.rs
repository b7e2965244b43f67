use serde_json::{Value, json};

use super::*;
use crate::testing::{CASES, good, rule_messages};

#[test]
fn a_good_object_of_each_kind_is_accepted() {
    for kind in KINDS {
        assert_eq!(validate(&good(kind.kind), None), Ok(()), "{}", kind.kind);
    }
}

#[test]
fn a_good_object_is_what_the_type_holds() {
    fn holds<T: serde::de::DeserializeOwned + serde::Serialize>(kind: &str) {
        let spec = good(kind)["spec"].take();
        let read: T = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), spec, "{kind}");
    }
    holds::<crate::TenantSpec>("Tenant");
    holds::<crate::EdgeHostSpec>("EdgeHost");
    holds::<crate::EdgeGatewaySpec>("EdgeGateway");
    holds::<crate::LoadBalancerSpec>("LoadBalancer");
    holds::<crate::TcpLoadBalancerSpec>("TCPLoadBalancer");
    holds::<crate::HttpLoadBalancerSpec>("HTTPLoadBalancer");
    holds::<crate::VipPoolSpec>("VIPPool");
}

#[test]
fn every_change_is_accepted_or_refused_with_its_message() {
    for case in CASES {
        let (old, new) = (case.was(), case.becomes());
        // What is not set in the change is what it was: status is another writer's.
        let mut merged = new.clone();
        if let Some(status) = old.as_ref().and_then(|old| old.get("status")) {
            merged["status"] = status.clone();
        }
        let verdict = validate(&merged, old.as_ref());
        let told = verdict.err().map(|all| {
            let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
            lines.join("; ")
        });
        match (case.refused, told) {
            (None, told) => assert_eq!(told, None, "{case:?}"),
            (Some(message), told) => {
                let told = told.unwrap_or_default();
                assert!(told.contains(message), "{case:?}: {told:?}");
            }
        }
    }
}

#[test]
fn every_rule_has_a_case_that_it_refuses() {
    for kind in KINDS {
        for message in rule_messages(&kind) {
            let refused = CASES.iter().any(|case| {
                let part = case.refused.unwrap_or("-");
                case.kind == kind.kind && message.contains(part)
            });
            assert!(refused, "{}: no case for `{message}`", kind.kind);
        }
    }
}

#[test]
fn unknown_fields_of_a_spec_are_refused_and_other_kinds_are_not_judged() {
    let mut document = good("VIPPool");
    document["spec"]["adresses"] = json!([]);
    let told = validate(&document, None).unwrap_err();
    assert_eq!(told[0].to_string(), "spec.adresses: is not a known field");
    let foreign = json!({"apiVersion": "v1", "kind": "Secret", "data": 1});
    assert_eq!(validate(&foreign, None), Ok(()));
    assert_eq!(validate(&Value::Null, None), Ok(()));
}

#[test]
fn every_string_list_and_map_of_a_spec_is_bounded() {
    fn walk(schema: &Value, path: &str) {
        let bounded = match schema["type"].as_str() {
            Some("string") => schema.get("enum").or(schema.get("maxLength")),
            Some("array") => schema.get("maxItems"),
            Some("object") if schema.get("additionalProperties").is_some() => {
                schema.get("maxProperties")
            }
            _ => Some(schema),
        };
        assert!(bounded.is_some(), "{path} has no bound");
        for keyword in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(keyword) {
                walk(inner, &format!("{path}[]"));
            }
        }
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            walk(inner, &format!("{path}.{name}"));
        }
    }
    for kind in KINDS {
        walk(&kind.schema()["properties"]["spec"], kind.kind);
    }
}
