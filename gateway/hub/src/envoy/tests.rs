//! What is told of what is not served.

use kedge_control::site::{Action, HeaderChange, Match, Route, Site};

use super::*;
use crate::config::Engine;

#[tokio::test]
async fn a_site_that_cannot_be_told_is_unserved_and_the_rest_is_pending_until_envoy_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = ProxyConfig {
        engine: Engine::Envoy,
        envoy: None,
        max_connections: 1,
    };
    let mut beside = Beside::new(&config, &Root::new(folder.path()));
    let site = |name: &str, status: u16| Site {
        name: format!("t/{name}"),
        tenant: "t".to_owned(),
        address: "127.0.0.1".parse().unwrap(),
        http: Some(80.try_into().unwrap()),
        https: None,
        hosts: vec![format!("{name}.example")],
        certificates: Vec::new(),
        redirect: false,
        routes: vec![Route {
            hosts: Vec::new(),
            matches: Match::default(),
            action: Action::Answer { status },
            request_headers: HeaderChange::default(),
            response_headers: HeaderChange::default(),
            cors: None,
        }],
    };
    beside.apply(Offer {
        sites: vec![site("good", 200), site("bad", 100)],
        ..Offer::default()
    });
    let mut unserved = beside.unserved();
    unserved.sort();
    let told: Vec<(&str, UnservedReason)> = unserved
        .iter()
        .map(|one| (&*one.frontend, one.reason))
        .collect();
    assert_eq!(
        told,
        [
            ("t/bad", UnservedReason::Invalid),
            ("t/good", UnservedReason::Pending),
        ]
    );
    assert!(unserved[0].message.starts_with("its route 1: "));
    let problems = beside.problems();
    let is_told = |problem: &Problem| {
        problem.code == Code::GatewayEnvoyRefused && problem.object.contains("t/bad")
    };
    assert!(problems.iter().any(is_told), "{problems:?}");
    beside.apply(Offer::default());
    assert_eq!(beside.unserved(), []);
}
