//! Clients that are let in by their addresses.
//!
//! The listener asks, and not its chain: a chain stays as it is when the addresses change, and with it every
//! connection that is open. Who fits nowhere has no chain, and is closed before a backend hears of him; the filter
//! of roles (RBAC) would let a backend's first words through to him.

use envoy_types::pb::{
    envoy::extensions::matching::{
        common_inputs::network::v3::{DirectSourceIpInput, SourceIpInput},
        input_matchers::ip::v3::Ip,
    },
    google::protobuf::{Any, StringValue},
    xds::{
        core::v3::TypedExtensionConfig,
        r#type::matcher::v3::{
            Matcher,
            matcher::{
                MatcherList, MatcherType, OnMatch,
                matcher_list::{
                    FieldMatcher, Predicate,
                    predicate::{MatchType, PredicateList, SinglePredicate, single_predicate},
                },
                on_match,
            },
        },
    },
};
use ipnet::IpNet;
use kedge_control::frontend::ProxyProtocol;

use super::{outer::range, proto::any};

/// Leads clients with these addresses to the one chain of a listener, and nobody else. Where clients come through
/// load balancers, the addresses are those that they say, and the load balancers have their own.
pub fn matcher(ranges: &[IpNet], outer: Option<&ProxyProtocol>) -> Matcher {
    let client = predicate("source", any(&SourceIpInput {}), ranges);
    let predicate = match outer {
        None => client,
        Some(outer) => {
            let from = predicate("direct-source", any(&DirectSourceIpInput {}), &outer.from);
            Predicate {
                match_type: Some(MatchType::AndMatcher(PredicateList {
                    predicate: vec![from, client],
                })),
            }
        }
    };
    let chain = StringValue {
        value: CHAIN.to_owned(),
    };
    let action = on_match::OnMatch::Action(extension(CHAIN, any(&chain)));
    let only = FieldMatcher {
        predicate: Some(predicate),
        on_match: Some(OnMatch {
            on_match: Some(action),
            ..OnMatch::default()
        }),
    };
    Matcher {
        matcher_type: Some(MatcherType::MatcherList(MatcherList {
            matchers: vec![only],
        })),
        ..Matcher::default()
    }
}

fn predicate(name: &str, input: Any, ranges: &[IpNet]) -> Predicate {
    let ip = Ip {
        cidr_ranges: ranges.iter().map(range).collect(),
        stat_prefix: name.to_owned(),
    };
    Predicate {
        match_type: Some(MatchType::SinglePredicate(SinglePredicate {
            input: Some(extension(name, input)),
            matcher: Some(single_predicate::Matcher::CustomMatch(extension(
                "ip",
                any(&ip),
            ))),
        })),
    }
}

fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: name.to_owned(),
        typed_config: Some(config),
    }
}

/// What the chain of a TCP frontend is called.
pub const CHAIN: &str = "served";
