//! Several gateways to the same prefixes.

use std::time::Duration;

use super::*;

fn failover(body: &str) -> Result<Option<FailoverConfig>, Vec<Problem>> {
    let yaml = format!(
        "tunnel:\n  addresses: [198.18.0.10/32]\n  peers:\n    gw-a: {{public_key: \"{KEY}\", \
         allowed_ips: [198.18.0.1/32, 10.8.0.0/16]}}\n  failover: {{{body}}}\n"
    );
    load(&yaml).map(|config| config.tunnel.failover)
}

#[test]
fn prefixes_alone_are_enough() {
    let config = failover("prefixes: [10.9.0.7/24]").unwrap().unwrap();
    assert_eq!(config.prefixes, ["10.9.0.0/24".parse().unwrap()]);
    assert!(config.gateways.is_empty() && config.targets.is_empty());
    assert_eq!(config.interval, Duration::from_millis(300));
    assert_eq!(config.return_after, Delay::RETURN.duration());
    assert!(failover("").unwrap().is_none());
    assert!(failover("gateways: [gw-a]").unwrap().is_none());
}

#[test]
fn each_key_of_failover_is_understood() {
    let body = "prefixes: [10.9.0.0/24, fd09::/64], gateways: [gw-b, gw-a], profile: fast, \
                targets: [10.9.0.5, \"fd09::5\"], return_after: 0s";
    let config = failover(body).unwrap().unwrap();
    let names: Vec<&str> = config.gateways.iter().map(Name::as_str).collect();
    assert_eq!(names, ["gw-b", "gw-a"], "the order is the preference");
    assert_eq!(config.interval, Duration::from_millis(100));
    assert_eq!(config.targets.len(), 2);
    assert_eq!(config.return_after, Duration::ZERO);
}

#[test]
fn every_mistake_in_failover_is_located_and_coded() {
    use Code::{ConfigOutOfRange as Range, ConfigRule as Rule, ConfigUnknownKey as Unknown};

    let behind = "prefixes: [10.9.0.0/24]";
    for (body, code, words) in [
        (
            "prefixes: [0.0.0.0/0]",
            Rule,
            "would lead the whole host into the tunnel",
        ),
        (
            "prefixes: [10.8.0.0/16]",
            Rule,
            "is in the allowed_ips of gw-a",
        ),
        (
            &format!("{behind}, targets: [10.8.0.1]"),
            Rule,
            "in none of the prefixes",
        ),
        (&format!("{behind}, profile: soon"), Range, "soon"),
        (&format!("{behind}, return_after: 2h"), Range, "1h"),
        (
            &format!("{behind}, return_aftr: 1s"),
            Unknown,
            "return_aftr",
        ),
    ] {
        let problems = failover(body).unwrap_err();
        told_as(&problems, words, code, ["agent.yaml", "tunnel.failover"]);
    }
}

#[test]
fn the_kernel_leads_to_one_gateway_alone() {
    let yaml = "tunnel:\n  data_plane: kernel\n  failover: {prefixes: [10.9.0.0/24]}\n";
    let problems = load(yaml).unwrap_err();
    let places = ["agent.yaml", "tunnel.failover"];
    told_as(&problems, "data_plane: kernel", Code::ConfigRule, places);
}
