//! What is asked for with a TCPLoadBalancer, and what was chosen for it earlier.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    num::NonZeroU16,
    time::Duration,
};

use jiff::Timestamp;
use kedge_crd::{
    Resource as _, TcpLoadBalancer, TcpLoadBalancerSpec, Tenant,
    balancer::POOL_ANNOTATION,
    meta,
    tcp::{LISTENER_PORTS_ANNOTATION, TcpPort},
    tenant,
    traffic::Transport,
};
use serde_json::Value;

use super::{
    is_routed,
    resting::{self, Rest},
};
use crate::{
    managers,
    plan::{
        config::listen_address,
        exposed::withdrawn,
        holder::Holder,
        ledger::Ledger,
        marks::{ADDRESS, TENANT_LABEL},
        ports::{Owner, Seat},
    },
    snapshot::Snapshot,
    store::{Layers, Name, ObjectKey, UserDocument},
};

/// The gateway whose ports were chosen, `NAMESPACE/NAME`.
pub const GATEWAY: &str = "kedge.dev/served-by";
/// Ports that were given back and rest, as JSON.
pub const RESTING: &str = "kedge.dev/resting-ports";
/// The names of the ports that were chosen for UDP, as JSON: a port may change its protocol.
pub const UDP: &str = "kedge.dev/udp-ports";
/// The pool an own address was taken from.
pub const POOL: &str = "kedge.dev/address-pool";

/// A TCPLoadBalancer as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub name: Name,
    /// Whether somebody still asks for it.
    pub life: Life,
    /// What was chosen for it earlier.
    pub kept: Kept,
    /// The seats that were chosen and are still asked for, each with the name of its port.
    pub keeps: Vec<(String, Seat)>,
    /// When it was made, where that is known: who came first is served first.
    pub created: String,
}

/// Whether somebody still asks for it.
#[derive(Clone, Debug)]
pub enum Life {
    /// Somebody does; what it cannot be read as.
    Stands(Box<Result<TcpLoadBalancer, String>>),
    /// It is being deleted, since then.
    Leaves(String),
    /// Nobody does; only what was chosen is left.
    Gone,
}

/// What was chosen for it earlier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub gateway: Option<Name>,
    pub own: Option<IpAddr>,
    pub pool: Option<String>,
    /// The gateway's ports, by the names of its own.
    pub ports: BTreeMap<String, (Transport, NonZeroU16)>,
    pub rests: Vec<Rest>,
}

impl Found {
    /// What is asked for, if that can be read.
    pub fn asked(&self) -> Option<&TcpLoadBalancer> {
        match &self.life {
            Life::Stands(read) => (**read).as_ref().ok(),
            Life::Leaves(_) | Life::Gone => None,
        }
    }

    /// The seats that were chosen, each with the name of its port.
    fn seats(&self) -> Vec<(String, Seat)> {
        let at = self.kept.own;
        let ports = self.kept.ports.iter();
        let seats = ports.map(|(name, (protocol, port))| {
            let (protocol, port) = (*protocol, *port);
            (name.clone(), Seat { protocol, port, at })
        });
        seats.collect()
    }

    /// The seats among them that are still asked for.
    fn kept_seats(&self, snapshot: &Snapshot) -> Vec<(String, Seat)> {
        let read = match &self.life {
            Life::Stands(read) => read,
            // A document may only be unreadable.
            Life::Gone if snapshot.incomplete() => return self.seats(),
            Life::Leaves(_) | Life::Gone => return Vec::new(),
        };
        // While nobody can tell what is asked for, and where, nothing is given back.
        let Ok(object) = &**read else {
            return self.seats();
        };
        if is_routed(&object.spec) {
            return Vec::new();
        }
        let gateway = tenant(snapshot, &self.name, &object.metadata.labels).and_then(gateway_of);
        if gateway.is_some() && gateway != self.kept.gateway {
            return Vec::new();
        }
        if !asks_for_kept(object, &self.kept) {
            return Vec::new();
        }
        let is_asked = |(name, seat): &(String, Seat)| {
            let mut ports = object.spec.ports.iter();
            let port = ports.find(|port| port.name == *name);
            port.is_some_and(|port| {
                let is_same = port.protocol.unwrap_or_default() == seat.protocol;
                is_same && target(object, port).is_none_or(|target| target == seat.port)
            })
        };
        self.seats().into_iter().filter(is_asked).collect()
    }

    /// The seats among them that are not.
    pub fn gives_back(&self) -> Vec<Seat> {
        let seats = self.seats().into_iter();
        let gone = seats.filter(|seat| !self.keeps.contains(seat));
        gone.map(|(_, seat)| seat).collect()
    }
}

