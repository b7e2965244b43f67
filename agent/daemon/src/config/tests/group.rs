//! VIPs that move together.

use super::*;

fn two(second: &str) -> Result<AgentConfig, Vec<Problem>> {
    load(&format!(
        "vips:\n  api: {{addresses: [10.20.14.10], sync_group: gate, priority: 250}}\n  \
         six: {{addresses: ['fd00:14::10'], {second}}}\n"
    ))
}

#[test]
fn members_of_a_group_agree_in_what_decides_the_election() {
    let config = two("sync_group: gate, priority: 250, advert_interval: 1s").unwrap();
    let groups: Vec<_> = config
        .vips
        .values()
        .map(|vip| vip.sync_group.clone())
        .collect();
    assert_eq!(
        groups,
        [Some("gate".parse().unwrap()), Some("gate".parse().unwrap())]
    );
    assert!(two("sync_group: other, priority: 200").is_ok());
    assert!(two("priority: 200").is_ok());
    for (second, words) in [
        ("sync_group: gate", "their priority differs"),
        ("sync_group: gate, priority: 251", "their priority differs"),
        (
            "sync_group: gate, priority: 250, preempt: true",
            "their preempt differs",
        ),
        (
            "sync_group: gate, priority: 250, health: none",
            "their health differs",
        ),
        ("sync_group: gate, priority: 255", "moves with no other VIP"),
    ] {
        let problems = two(second).unwrap_err();
        assert!(told(&problems[0]).contains(words), "{second}: {problems:?}");
        assert_eq!(problems[0].code, Code::ConfigRule);
        assert!(problems[0].object.starts_with("vips.six."), "{problems:?}");
    }
}
