//! The members of clusters by their hosts: a host that dies is told without a look at everything else.

use std::collections::BTreeMap;

use kedge_control::frontend::PoolMember;

use super::{Here, endpoint};
use crate::resource::Resource;

/// The members of every cluster that is told.
#[derive(Clone, Debug, Default)]
pub struct Members {
    clusters: Vec<Cluster>,
    /// The clusters that have a member on a host, by their places in the list.
    by_host: BTreeMap<String, Vec<usize>>,
}

#[derive(Clone, Debug)]
struct Cluster {
    name: String,
    members: Vec<PoolMember>,
}

impl Members {
    pub(super) fn add(&mut self, cluster: String, members: &[PoolMember]) {
        let place = self.clusters.len();
        for member in members {
            let places = self.by_host.entry(member.host.clone()).or_default();
            if places.last() != Some(&place) {
                places.push(place);
            }
        }
        self.clusters.push(Cluster {
            name: cluster,
            members: members.to_vec(),
        });
    }

    /// The members of every cluster that leads to this host, as they are told from here on.
    #[must_use]
    pub fn of_host(&self, here: &Here, host: &str) -> Vec<Resource> {
        let places = self.by_host.get(host).into_iter().flatten();
        let clusters = places.filter_map(|place| self.clusters.get(*place));
        clusters
            .map(|cluster| endpoint::render(&cluster.name, &cluster.members, here))
            .collect()
    }
}