/// The port of the gateway that a port is to have; `None` where any of the range will do.
pub fn target(object: &TcpLoadBalancer, port: &TcpPort) -> Option<NonZeroU16> {
    let own = || port.port.filter(|_| !is_hashed(object));
    port.listener_port.or_else(own)
}

/// Whether ports of the gateway's range are asked for.
pub fn is_hashed(object: &TcpLoadBalancer) -> bool {
    let annotations = &object.metadata.annotations;
    annotations.contains_key(LISTENER_PORTS_ANNOTATION)
}

/// The pool an address of its own is to be taken from.
pub fn pool(object: &TcpLoadBalancer) -> Option<&str> {
    let asked = object.spec.address.as_ref().map(|it| &it.pool);
    let pool = asked.or_else(|| object.metadata.annotations.get(POOL_ANNOTATION));
    pool.map(String::as_str)
}

/// Which of the pool's addresses it is to be; any where it does not say.
pub fn ip(object: &TcpLoadBalancer) -> Option<IpAddr> {
    object.spec.address.as_ref()?.ip
}

/// Whether the address of its own that was chosen is asked for still.
pub fn asks_for_own(object: &TcpLoadBalancer, kept: &Kept) -> bool {
    kept.pool.is_some() && asks_for_kept(object, kept)
}

/// Whether what was chosen is at the address that is asked for now: one of its own, or the gateway's.
fn asks_for_kept(object: &TcpLoadBalancer, kept: &Kept) -> bool {
    let asked = ip(object);
    pool(object) == kept.pool.as_deref() && (asked.is_none() || asked == kept.own)
}

/// Whose it is: tenants may share a namespace.
pub fn tenant<'a>(
    snapshot: &'a Snapshot,
    name: &Name,
    labels: &BTreeMap<String, String>,
) -> Option<&'a Tenant> {
    let said = labels.get(TENANT_LABEL);
    let said = said.and_then(|said| snapshot.tenants.get(said));
    said.filter(|said| tenant::namespace(said) == name.namespace)
        .or_else(|| snapshot.tenant_of(&name.namespace))
}

/// The gateway of a tenant.
pub fn gateway_of(tenant: &Tenant) -> Option<Name> {
    let gateway = tenant.spec.gateway_ref.as_ref()?;
    Some(Name::new(gateway.namespace(), &gateway.name))
}

/// Every TCPLoadBalancer, and what is left of those that are gone: who was served first comes first,
/// then who came first.
pub fn all(snapshot: &Snapshot) -> Vec<Found> {
    let objects = snapshot
        .objects
        .of_kind(meta::GROUP, TcpLoadBalancerSpec::KIND);
    let withdrawn = withdrawn(snapshot);
    let mut all: Vec<Found> = objects
        .filter_map(|(key, layers)| found(snapshot, key, layers, withdrawn.contains(key)))
        .collect();
    all.sort_by_cached_key(|found| {
        let is_new = found.keeps.is_empty();
        (is_new, found.created.clone(), found.name.clone())
    });
    all
}

/// Enters what was chosen earlier and is still asked for, so that nobody else gets it, and what rests.
pub fn enter(snapshot: &Snapshot, all: &[Found], ledger: &mut Ledger) {
    for found in all {
        let asked = found.asked();
        let keeps = asked.is_some_and(|object| asks_for_own(object, &found.kept));
        // What must wait stays as it is, its address with it.
        if let Some(own) = found.kept.own
            && (keeps || resting::rests(snapshot, found).waits)
        {
            let at = (found.name.namespace.clone(), own);
            let holder = Holder::Tcp(found.name.clone());
            ledger.enter_address(at, holder, found.kept.pool.clone());
        }
        for (gateway, seat, owner) in held(snapshot, found) {
            ledger.ports.enter(&gateway, seat, owner);
        }
    }
    let faces = snapshot
        .faces
        .iter()
        .map(|(name, face)| (name, &face.gateway));
    for (name, gateway) in snapshot.gateways.iter().chain(faces) {
        let mut instances = gateway.spec.instances.iter();
        if instances.any(|instance| listen_address(gateway, instance).is_unspecified()) {
            ledger.ports.is_anywhere(name);
        }
    }
}

