//! Load balancers before the gateway: they alone are served, and say by the PROXY protocol who the client is.

use envoy_types::pb::envoy::{
    config::{core::v3::CidrRange, listener::v3::Listener},
    extensions::filters::listener::proxy_protocol::v3::ProxyProtocol as Filter,
};
use kedge_control::frontend::ProxyProtocol;
use serde::Serialize;

use super::{
    listener::first,
    proto::{any, number},
};
use crate::{Kind, resource::Resource};

/// A listener made of `made`, with what is asked of those who connect.
///
/// Its first filter takes a header before anything else is looked at. The address that it says is the client's from
/// there on; only the chains still ask who has the connection, and none is for anybody else: what has no chain is
/// closed. A chain that is for all of no other chain (`default_filter_chain`) could not ask. A listener that leads to
/// its chains itself asks for both ([`matcher`](super::ranges::matcher)).
pub fn listener(
    mut listener: Listener,
    made: &impl Serialize,
    outer: Option<&ProxyProtocol>,
) -> Resource {
    let name = listener.name.clone();
    let Some(outer) = outer else {
        return Resource::new(Kind::Listener, name, made, &listener);
    };
    let filter = first(
        "envoy.filters.listener.proxy_protocol",
        any(&Filter::default()),
    );
    listener.listener_filters.insert(0, filter);
    if listener.filter_chain_matcher.is_some() {
        return Resource::new(Kind::Listener, name, &(made, outer), &listener);
    }
    let ranges: Vec<CidrRange> = outer.from.iter().map(range).collect();
    for chain in &mut listener.filter_chains {
        let fits = chain.filter_chain_match.get_or_insert_default();
        fits.direct_source_prefix_ranges.clone_from(&ranges);
    }
    Resource::new(Kind::Listener, name, &(made, outer), &listener)
}

pub fn range(net: &ipnet::IpNet) -> CidrRange {
    CidrRange {
        address_prefix: net.network().to_string(),
        prefix_len: Some(number(net.prefix_len().into())),
    }
}
