//! The hardware address of a VIP.

use super::*;

fn one(rest: &str) -> Result<AgentConfig, Vec<Problem>> {
    load(&format!(
        "vips:\n  api: {{addresses: [10.20.14.10], {rest}}}\n"
    ))
}

#[test]
fn the_virtual_hardware_address_is_asked_for_and_not_the_default() {
    assert!(one("virtual_mac: true").unwrap().vips["api"].virtual_mac);
    assert!(!one("virtual_mac: false").unwrap().vips["api"].virtual_mac);
    let config = one("vrid: 51").unwrap();
    assert!(!config.vips["api"].virtual_mac);
}

#[test]
fn it_needs_the_fence_and_is_not_for_the_owner() {
    for (rest, words) in [
        ("virtual_mac: true, fence: false", "needs the fence"),
        (
            "virtual_mac: true, priority: 255",
            "interface's own hardware address",
        ),
    ] {
        let problems = one(rest).unwrap_err();
        assert!(told(&problems[0]).contains(words), "{rest}: {problems:?}");
        assert_eq!(problems[0].code, Code::ConfigRule);
        assert_eq!(problems[0].object, "vips.api.virtual_mac");
    }
}