/// What it has of gateways by what was chosen, and what rests.
pub fn held(snapshot: &Snapshot, found: &Found) -> Vec<(Name, Seat, Owner)> {
    let mut all = Vec::new();
    if let Some(gateway) = &found.kept.gateway {
        for (port, seat) in &found.keeps {
            all.push((gateway.clone(), *seat, Owner::tcp(&found.name, port)));
        }
        let is_over = match &found.life {
            Life::Leaves(since) => rests_until(snapshot, gateway, since).is_none(),
            Life::Stands(_) | Life::Gone => false,
        };
        if !is_over {
            for seat in found.gives_back() {
                all.push((gateway.clone(), seat, Owner::rests(&found.name)));
            }
        }
    }
    let rests = found.kept.rests.iter();
    for rest in rests.filter(|rest| !rest.is_over(&snapshot.now)) {
        if let Some(gateway) = named(&rest.gateway) {
            all.push((gateway, rest.seat(), Owner::rests(&found.name)));
        }
    }
    all
}

/// When what is given back since then has rested for long enough, if that is still to come.
pub fn rests_until(snapshot: &Snapshot, gateway: &Name, since: &str) -> Option<Timestamp> {
    let now: Timestamp = snapshot.now.parse().ok()?;
    let since: Timestamp = since.parse().ok()?;
    let due = since.checked_add(drain(snapshot, gateway)).ok()?;
    (due > now).then_some(due)
}

/// How long a port of a gateway rests: as long as connections may outlive their listener.
pub fn drain(snapshot: &Snapshot, gateway: &Name) -> Duration {
    let gateway = snapshot.gateway(gateway);
    let drain = gateway.and_then(|gateway| gateway.spec.envoy.as_ref()?.drain);
    drain.map_or(DRAIN, kedge_core::Span::duration)
}

/// The ports of a spec by name, with their protocols.
pub fn protocols(spec: &TcpLoadBalancerSpec) -> impl Iterator<Item = (&str, Transport)> {
    let ports = spec.ports.iter();
    ports.map(|port| (port.name.as_str(), port.protocol.unwrap_or_default()))
}

/// A name as `NAMESPACE/NAME`.
pub fn named(text: &str) -> Option<Name> {
    let (namespace, name) = text.split_once('/')?;
    Some(Name::new(namespace, name))
}

fn found(
    snapshot: &Snapshot,
    key: &ObjectKey,
    layers: &Layers,
    is_withdrawn: bool,
) -> Option<Found> {
    let kept = layers.owned.get(managers::PORTS).map(kept);
    let server = layers.server.as_ref();
    let leaves = server.and_then(|server| server.deletion_timestamp.clone());
    let spoken = layers
        .owned
        .get(managers::EXPOSED)
        .filter(|_| !is_withdrawn);
    // Of an object that is ours alone, an API server may show what others labelled.
    let says = |user: &UserDocument| server.is_none() || user.value.get("spec").is_some();
    let is_asked = layers.user.as_ref().is_some_and(says) || spoken.is_some();
    let life = match leaves {
        Some(since) if snapshot.environment.has_finalizers() => Life::Leaves(since),
        _ if !is_asked => Life::Gone,
        _ => {
            let mut asked = layers.clone();
            asked.owned.remove(managers::PORTS);
            if is_withdrawn {
                asked.owned.remove(managers::EXPOSED);
            }
            let read = asked.in_force().map_err(|error| error.to_string());
            Life::Stands(Box::new(read))
        }
    };
    if matches!(life, Life::Gone) && kept.is_none() {
        return None;
    }
    let mut found = Found {
        name: key.name.clone(),
        created: server
            .map(|server| server.created.clone())
            .unwrap_or_default(),
        kept: kept.unwrap_or_default(),
        keeps: Vec::new(),
        life,
    };
    found.keeps = found.kept_seats(snapshot);
    Some(found)
}

fn kept(layer: &Value) -> Kept {
    let note = |name: &str| {
        let notes = layer.pointer("/metadata/annotations")?;
        notes.get(name)?.as_str()
    };
    let udp: Option<BTreeSet<String>> = note(UDP).and_then(|text| serde_json::from_str(text).ok());
    let udp = udp.unwrap_or_default();
    let ports = layer.pointer("/spec/ports").and_then(Value::as_array);
    let ports = ports.into_iter().flatten().filter_map(|port| {
        let name = port.get("name")?.as_str()?.to_owned();
        let number = port.get("listenerPort")?.as_u64()?;
        let protocol = match udp.contains(&name) {
            true => Transport::Udp,
            false => Transport::Tcp,
        };
        let number = NonZeroU16::new(u16::try_from(number).ok()?)?;
        Some((name, (protocol, number)))
    });
    Kept {
        gateway: note(GATEWAY).and_then(named),
        own: note(ADDRESS).and_then(|text| text.parse().ok()),
        pool: note(POOL).map(str::to_owned),
        ports: ports.collect(),
        rests: note(RESTING).map(resting::read).unwrap_or_default(),
    }
}

/// How long connections may go on at a gateway that does not say.
const DRAIN: Duration = Duration::from_secs(60);
