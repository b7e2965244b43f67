//! Clients that are let in by their addresses.

use envoy_types::pb::{
    envoy::extensions::matching::{
        common_inputs::network::v3::{DirectSourceIpInput, SourceIpInput},
        input_matchers::ip::v3::Ip,
    },
    xds::r#type::matcher::v3::matcher::{
        MatcherType,
        matcher_list::{
            Predicate,
            predicate::{MatchType, SinglePredicate, single_predicate::Matcher},
        },
        on_match::OnMatch,
    },
};
use kedge_control::frontend::ProxyProtocol;
use prost::Name as _;

use super::*;
use crate::delta::Revision;

#[test]
fn ranges_that_come_change_and_go_leave_the_chain_as_it_is() {
    let all: Vec<(Listener, Revision)> = [&[] as &[&str], &["192.0.2.0/24"], &["0.0.0.0/0"]]
        .iter()
        .map(|ranges| listener(&of(ranges)))
        .collect();
    let [(open, first), (one, second), (other, third)] = &all[..] else {
        panic!("three");
    };
    assert_eq!(open.filter_chain_matcher, None);
    assert_eq!(first.version.to_string(), VERSIONS[2], "as without ranges");
    assert_ne!(one.filter_chain_matcher, other.filter_chain_matcher);
    assert!(first.version != second.version && second.version != third.version);
    for (listener, _) in &all {
        // Connections stay where the chain does.
        assert_eq!(listener.filter_chains, open.filter_chains);
        assert_eq!(listener.default_filter_chain, None);
        assert_eq!(listener.filter_chains[0].filter_chain_match, None);
        let without = Listener {
            filter_chain_matcher: None,
            ..listener.clone()
        };
        assert_eq!(without, *open);
    }
}

#[test]
fn the_client_is_asked_for_and_the_load_balancer_before_it_as_well() {
    let ranges = &["192.0.2.0/24", "2001:db8::7/128"];
    let (own, _) = listener(&of(ranges));
    assert_eq!(asked(&own), [(SourceIpInput::type_url(), texts(ranges))]);
    let outer = Offer {
        proxy_protocol: Some(ProxyProtocol {
            from: vec!["10.9.0.0/16".parse().unwrap()],
        }),
        ..of(ranges)
    };
    let (behind, _) = listener(&outer);
    assert_eq!(
        behind.listener_filters[0].name,
        "envoy.filters.listener.proxy_protocol"
    );
    assert_eq!(
        asked(&behind),
        [
            (DirectSourceIpInput::type_url(), texts(&["10.9.0.0/16"])),
            (SourceIpInput::type_url(), texts(ranges)),
        ]
    );
    assert_eq!(behind.filter_chains[0].filter_chain_match, None);
}

#[test]
fn a_port_that_names_share_is_not_told_by_ranges() {
    let ranged = Frontend {
        source_ranges: vec!["192.0.2.0/24".parse().unwrap()],
        ..tls("a", &["a.example"])
    };
    let offer = offer(
        vec![ranged, tls("b", &["b.example"])],
        vec![pool("a", &["a"]), pool("b", &["b"])],
    );
    let rendered = render(&offer, &Here::default());
    assert_eq!(rendered.refused.len(), 1);
    assert!(matches!(rendered.refused[0].reason, Reason::Unsupported(_)));
    assert!(
        !names(&rendered.resources)
            .iter()
            .any(|name| name.contains("a.example"))
    );
}

fn of(ranges: &[&str]) -> Offer {
    let frontend = Frontend {
        source_ranges: ranges.iter().map(|net| net.parse().unwrap()).collect(),
        ..tcp("web", "10.0.0.1", 80)
    };
    offer(vec![frontend], vec![pool("web", &["a"])])
}

fn listener(offer: &Offer) -> (Listener, Revision) {
    let rendered = render(offer, &Here::default());
    assert_eq!(rendered.refused, []);
    let mut all = rendered.resources.into_iter();
    let found = all.find(|one| one.kind == Kind::Listener).unwrap();
    (
        Listener::decode(&*found.body.value).unwrap(),
        found.revision,
    )
}

/// What a listener asks for, all of which must fit: by which address, and which ranges.
fn asked(listener: &Listener) -> Vec<(String, Vec<String>)> {
    let matcher = listener.filter_chain_matcher.clone().unwrap();
    assert_eq!(matcher.on_no_match, None);
    let Some(MatcherType::MatcherList(list)) = matcher.matcher_type else {
        panic!("no list");
    };
    let [only] = &list.matchers[..] else {
        panic!("{list:?}");
    };
    let Some(OnMatch::Action(action)) = &only.on_match.as_ref().unwrap().on_match else {
        panic!("no action");
    };
    assert_eq!(action.name, listener.filter_chains[0].name);
    match only.predicate.clone().unwrap().match_type.unwrap() {
        MatchType::SinglePredicate(one) => vec![single(&one)],
        MatchType::AndMatcher(all) => {
            let all = all.predicate.into_iter().map(|one| match one {
                Predicate {
                    match_type: Some(MatchType::SinglePredicate(one)),
                } => single(&one),
                other => panic!("{other:?}"),
            });
            all.collect()
        }
        other => panic!("{other:?}"),
    }
}

fn single(one: &SinglePredicate) -> (String, Vec<String>) {
    let input = one.input.clone().unwrap().typed_config.unwrap().type_url;
    let Some(Matcher::CustomMatch(matcher)) = &one.matcher else {
        panic!("{one:?}");
    };
    let ip = Ip::decode(&*matcher.typed_config.clone().unwrap().value).unwrap();
    let ranges = ip.cidr_ranges.iter();
    let ranges = ranges.map(|it| format!("{}/{}", it.address_prefix, it.prefix_len.unwrap().value));
    (input, ranges.collect())
}

fn texts(ranges: &[&str]) -> Vec<String> {
    ranges.iter().map(|&net| net.to_owned()).collect()
}
