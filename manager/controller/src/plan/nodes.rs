//! Which Machine a host became, and which node of its workload cluster.
//!
//! Both are facts of the management cluster: Cluster API's core looks into the workload cluster and
//! says on the Machine what it found there, so nobody else needs a way in.

use std::collections::BTreeMap;

use kedge_crd::host::HostNode;

use super::targets::{HostIndex, host_of};
use crate::{snapshot::Snapshot, store::Name};

/// What a host became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Became {
    /// The Machine.
    pub machine: String,
    /// Its node, once there is one.
    pub node: Option<HostNode>,
}

/// What every host became that became something.
#[must_use]
pub fn became(snapshot: &Snapshot) -> BTreeMap<Name, Became> {
    let index = HostIndex::new(snapshot);
    let machines = snapshot.machines.iter();
    let found = machines.filter_map(|(name, machine)| {
        let host = host_of(snapshot, &index, name, machine)?;
        let is_ready = |kind: &str| {
            let mut conditions = machine.status.conditions.iter();
            conditions.any(|condition| condition.kind == kind && condition.status == "True")
        };
        let node = machine.status.node_ref.as_ref().map(|node| HostNode {
            name: node.name.clone(),
            // By the names of either contract.
            ready: is_ready("NodeReady") || is_ready("NodeHealthy"),
        });
        let machine = name.name.clone();
        Some((host, Became { machine, node }))
    });
    found.collect()
}
