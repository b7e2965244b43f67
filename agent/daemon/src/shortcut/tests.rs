use kedge_control::{
    agent::{ShortcutPort, ShortcutTarget},
    local::ShortcutState,
};

use super::*;

fn wish(name: &str, port: u16, targets: &[&str]) -> ShortcutWish {
    let number = |port: u16| port.try_into().unwrap();
    ShortcutWish {
        config: ShortcutConfig {
            name: name.to_owned(),
            addresses: vec!["127.0.0.7".parse().unwrap()],
            ports: vec![ShortcutPort {
                port: number(port),
                target_port: number(6443),
            }],
            targets: targets
                .iter()
                .map(|address| ShortcutTarget {
                    host: format!("t/{address}"),
                    address: address.parse().unwrap(),
                })
                .collect(),
        },
        refused: None,
    }
}

#[tokio::test]
async fn what_is_wanted_is_shown_with_why_and_nobody_is_asked_while_the_tunnel_is_up() {
    let mut all = Shortcuts::new();
    all.tunnel(true);
    let mut refused = wish("t/lan", 30002, &[]);
    refused.refused = Some("127.0.0.7 is on the LAN of eth0".to_owned());
    all.want(&[wish("t/edge", 30001, &["127.0.0.9"]), refused]);
    let status = all.status();
    let states: Vec<ShortcutState> = status.iter().map(|it| it.state).collect();
    assert_eq!(states, [ShortcutState::Gateway, ShortcutState::Refused]);
    assert_eq!(status[0].endpoints, ["127.0.0.7:30001"]);
    assert_eq!(status[0].targets, ["t/127.0.0.9 127.0.0.9"]);
    assert!(status[0].because.contains("through the tunnel"));
    assert!(all.entries["t/edge"].probe.is_none());
    all.tunnel(false);
    assert!(all.entries["t/edge"].probe.is_some());
    assert_eq!(all.status()[0].state, ShortcutState::Doubted);
    // Another answer of the manager: the same endpoint with other hosts goes on where it was.
    let since = all.entries["t/edge"].machine.state();
    all.want(&[wish("t/edge", 30001, &["127.0.0.8"])]);
    assert_eq!(all.entries["t/edge"].machine.state(), since);
    all.tunnel(true);
    assert!(all.entries["t/edge"].probe.is_none());
    all.want(&[]);
    assert!(all.status().is_empty());
}
