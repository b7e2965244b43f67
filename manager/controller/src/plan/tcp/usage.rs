//! What namespaces have used up of their tenants' limits.

use std::collections::BTreeMap;

use kedge_crd::{HttpLoadBalancerSpec, Resource as _, meta};

use crate::{
    plan::{Case, ledger::Ledger, ports::OwnerKind},
    snapshot::Snapshot,
};

/// What of its tenant's limits a namespace has used up.
#[derive(Default)]
pub struct Usage {
    balancers: BTreeMap<String, u32>,
    ports: BTreeMap<String, u32>,
}

impl Usage {
    /// What others than TCPLoadBalancers have.
    pub fn of(snapshot: &Snapshot, cases: &[Case], ledger: &Ledger) -> Self {
        let mut usage = Self::default();
        let asked = cases.iter().filter_map(|case| case.asked.as_ref().ok());
        for balancer in asked {
            *usage
                .balancers
                .entry(balancer.name.namespace.clone())
                .or_default() += 1;
        }
        let of_http = snapshot
            .objects
            .of_kind(meta::GROUP, HttpLoadBalancerSpec::KIND);
        for (key, _) in of_http {
            *usage
                .balancers
                .entry(key.name.namespace.clone())
                .or_default() += 1;
        }
        for (_, owner) in ledger.ports.of_space(&snapshot.space).values().flatten() {
            if owner.kind == OwnerKind::Balancer {
                *usage.ports.entry(owner.name.namespace.clone()).or_default() += 1;
            }
        }
        usage
    }

    /// How many load balancers a namespace has.
    pub fn balancers(&mut self, space: &str) -> &mut u32 {
        self.balancers.entry(space.to_owned()).or_default()
    }

    /// How many ports a namespace has.
    pub fn ports(&mut self, space: &str) -> &mut u32 {
        self.ports.entry(space.to_owned()).or_default()
    }
}
