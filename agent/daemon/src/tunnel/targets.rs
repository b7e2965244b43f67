//! What lies behind several gateways, asked through each of them.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use kedge_core::{Coded as _, Problem};
use kedge_tunnel_device::{
    backend::Backend,
    echo::{Asked, Target as Client},
};
use kedge_tunnel_proto::failover::Target;
use tokio::sync::Notify;
use tracing::debug;

use crate::desired::TunnelWish;

/// Everything that is asked.
#[derive(Debug, Default)]
pub(super) struct Targets {
    asked: BTreeMap<(String, IpAddr), (Asked, Client)>,
    /// The opening of the device that they belong to.
    opening: u64,
    changed: Arc<Notify>,
    problem: Option<Problem>,
}

impl Targets {
    /// Asks what `wish` wants asked, while there is a device to ask through.
    pub fn want(&mut self, wish: Option<&TunnelWish>, device: Option<&dyn Backend>, opening: u64) {
        self.problem = None;
        let Some((wish, device)) = wish.zip(device) else {
            self.clear();
            return;
        };
        if self.opening != opening {
            self.opening = opening;
            self.clear();
        }
        let wanted = wanted(wish);
        self.asked.retain(|_, (asked, _)| wanted.contains(asked));
        for asked in wanted {
            let key = (asked.peer.clone(), asked.target);
            if self.asked.contains_key(&key) {
                continue;
            }
            match Client::start(device.handle(), asked.clone(), Arc::clone(&self.changed)) {
                Ok(client) => {
                    self.asked.insert(key, (asked, client));
                }
                Err(err) => {
                    let error = &err as &dyn std::error::Error;
                    debug!(target = %asked.target, error, "the target is tried again");
                    self.problem = Some(err.problem());
                }
            }
        }
    }

    /// Asks nobody any more.
    pub fn clear(&mut self) {
        self.asked.clear();
    }

    /// Hears when one begins or ceases to answer.
    pub fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Why not everything is asked.
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// What is known of all that lies behind a gateway: one that answers is enough.
    pub fn through(&self, gateway: &str) -> Option<Target> {
        let of_it = self.asked.iter().filter(|((peer, _), _)| peer == gateway);
        let reports: Vec<_> = of_it.map(|(_, (_, client))| client.report()).collect();
        (!reports.is_empty()).then(|| Target {
            missed: reports.iter().all(|report| report.up == Some(false)),
            answered: reports.iter().filter_map(|report| report.last_answer).max(),
        })
    }
}

/// Each target through each gateway, from the first address of this host of the target's family.
fn wanted(wish: &TunnelWish) -> Vec<Asked> {
    let Some(failover) = &wish.failover else {
        return Vec::new();
    };
    let local = |target: &IpAddr| {
        let all = wish.addresses.iter().map(|net| net.addr());
        let mut all = all.filter(|local| local.is_ipv4() == target.is_ipv4());
        all.next()
    };
    let gateways = failover.gateways.iter();
    let pairs = gateways.flat_map(|peer| failover.targets.iter().map(move |target| (peer, target)));
    pairs
        .filter_map(|(peer, target)| {
            Some(Asked {
                peer: peer.clone(),
                local: local(target)?,
                target: *target,
                interval: failover.interval,
            })
        })
        .collect()
}
