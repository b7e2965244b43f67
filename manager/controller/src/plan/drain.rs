//! Hosts that are left before their Machine goes: nothing new is led to them, and the deletion waits
//! until what is open has ended, at most for a while.
//!
//! ```text
//!  Machine is deleted, our hook on it ─► members are draining ─► gateways say nothing is open ─► members and
//!                                                            └── or it is late, or it is dead ─► hook are gone
//! ```
//!
//! The hook is the memory: a Machine without it is not waited for, and its host is no member from the
//! start. Since when and how long is waited stands on the Machine, so that a manager that comes anew
//! waits no longer than the one before.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use jiff::Timestamp;
use kedge_crd::{
    balancer::{Drain, DrainHook, TargetState},
    capi::{self, CLUSTER_NAME_LABEL, PAUSED_ANNOTATION},
    gateway::{DrainingBackend, InstanceStatus},
};

use super::{
    Service,
    config::{members, peer_name},
    desired::Desired,
    endpoint::ports,
    given, leave,
    marks::{DRAINING_UNTIL, HOOK_OWNER, PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK, TARGET_STATUS},
    targets::{HostIndex, host_of, leaving_since},
    tcp::Tcp,
    wake::Wake,
};
use crate::{
    snapshot::{Hearing, Snapshot},
    store::{Layer, Name, ObjectKey, Objects},
};

/// The hosts whose Machines go, though not with their cluster.
#[derive(Debug, Default)]
pub struct Leaving {
    /// By host.
    hosts: BTreeMap<Name, Leave>,
    /// The Machines that hosts became.
    machines: BTreeMap<Name, ObjectKey>,
}

/// How a host leaves.
#[derive(Clone, Debug)]
struct Leave {
    /// Since when, RFC 3339.
    since: String,
    /// Whether the deletion waits for us.
    is_held: bool,
}

/// A place at a gateway that is being left.
type Place = (Name, IpAddr, u16);

