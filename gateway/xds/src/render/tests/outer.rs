//! Load balancers before the gateway.

use kedge_control::frontend::ProxyProtocol;

use super::*;

#[test]
fn behind_load_balancers_every_chain_is_theirs_alone_and_their_header_is_read_first() {
    let offered = offer(
        vec![
            tcp("web", "10.0.0.1", 80),
            tls("web", &["*.a.example", "b.a.example", "c.example"]),
        ],
        vec![pool("web", &["a"])],
    );
    let behind = |from: &[&str]| Offer {
        proxy_protocol: Some(ProxyProtocol {
            from: from.iter().map(|net| net.parse().unwrap()).collect(),
        }),
        ..offered.clone()
    };
    let listeners = |offer: &Offer| {
        let rendered = render(offer, &Here::default());
        assert_eq!(rendered.refused, []);
        let all = rendered.resources.into_iter();
        let all = all.filter(|one| one.kind == Kind::Listener);
        let decoded = all.map(|one| (Listener::decode(&*one.body.value).unwrap(), one.revision));
        decoded.collect::<Vec<_>>()
    };
    let outer = behind(&["192.0.2.0/28", "2001:db8::7/128"]);
    let plain = listeners(&offered);
    let before = listeners(&outer);
    assert_eq!(before.len(), 2);
    for ((listener, version), (_, other)) in before.iter().zip(&plain) {
        let filter = listener.listener_filters.first().unwrap();
        assert_eq!(filter.name, "envoy.filters.listener.proxy_protocol");
        assert_eq!(listener.default_filter_chain, None);
        for chain in &listener.filter_chains {
            let ranges = &chain.filter_chain_match.as_ref().unwrap();
            let ranges = ranges.direct_source_prefix_ranges.iter();
            let ranges = ranges.map(|it| (&*it.address_prefix, it.prefix_len.unwrap().value));
            let wanted = [("192.0.2.0", 28), ("2001:db8::7", 128)];
            assert_eq!(ranges.collect::<Vec<_>>(), wanted);
        }
        assert_ne!(version, other);
    }
    let (tls, _) = before.last().unwrap();
    assert_eq!(tls.filter_chains.len(), 3);
    assert_eq!(tls.listener_filters.len(), 2);
    for ((_, version), (_, other)) in before.iter().zip(listeners(&behind(&["192.0.2.9/32"]))) {
        assert_ne!(*version, other, "others are another listener");
    }
    // Nobody is not everybody.
    let rendered = render(&behind(&[]), &Here::default());
    assert_eq!((rendered.resources, rendered.refused.len()), (vec![], 2));
}
