//! What was chosen for a TCPLoadBalancer, as it is kept beside what was asked for.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kedge_crd::{Resource as _, TcpLoadBalancerSpec, traffic::Transport};
use serde_json::{Map, Value, json};

use super::{
    Tcp,
    read::{Found, GATEWAY, Life, POOL, RESTING, UDP, named, rests_until},
    resting::{self, Rest, Rests, rests},
};
use crate::{
    managers,
    plan::{
        desired::Desired,
        marks::{ADDRESS, BALANCER_FINALIZER},
        wake::Wake,
    },
    snapshot::{Snapshot, key},
    store::{Layer, Name},
};

/// Wants what was chosen to be kept.
pub fn write(snapshot: &Snapshot, tcp: &Tcp, wake: &mut Wake, wanted: &mut Desired) {
    let key = key::<TcpLoadBalancerSpec>(&tcp.name);
    // While nobody can tell where it is served, it keeps what it has.
    let Some(gateway) = tcp.gateway.as_ref().filter(|_| !tcp.waits) else {
        retain(snapshot, &tcp.name, wanted);
        wake_for(&tcp.rests, wake);
        return;
    };
    let mut notes = Map::new();
    if !tcp.given.is_empty() {
        notes.insert(GATEWAY.to_owned(), Value::from(gateway.to_string()));
    }
    let udp = tcp.given.iter().filter(|it| it.protocol == Transport::Udp);
    let udp: BTreeSet<&str> = udp.map(|given| given.name.as_str()).collect();
    if !udp.is_empty() {
        notes.insert(UDP.to_owned(), Value::from(json!(udp).to_string()));
    }
    if let (Some(own), Some(pool)) = (tcp.own, &tcp.pool) {
        notes.insert(ADDRESS.to_owned(), Value::from(own.to_string()));
        notes.insert(POOL.to_owned(), Value::from(pool.clone()));
    }
    let ports = tcp.given.iter();
    let ports = ports.map(|given| json!({"name": given.name, "listenerPort": given.listener}));
    let content = content(&tcp.name, notes, ports.collect(), &tcp.rests);
    hold(snapshot, &tcp.name, content.is_some(), wanted);
    if let Some(content) = content {
        wanted.document(&key, managers::PORTS, content);
    }
    wake_for(&tcp.rests, wake);
}

/// What is left of those that go or are gone: their ports rest.
pub fn write_leaving(snapshot: &Snapshot, all: &[Found], wake: &mut Wake, wanted: &mut Desired) {
    for found in all {
        match &found.life {
            Life::Stands(_) => {}
            Life::Leaves(since) => {
                let rests = until(snapshot, found, since);
                hold(snapshot, &found.name, rests.is_some(), wanted);
                rests.into_iter().for_each(|due| wake.at(due));
            }
            // A document may only be unreadable.
            Life::Gone if snapshot.incomplete() => {
                let key = key::<TcpLoadBalancerSpec>(&found.name);
                let layer = Layer::Owned(managers::PORTS.to_owned());
                wanted.retain(&snapshot.objects, &key, &layer);
            }
            Life::Gone => {
                let Rests { rests, waits } = rests(snapshot, found);
                if waits {
                    retain(snapshot, &found.name, wanted);
                    wake_for(&rests, wake);
                    continue;
                }
                let content = content(&found.name, Map::new(), Vec::new(), &rests);
                hold(snapshot, &found.name, content.is_some(), wanted);
                if let Some(content) = content {
                    let key = key::<TcpLoadBalancerSpec>(&found.name);
                    wanted.document(&key, managers::PORTS, content);
                }
                wake_for(&rests, wake);
            }
        }
    }
}

/// Until when what is being deleted since then must stay, if it must.
fn until(snapshot: &Snapshot, found: &Found, since: &str) -> Option<Timestamp> {
    let gateway = found.kept.gateway.as_ref();
    let gateway = gateway.filter(|_| !found.kept.ports.is_empty());
    let ports = gateway.and_then(|gateway| rests_until(snapshot, gateway, since));
    let rests = found.kept.rests.iter();
    let rests = rests.filter(|rest| !rest.is_over(&snapshot.now) && named(&rest.gateway).is_some());
    let rests = rests.filter_map(|rest| rest.until.parse().ok());
    rests.chain(ports).max()
}

/// Has an API server keep the object when it is deleted, for as long as its ports rest.
fn hold(snapshot: &Snapshot, name: &Name, has: bool, wanted: &mut Desired) {
    if has && snapshot.environment.has_finalizers() {
        let marks = wanted.marks(&key::<TcpLoadBalancerSpec>(name));
        marks.finalizers.insert(BALANCER_FINALIZER.to_owned());
    }
}

/// What was chosen stays as it is.
fn retain(snapshot: &Snapshot, name: &Name, wanted: &mut Desired) {
    let key = key::<TcpLoadBalancerSpec>(name);
    let layer = Layer::Owned(managers::PORTS.to_owned());
    wanted.retain(&snapshot.objects, &key, &layer);
    let had = snapshot.objects.owned(&key, managers::PORTS).is_some();
    hold(snapshot, name, had, wanted);
}

fn wake_for(rests: &[Rest], wake: &mut Wake) {
    let due = rests.iter().filter_map(|rest| rest.until.parse().ok());
    due.for_each(|due| wake.at(due));
}

fn content(
    name: &Name,
    mut notes: Map<String, Value>,
    ports: Vec<Value>,
    rests: &[Rest],
) -> Option<Value> {
    if !rests.is_empty() {
        notes.insert(RESTING.to_owned(), Value::from(resting::note(rests)));
    }
    if notes.is_empty() && ports.is_empty() {
        return None;
    }
    let mut content = json!({
        "apiVersion": TcpLoadBalancerSpec::api_version(),
        "kind": TcpLoadBalancerSpec::KIND,
        "metadata": {"name": name.name, "namespace": name.namespace, "annotations": notes},
    });
    if !ports.is_empty()
        && let Some(content) = content.as_object_mut()
    {
        content.insert("spec".to_owned(), json!({ "ports": ports }));
    }
    Some(content)
}