impl Leaving {
    /// Looks at every Machine.
    #[must_use]
    pub fn of(snapshot: &Snapshot, index: &HostIndex) -> Self {
        let mut all = Self::default();
        for (name, machine) in &snapshot.machines {
            let Some(host) = host_of(snapshot, index, name, machine) else {
                continue;
            };
            let key = ObjectKey::new(capi::GROUP, "Machine", name.clone());
            let since = leaving_since(snapshot, &key, &machine.metadata);
            // A cluster that goes as a whole is served to its last machine.
            let cluster = machine.metadata.labels.get(CLUSTER_NAME_LABEL);
            let cluster = cluster.map(|cluster| Name::new(&name.namespace, cluster));
            let cluster = cluster.and_then(|cluster| snapshot.clusters.get(&cluster));
            let is_going =
                cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some());
            if let Some(since) = since.filter(|_| !is_going) {
                let is_held = hooks(&snapshot.objects, &key).next().is_some();
                all.hosts.insert(host.clone(), Leave { since, is_held });
            }
            all.machines.insert(host, key);
        }
        all
    }

    /// Whether a host is to get nothing new any more, at that gateway: then whether what is open there is
    /// waited for.
    #[must_use]
    pub fn is_drained(&self, snapshot: &Snapshot, host: &Name, gateway: &Name) -> Option<bool> {
        let leave = self.hosts.get(host)?;
        Some(leave.is_held && can_drain(snapshot, gateway))
    }

    /// Finds the hosts that nothing is open to any more, or that were waited for long enough: they are
    /// members no more. The others stay, and are looked at again when their time is over.
    pub fn settle(
        &self,
        snapshot: &Snapshot,
        services: &mut [Service],
        tcp: &mut [Tcp],
        wake: &mut Wake,
    ) -> Held {
        let mut held = Held::default();
        for (host, leave) in self.hosts.iter().filter(|(_, leave)| leave.is_held) {
            let Some(machine) = self.machines.get(host) else {
                continue;
            };
            let (mut places, mut patience) = (BTreeSet::<Place>::new(), Duration::ZERO);
            let mut on_host = true;
            for service in services.iter() {
                let Some(target) = service.leaving(host) else {
                    continue;
                };
                patience = patience.max(leave::drain_timeout(service.balancer.spec.drain.as_ref()));
                on_host &= leave::host_is_quiet(snapshot, service, host);
                if target.draining {
                    places.extend(places_of(snapshot, service, host));
                }
            }
            for tcp in tcp.iter() {
                let own: Vec<Place> = tcp.draining(host).collect();
                if !own.is_empty() {
                    patience = patience.max(leave::drain_timeout(drain_of(snapshot, tcp)));
                    places.extend(own);
                }
            }
            if places.is_empty() {
                continue;
            }
            let is_open = || {
                let mut places = places.iter();
                !on_host || places.any(|place| !is_quiet(snapshot, host, place))
            };
            // What is taken away while the hook must stay would be put back with the next plan.
            let waits = is_paused(snapshot, machine)
                || snapshot.is_alive(host)
                    && is_open()
                    && wake.waits(&snapshot.now, &leave.since, patience);
            if waits {
                let until = until(&leave.since, patience);
                held.machines.insert(machine.clone(), until);
                continue;
            }
            let targets = services.iter_mut().flat_map(|service| &mut service.targets);
            let left = targets.filter(|target| target.leaving.is_some());
            for target in left.filter(|target| target.host.as_ref() == Some(host)) {
                target.draining = false;
                target.released = true;
            }
            for tcp in tcp.iter_mut() {
                tcp.release(host);
            }
        }
        held
    }

    /// Wants the hooks of the Machines whose hosts take the traffic of TCPLoadBalancers.
    pub fn hooks(&self, snapshot: &Snapshot, tcp: &[Tcp], held: &Held, wanted: &mut Desired) {
        if !snapshot.environment.has_core() {
            return;
        }
        let mut hooked: BTreeMap<&Name, &'static str> = BTreeMap::new();
        for tcp in tcp {
            let Some(hook) = hook_of(drain_of(snapshot, tcp)) else {
                continue;
            };
            for host in tcp.takers() {
                hooked.entry(host).or_insert(hook);
            }
        }
        for (host, machine) in &self.machines {
            if is_paused(snapshot, machine) {
                if hooks(&snapshot.objects, machine).next().is_some() {
                    wanted.retain(&snapshot.objects, machine, &Layer::Marks);
                }
                continue;
            }
            let until = held.machines.get(machine);
            match self.hosts.get(host) {
                // None is put on a Machine that goes already, and the one it has stays what it is.
                Some(_) if until.is_some() => {
                    for hook in hooks(&snapshot.objects, machine) {
                        wanted.marks(machine).annotate(hook, HOOK_OWNER);
                    }
                }
                Some(_) => {}
                None => {
                    if let Some(hook) = hooked.get(host) {
                        wanted.marks(machine).annotate(hook, HOOK_OWNER);
                    }
                }
            }
            if let Some(until) = until.and_then(Option::as_ref) {
                wanted
                    .marks(machine)
                    .annotate(DRAINING_UNTIL, until.to_string());
            }
        }
    }
}

/// The Machines whose deletion waits, and until when.
#[derive(Debug, Default)]
pub struct Held {
    machines: BTreeMap<ObjectKey, Option<Timestamp>>,
}

impl Held {
    /// Whether a Machine's does.
    #[must_use]
    pub fn has(&self, machine: &ObjectKey) -> bool {
        self.machines.contains_key(machine)
    }
}

/// The hook that is asked for, if one is.
#[must_use]
pub fn hook_of(drain: Option<&Drain>) -> Option<&'static str> {
    match drain.and_then(|drain| drain.hook).unwrap_or_default() {
        DrainHook::PreDrain => Some(PRE_DRAIN_HOOK),
        DrainHook::PreTerminate => Some(PRE_TERMINATE_HOOK),
        DrainHook::None => None,
    }
}

/// The hooks of ours that a Machine has.
pub fn hooks(objects: &Objects, machine: &ObjectKey) -> impl Iterator<Item = &'static str> {
    let all = [PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK].into_iter();
    all.filter(move |hook| annotation(objects, machine, hook).is_some())
}

/// Whether a Machine was shown to be left for good: what is decided anew without its hook would wait for what
/// nobody waits for any more.
#[must_use]
pub fn is_left(objects: &Objects, machine: &ObjectKey) -> bool {
    let state = annotation(objects, machine, TARGET_STATUS);
    state == Some(TargetState::Removed.as_str()) && hooks(objects, machine).next().is_none()
}

