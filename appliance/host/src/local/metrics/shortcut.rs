//! What is said of endpoints that a host may answer for: told apart by their LoadBalancers alone.

use kedge_control::local::{ShortcutState, ShortcutStatus};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfName {
    name: String,
}

pub(super) fn add(shortcuts: &[ShortcutStatus], registry: &mut Registry) {
    let standing = Family::<OfName, Gauge>::default();
    let answering = Family::<OfName, Gauge>::default();
    let open = Family::<OfName, Gauge>::default();
    let taken = Family::<OfName, Counter>::default();
    for it in shortcuts {
        let of = OfName {
            name: it.name.clone(),
        };
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let stands = matches!(it.state, ShortcutState::Standing | ShortcutState::Returning);
        standing.get_or_create(&of).set(i64::from(stands));
        answering.get_or_create(&of).set(count(it.answering.len()));
        open.get_or_create(&of).set(count(it.open));
        taken.get_or_create(&of).inc_by(it.taken);
    }
    let help = "Whether this host answers for the endpoint itself";
    registry.register("standing", help, standing);
    let help = "Hosts of the site that answered last; 0 while nobody is asked";
    registry.register("answering_hosts", help, answering);
    let help = "Connections that run over the shortcut";
    registry.register("open_connections", help, open);
    let help = "How often this host began to answer for the endpoint";
    registry.register("taken", help, taken);
}
