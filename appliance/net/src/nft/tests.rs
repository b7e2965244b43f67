use super::*;
use crate::netns::{Lease, Namespace, tests::root};

#[test]
fn masquerade_loads_and_a_bad_ruleset_changes_nothing() {
    if !root() {
        return;
    }
    let lease = Lease::take().unwrap();
    let router = Namespace::create(&lease.namespace("router")).unwrap();
    router
        .run(|| {
            masquerade("wan0").unwrap();
            let bad = r#"{"nftables":[{"add":{"table":{"family":"ip","name":"other"}}},
                {"add":{"chain":{"family":"ip","table":"nowhere","name":"c"}}}]}"#;
            let refused = apply_json(bad).unwrap_err();
            assert!(refused.to_string().contains("No such file"), "{refused}");
            assert!(matches!(apply_json("{"), Err(NftError::Json(_))));
            let rules = format!("{:?}", nftables::helper::get_current_ruleset().unwrap());
            assert!(
                rules.contains("Masquerade") && rules.contains("wan0"),
                "{rules}"
            );
            assert!(!rules.contains("other"), "{rules}");
        })
        .unwrap();
}
