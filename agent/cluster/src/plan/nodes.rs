//! Which hosts take a Service's traffic.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kedge_crd::host::Family;

use crate::{
    names::{EXCLUDE_NODE, NODE_HOST, OUT_OF_SERVICE, TO_BE_DELETED},
    snapshot::{Key, Snapshot},
};

/// Why a node takes no traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// Its kubelet is not ready, or was not heard.
    NotReady,
    /// An administrator keeps it out of load balancers.
    Excluded,
    /// It is being deleted, or about to be, or emptied by an administrator who keeps it out of load
    /// balancers too: what is open goes on (KEP-3836).
    Leaving,
    /// Its machine is out of service.
    OutOfService,
}

/// Whether a node takes traffic.
///
/// Neither `spec.unschedulable` alone nor any other taint matters: pods of a cordoned node serve on
/// (KEP-1143).
#[must_use]
pub fn out(node: &Node) -> Option<Out> {
    let meta = &node.metadata;
    let labels = meta.labels.as_ref();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let has_taint = |key: &str| {
        let mut taints = taints.into_iter().flatten();
        taints.any(|taint| taint.key == key)
    };
    let is_excluded = labels.is_some_and(|labels| labels.contains_key(EXCLUDE_NODE));
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let is_emptied = is_excluded && is_cordoned;
    if meta.deletion_timestamp.is_some() || has_taint(TO_BE_DELETED) || is_emptied {
        return Some(Out::Leaving);
    }
    // Control planes of kubeadm are for good.
    if is_excluded {
        return Some(Out::Excluded);
    }
    if has_taint(OUT_OF_SERVICE) {
        return Some(Out::OutOfService);
    }
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let is_ready = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    (!is_ready).then_some(Out::NotReady)
}

/// Hosts that take a Service's traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Those that take new connections.
    pub taking: Vec<String>,
    /// Those that keep the ones they have.
    pub leaving: Vec<String>,
}

/// The hosts of every node, as `externalTrafficPolicy: Cluster` takes them: any node leads to any
/// pod, so that some are enough in a large cluster.
#[must_use]
pub fn every(snapshot: &Snapshot) -> Hosts {
    let mut hosts = hosts(&snapshot.nodes, |_| true);
    hosts.taking.truncate(HOSTS);
    hosts
}

/// The hosts of the nodes that have a ready endpoint of a Service, for
/// `externalTrafficPolicy: Local`.
#[must_use]
pub fn local(snapshot: &Snapshot, service: &Key, family: Family) -> Hosts {
    let family = match family {
        Family::IPv4 => "IPv4",
        Family::IPv6 => "IPv6",
    };
    let slices = snapshot.slices.values();
    let own = slices.filter(|slice| slice.service == *service && slice.family == family);
    let ready: BTreeSet<&String> = own.flat_map(|slice| &slice.nodes).collect();
    hosts(&snapshot.nodes, |name| ready.contains(name))
}

/// The hosts of some nodes. Where none of them is ready all of them are taken: then it is rather the
/// view of them that is wrong, and the gateway knows by the tunnel who is alive.
fn hosts(nodes: &BTreeMap<String, Node>, is_one: impl Fn(&String) -> bool) -> Hosts {
    let ones = nodes.iter().filter(|(name, _)| is_one(name));
    let (mut ready, mut unready, mut leaving) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (name, node) in ones {
        match out(node) {
            None => ready.insert(host(name, node)),
            Some(Out::NotReady) => unready.insert(host(name, node)),
            Some(Out::Leaving) => leaving.insert(host(name, node)),
            Some(Out::Excluded | Out::OutOfService) => false,
        };
    }
    let taking = if ready.is_empty() { unready } else { ready };
    let leaving = leaving.difference(&taking);
    Hosts {
        leaving: leaving.take(LEAVING).cloned().collect(),
        taking: taking.into_iter().collect(),
    }
}

/// The name of the EdgeHost a node runs on.
fn host(name: &str, node: &Node) -> String {
    let annotations = node.metadata.annotations.as_ref();
    let said = annotations.and_then(|all| all.get(NODE_HOST));
    said.map_or_else(|| name.to_owned(), Clone::clone)
}

/// As many hosts as one load balancer is led to where any of them will do.
const HOSTS: usize = 100;
/// As many hosts as a load balancer leaves at once; more are none of its hosts any more.
const LEAVING: usize = 100;
