//! What may answer for a VIP while its host hangs: nothing. See [`kedge_net::fence`].

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use kedge_core::{Instant, vip::RouterState};
use kedge_net::{
    PROTOCOL, clock,
    fence::{Fence, Lease, VirtualMac},
    monitor::Monitor,
    udp::Family,
};
use kedge_vip_proto::{vrrp::ADVERTS_LOST, wire::Mac};

use super::{Shell, instance::Instance};
use crate::{VipSnapshot, VipSpec};

/// A desired set that waits until the fences allow for it.
#[derive(Debug)]
pub(super) struct Postponed {
    pub(super) desired: Arc<Vec<VipSpec>>,
    /// When it no longer waits.
    pub(super) until: Instant,
}

impl Shell {
    /// Wants a fence on each interface with a VIP, and renews addresses as often as the slowest of them
    /// needs it: one whose last advert is older lets go by itself.
    pub(super) fn fence(&mut self) {
        let instances = self.instances.iter();
        let longest = instances.map(silence).max();
        self.owned
            .stands_still_for(clock::now(), longest.unwrap_or_default());
        let Some(fences) = &mut self.fences else {
            return;
        };
        let mut wanted: BTreeMap<u32, Fence> = BTreeMap::new();
        for instance in &self.instances {
            let (Ok(chosen), Some(lease)) = (&instance.place, lease(instance, &self.monitor))
            else {
                continue;
            };
            let fence = wanted.entry(chosen.ifindex).or_insert_with(|| Fence {
                interface: chosen.name.clone(),
                ifindex: chosen.ifindex,
                leases: Vec::new(),
            });
            fence.leases.push(lease);
        }
        fences.want(wanted.into_values().collect());
    }

    /// Whether `desired` must wait: a lease is made longer before the adverts that renew it become
    /// rarer, or the host would be silent in between.
    pub(super) fn must_wait(&mut self, now: Instant, desired: &Arc<Vec<VipSpec>>) -> bool {
        let mut longer = false;
        for instance in &mut self.instances {
            let answers = matches!(
                instance.router.state(),
                RouterState::Active | RouterState::Releasing
            );
            let wanted = desired.iter().find(|it| it.name == instance.spec.name);
            let interval = instance.router.config().interval;
            instance.slower = wanted
                .map(|wanted| wanted.interval)
                .filter(|wanted| answers && *wanted > interval);
            longer |= instance.slower.is_some();
        }
        if !longer {
            self.postponed = None;
            return false;
        }
        self.fence();
        let settled = self.fences.as_ref().is_none_or(|it| it.settled());
        let until = match &self.postponed {
            Some(postponed) => postponed.until,
            None => now + AT_MOST,
        };
        let wait = !settled && now < until;
        self.postponed = wait.then(|| Postponed {
            desired: Arc::clone(desired),
            until,
        });
        wait
    }

    /// Adds to `snapshot` how its addresses are fenced.
    pub(super) fn tell_fence(&self, snapshot: &mut VipSnapshot) {
        let Some(fences) = &self.fences else { return };
        let Some(chosen) = &snapshot.interface else {
            return;
        };
        let standing = fences.standing();
        let Some(standing) = standing.get(&chosen.ifindex) else {
            return;
        };
        match &standing.problem {
            Some(problem) => {
                let object = format!("vips/{}", snapshot.name);
                snapshot.problems.push(problem.clone().object(object));
            }
            None => {
                let family = Family::of(chosen.address);
                let is_it =
                    |lease: &&Lease| lease.vrid == snapshot.vrid.get() && lease.family == family;
                let lease = standing.fence.leases.iter().find(is_it);
                snapshot.fence = lease.map(|lease| lease.lasts);
            }
        }
    }
}

/// What a VIP needs: none when the address is the interface's own, which must always answer, or
/// when others here answer from it.
fn lease(instance: &Instance, monitor: &Monitor) -> Option<Lease> {
    let config = instance.router.config();
    if config.owner || !instance.spec.fence {
        return None;
    }
    let family = match config.addresses.is_ipv6() {
        true => Family::V6,
        false => Family::V4,
    };
    Some(Lease {
        vrid: config.vrid.get(),
        family,
        lasts: silence(instance),
        addresses: config
            .held()
            .chain(instance.lacking.addresses())
            .collect::<Vec<IpAddr>>(),
        accept: instance.spec.accept,
        virtual_mac: virtual_mac(instance, monitor),
    })
}

/// For how long no Backup acts.
fn silence(instance: &Instance) -> Duration {
    let interval = instance.router.config().interval;
    instance.slower.unwrap_or(interval).duration() * ADVERTS_LOST
}

/// What else its host must not say.
fn virtual_mac(instance: &Instance, monitor: &Monitor) -> Option<VirtualMac> {
    let chosen = instance.place.as_ref().ok()?;
    if !instance.spec.virtual_mac {
        return None;
    }
    let vrid = instance.spec.vrid;
    let link = monitor.link(chosen.ifindex);
    let others = link.iter().flat_map(|link| &link.addresses);
    let others = others.filter(|address| address.protocol != PROTOCOL && address.peer.is_none());
    let own = std::iter::once(chosen.address).chain(others.map(|address| address.net.addr()));
    Some(VirtualMac {
        v4: Mac::virtual_router(vrid, false).0,
        v6: Mac::virtual_router(vrid, true).0,
        asks: own.filter_map(as_v4).next(),
    })
}

const fn as_v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    }
}

/// A fence that is not there by then does not come.
const AT_MOST: Duration = Duration::from_secs(2);