/// An annotation of ours on a Machine.
fn annotation<'a>(objects: &'a Objects, machine: &ObjectKey, name: &str) -> Option<&'a str> {
    let marks = objects.content(machine, &Layer::Marks)?;
    marks.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Whether every instance of a gateway that is heard can leave a backend. One that cannot would go on
/// sending clients there: it is told that there is none.
#[must_use]
pub fn can_drain(snapshot: &Snapshot, gateway: &Name) -> bool {
    let mut instances = heard(snapshot, gateway);
    if instances.is_empty() {
        // What they said last holds: it may be the manager that hears nobody.
        instances = said(snapshot, gateway, |_| true);
    }
    let drains = |status: &Option<&InstanceStatus>| status.is_some_and(|status| status.drains);
    !instances.is_empty() && instances.iter().all(drains)
}

/// What tenants say about the hosts of their load balancers.
fn drain_of<'a>(snapshot: &'a Snapshot, tcp: &Tcp) -> Option<&'a Drain> {
    snapshot.tenants.get(tcp.tenant())?.spec.drain.as_ref()
}

/// Where a LoadBalancer leads to a host.
fn places_of(snapshot: &Snapshot, service: &Service, host: &Name) -> Vec<Place> {
    let Some(Ok(used)) = &service.decided.gateway else {
        return Vec::new();
    };
    let peer = peer_name(host);
    let ports = ports(&service.balancer.spec, None).into_iter();
    let ports = ports.map(|port| port.target_port.unwrap_or(port.port).get());
    let members = ports.flat_map(|port| members(snapshot, service, &used.name, port));
    let own = members.filter(|member| member.host == peer);
    own.map(|member| (used.name.clone(), member.address, member.port))
        .collect()
}

/// Whether every instance that is heard leaves that place and has nothing open there. Where none is
/// heard it may be the manager that hears nobody, and gateways that serve.
fn is_quiet(snapshot: &Snapshot, host: &Name, (gateway, address, port): &Place) -> bool {
    let peer = peer_name(host);
    let is_it =
        |it: &&DrainingBackend| it.host == peer && it.address == *address && it.port == *port;
    let instances = heard(snapshot, gateway);
    !instances.is_empty()
        && instances.iter().all(|status| {
            let found = status.and_then(|status| status.draining.iter().find(is_it));
            found.is_some_and(|found| !found.busy)
        })
}

/// What the instances of a gateway said that are not known to be silent; nothing of one that never spoke.
fn heard<'a>(snapshot: &'a Snapshot, name: &Name) -> Vec<Option<&'a InstanceStatus>> {
    said(snapshot, name, |hearing| hearing != Some(Hearing::Silent))
}

/// What those instances of a gateway said that are heard so.
fn said<'a>(
    snapshot: &'a Snapshot,
    name: &Name,
    is_one: impl Fn(Option<Hearing>) -> bool,
) -> Vec<Option<&'a InstanceStatus>> {
    let Some(gateway) = snapshot.gateway(name) else {
        return Vec::new();
    };
    let enrolled = gateway.spec.instances.iter();
    let enrolled = enrolled.filter(|instance| !instance.identity.uid.is_empty());
    let ones = enrolled.filter(|instance| is_one(snapshot.hearing(name, &instance.name)));
    ones.map(|instance| {
        let mut all = gateway.status.instances.iter();
        all.find(|status| status.name == instance.name)
    })
    .collect()
}

fn until(since: &str, patience: Duration) -> Option<Timestamp> {
    let since: Timestamp = since.parse().ok()?;
    since.checked_add(patience).ok()
}

/// Whether somebody keeps controllers away from a Machine.
fn is_paused(snapshot: &Snapshot, machine: &ObjectKey) -> bool {
    let Some(object) = snapshot.machines.get(&machine.name) else {
        return false;
    };
    let cluster = object.metadata.labels.get(CLUSTER_NAME_LABEL);
    let of_cluster =
        cluster.and_then(|cluster| given::is_paused(snapshot, &machine.name.namespace, cluster));
    object.metadata.has_annotation(PAUSED_ANNOTATION) || of_cluster == Some(true)
}
