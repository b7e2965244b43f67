//! Who is served, at which ports, by which hosts.

use std::{net::IpAddr, num::NonZeroU16};

use ipnet::IpNet;
use kedge_crd::{
    Status, TcpLoadBalancer, TcpLoadBalancerSpec, TcpLoadBalancerStatus,
    balancer::POOL_ANNOTATION,
    condition,
    gateway::DEFAULT_PORTS,
    host::Family,
    tcp::{Backend, Exposure, HASHED, LISTENER_PORTS_ANNOTATION, TcpPort, TrafficPolicy},
    tenant::TenantLimits,
    traffic::Transport,
};

use super::{
    Given, Member, Tcp, is_routed,
    place::gateway,
    read::{Found, Life, asks_for_own, ip, pool, protocols, target, tenant},
    refusal::Refusal,
    resting::{Rests, rests},
    usage::Usage,
};
use crate::{
    plan::{
        Case,
        drain::{Leaving, can_drain},
        holder::Holder,
        ledger::Ledger,
        overlay,
        ports::{Owner, Seat},
        selected::selects,
        vip::own_of,
    },
    snapshot::{Snapshot, key},
    store::Name,
};

/// Decides about every TCPLoadBalancer that somebody asks for.
pub fn all(
    snapshot: &Snapshot,
    found: &[Found],
    cases: &[Case],
    leaving: &Leaving,
    ledger: &mut Ledger,
) -> Vec<Tcp> {
    let mut usage = Usage::of(snapshot, cases, ledger);
    // A limit that is lowered takes nothing back: what anybody has counts before any wish.
    for found in found {
        let kept = found.keeps.len();
        let space = &found.name.namespace;
        *usage.balancers(space) += u32::from(kept > 0 || was_routed(snapshot, found));
        *usage.ports(space) += u32::try_from(kept).unwrap_or(u32::MAX);
    }
    let decided = found
        .iter()
        .filter_map(|found| one(snapshot, leaving, (&mut *ledger, &mut usage), found));
    decided.collect()
}

/// Whether HTTPLoadBalancers alone lead to it, and could when that was last said.
fn was_routed(snapshot: &Snapshot, found: &Found) -> bool {
    let is_routed = found.asked().is_some_and(|object| is_routed(&object.spec));
    let accepted = || {
        let last = last(snapshot, &found.name);
        let accepted = condition::find(&last.conditions, "Accepted").cloned();
        accepted.is_some_and(|accepted| accepted.status == Status::True)
    };
    is_routed && accepted()
}

fn one(
    snapshot: &Snapshot,
    leaving: &Leaving,
    (ledger, usage): (&mut Ledger, &mut Usage),
    found: &Found,
) -> Option<Tcp> {
    let Life::Stands(read) = &found.life else {
        return None;
    };
    let Rests { rests, waits } = rests(snapshot, found);
    let mut tcp = Tcp {
        name: found.name.clone(),
        tenant: String::new(),
        spec: TcpLoadBalancerSpec::default(),
        last: last(snapshot, &found.name),
        gateway: None,
        own: None,
        pool: None,
        given: Vec::new(),
        members: Vec::new(),
        refused: None,
        rests,
        waits,
    };
    let object = match &**read {
        Ok(object) => object,
        Err(error) => {
            tcp.refused = Some(Refusal::Unreadable {
                error: error.clone(),
            });
            return Some(tcp);
        }
    };
    tcp.spec = object.spec.clone();
    let gateway = match at(snapshot, found, object, &mut tcp.tenant) {
        Ok(gateway) => gateway,
        Err(refusal) => {
            tcp.refused = Some(refusal);
            return Some(tcp);
        }
    };
    let space = &found.name.namespace;
    let checked = check(object).and_then(|()| members(snapshot, leaving, found, object, &gateway));
    let checked = checked.and_then(|members| {
        let own = pool(object).map(|pool| {
            let tenant = tenant(snapshot, &found.name, &object.metadata.labels);
            let holder = Holder::Tcp(found.name.clone());
            let name = Name::new(space, pool);
            own_of(snapshot, ledger, (&holder, tenant), (&name, ip(object)))
        });
        let own = own.transpose().map_err(Refusal::Address)?;
        Ok((members, own))
    });
    if !waits || found.kept.gateway.as_ref() == Some(&gateway) {
        tcp.gateway = Some(gateway.clone());
    }
    let limits = tenant(snapshot, &found.name, &object.metadata.labels)
        .and_then(|it| it.spec.limits.clone());
    let limits = limits.unwrap_or_default();
    let mut seats = Seats {
        snapshot,
        found,
        object,
        gateway: &gateway,
        keeps: &found.keeps,
        own: found.kept.own.filter(|_| asks_for_own(object, &found.kept)),
    };
    let kept = seats.kept();
    match checked {
        // It keeps what it has until it may be served again, and gets nothing.
        Err(refusal) => {
            tcp.refused = Some(refusal);
            tcp.given = kept;
        }
        // The same, but what it keeps is served.
        Ok((members, _)) if waits => {
            tcp.members = members;
            tcp.refused = Some(Refusal::PortsResting);
            tcp.given = kept;
        }
        Ok((members, _)) if is_routed(&object.spec) => {
            tcp.members = members;
            let used = usage.balancers(space);
            let over = limits.load_balancers.filter(|most| *used >= *most);
            let is_new = !was_routed(snapshot, found);
            tcp.refused = over.filter(|_| is_new).map(|most| Refusal::Quota {
                what: LOAD_BALANCERS,
                most,
            });
            *used += u32::from(is_new && tcp.refused.is_none());
        }
        Ok((members, own)) => {
            tcp.members = members;
            seats.own = own;
            let mut counts = !kept.is_empty();
            for port in &object.spec.ports {
                match seats.give(ledger, usage, &limits, &mut counts, port) {
                    Ok(given) => tcp.given.push(given),
                    Err(refusal) => {
                        tcp.refused.get_or_insert(refusal);
                    }
                }
            }
        }
    }
    tcp.own = seats.own;
    tcp.pool = tcp.own.and_then(|_| pool(object)).map(str::to_owned);
    Some(tcp)
}

/// Its status as it was last written.
fn last(snapshot: &Snapshot, name: &Name) -> TcpLoadBalancerStatus {
    let layers = snapshot.objects.get(&key::<TcpLoadBalancerSpec>(name));
    let status = layers.and_then(|layers| layers.status.as_ref()?.get("status"));
    let status = status.and_then(|status| serde_json::from_value(status.clone()).ok());
    status.unwrap_or_default()
}

/// The gateway that is to serve it.
fn at(
    snapshot: &Snapshot,
    found: &Found,
    object: &TcpLoadBalancer,
    told: &mut String,
) -> Result<Name, Refusal> {
    let tenant = tenant(snapshot, &found.name, &object.metadata.labels).ok_or_else(|| {
        Refusal::NoTenant {
            namespace: found.name.namespace.clone(),
        }
    })?;
    told.clone_from(&tenant.metadata.name);
    gateway(
        snapshot,
        tenant,
        pool(object).is_none() && !is_routed(&object.spec),
    )
}

/// What can be told from the object alone.
fn check(object: &TcpLoadBalancer) -> Result<(), Refusal> {
    let spec = &object.spec;
    let unsupported = |field, why| Err(Refusal::Unsupported { field, why });
    if spec.ports.is_empty() {
        return Err(Refusal::NoPorts);
    }
    if let Some(port) = spec.ports.iter().find(|port| port.port.is_none()) {
        return Err(Refusal::NoNumber {
            port: port.name.clone(),
        });
    }
    if spec.exposure == Some(Exposure::Internal) {
        return unsupported(
            "spec.exposure",
            "Internal: gateways serve the outside alone",
        );
    }
    if is_routed(spec) {
        routed(object)?;
    }
    if spec.external_traffic_policy == Some(TrafficPolicy::Local) {
        let why = "Local: no host tells which of its endpoints are ready; select the hosts instead";
        return unsupported("spec.externalTrafficPolicy", why);
    }
    let annotations = &object.metadata.annotations;
    if annotations
        .get(LISTENER_PORTS_ANNOTATION)
        .is_some_and(|value| value != HASHED)
    {
        return unsupported(
            LISTENER_PORTS_ANNOTATION,
            "the one value it may have is Hashed",
        );
    }
    let has_udp = protocols(spec).any(|(_, protocol)| protocol == Transport::Udp);
    if has_udp && spec.proxy_protocol.is_some() {
        return unsupported(
            "spec.proxyProtocol",
            "a UDP port has no connection to open with it",
        );
    }
    if has_udp && spec.health_check.is_some() {
        return unsupported(
            "spec.healthCheck",
            "checks open TCP connections; a UDP port has none",
        );
    }
    let known = |name: &str| spec.ports.iter().any(|port| port.name == name);
    let mut named = spec.endpoints.iter().flat_map(|backend| &backend.ports);
    match named.find(|port| !known(&port.name)) {
        Some(port) => Err(Refusal::UnknownPort {
            port: port.name.clone(),
        }),
        None => Ok(()),
    }
}

/// What makes no sense where HTTPLoadBalancers alone lead to it.
fn routed(object: &TcpLoadBalancer) -> Result<(), Refusal> {
    let spec = &object.spec;
    let unsupported = |field, why| Err(Refusal::Unsupported { field, why });
    if protocols(spec).any(|(_, protocol)| protocol == Transport::Udp) {
        let why = "Routed: no HTTPLoadBalancer leads to a UDP port";
        return unsupported("spec.exposure", why);
    }
    if spec.proxy_protocol.is_some() {
        let why = "Routed: requests tell who the client is by their headers";
        return unsupported("spec.proxyProtocol", why);
    }
    if !spec.source_ranges.is_empty() {
        let why = "Routed: it has no ports that clients come to";
        return unsupported("spec.sourceRanges", why);
    }
    if pool(object).is_some() {
        let why = "Routed: it is reached at the addresses of HTTPLoadBalancers";
        return unsupported(POOL_ANNOTATION, why);
    }
    Ok(())
}

/// The hosts behind it: those of its namespace that are enrolled, served, and at the same gateway. A
/// host that is heard no more stays one: its gateway knows sooner than anybody.
fn members(
    snapshot: &Snapshot,
    leaving: &Leaving,
    found: &Found,
    object: &TcpLoadBalancer,
    gateway: &Name,
) -> Result<Vec<Member>, Refusal> {
    let space = &found.name.namespace;
    let hosts = snapshot.hosts.iter().filter(|(name, host)| {
        name.namespace == *space && host.spec.identity.is_some() && host.spec.is_active()
    });
    let hosts: Vec<_> = hosts
        .filter(|(name, host)| overlay::gateway_of(snapshot, name, host).as_ref() == Some(gateway))
        .collect();
    let mut members: Vec<Member> = Vec::new();
    let drains = can_drain(snapshot, gateway);
    let mut put = |host: &Name, backend: &Backend, address| {
        let goes = leaving.is_drained(snapshot, host, gateway);
        let is_left = backend.draining_hosts.contains(&host.name);
        let draining = goes.or(is_left.then_some(drains));
        if draining == Some(false) {
            return;
        }
        let ports = backend
            .ports
            .iter()
            .map(|port| (port.name.clone(), port.port));
        let member = Member {
            host: host.clone(),
            address,
            draining: draining.is_some(),
            ports: ports.collect(),
        };
        if !members.contains(&member) {
            members.push(member);
        }
    };
    for backend in &object.spec.endpoints {
        if let Some(selector) = &backend.host_selector {
            let selected = hosts
                .iter()
                .filter(|(name, host)| selects(selector, name, host));
            for (name, host) in selected {
                let is_reached = |own: &&IpNet| {
                    let family = backend.address_family;
                    family.is_none_or(|family| family == Family::of(own.addr()))
                };
                let mut addresses = host.spec.tunnel.addresses.iter();
                if let Some(address) = addresses.find(is_reached) {
                    put(name, backend, address.addr());
                }
            }
        }
        for address in &backend.addresses {
            let has = |own: &IpNet| own.addr() == *address;
            let mut all = hosts.iter();
            let host = all.find(|(_, host)| host.spec.tunnel.addresses.iter().any(has));
            match host {
                Some((name, _)) => put(name, backend, *address),
                None => return Err(Refusal::UnknownHost { address: *address }),
            }
        }
    }
    Ok(members)
}

/// Where one load balancer finds its ports.
struct Seats<'a> {
    snapshot: &'a Snapshot,
    found: &'a Found,
    object: &'a TcpLoadBalancer,
    gateway: &'a Name,
    keeps: &'a [(String, Seat)],
    own: Option<IpAddr>,
}

impl Seats<'_> {
    /// Gives a port its seat, within the limits: `counts` says whether the load balancer counts already.
    /// Whether the seat is free is looked at first: what others have says more than a limit.
    fn give(
        &self,
        ledger: &mut Ledger,
        usage: &mut Usage,
        limits: &TenantLimits,
        counts: &mut bool,
        port: &TcpPort,
    ) -> Result<Given, Refusal> {
        let owner = Owner::tcp(&self.found.name, &port.name);
        let seat = self.find(ledger, port, &owner)?;
        let space = &self.found.name.namespace;
        if !self.keeps.iter().any(|(name, _)| *name == port.name) {
            let over = |used: u32, most: Option<u32>| most.filter(|most| used >= *most);
            let balancers = (*usage.balancers(space), limits.load_balancers);
            if let Some(most) = over(balancers.0, balancers.1).filter(|_| !*counts) {
                let what = LOAD_BALANCERS;
                return Err(Refusal::Quota { what, most });
            }
            if let Some(most) = over(*usage.ports(space), limits.ports) {
                return Err(Refusal::Quota {
                    what: "ports",
                    most,
                });
            }
            *usage.balancers(space) += u32::from(!*counts);
            *usage.ports(space) += 1;
            *counts = true;
        }
        let taken = ledger.ports.take(self.gateway, seat, &owner);
        taken.map_err(|by| self.in_use(seat, &by))?;
        Ok(given(port, seat.port))
    }

    /// The seat a port is to have.
    fn find(&self, ledger: &Ledger, port: &TcpPort, owner: &Owner) -> Result<Seat, Refusal> {
        let other = |seat: Seat| ledger.ports.other(self.gateway, seat, owner);
        if let Some(target) = target(self.object, port) {
            let seat = self.seat(port, target);
            return match other(seat) {
                None => Ok(seat),
                Some(by) => Err(self.in_use(seat, by)),
            };
        }
        // One of the range that it has stays, where it still is a place of its own. What it had at
        // another gateway or address is none.
        let mut keeps = self.keeps.iter();
        let kept = keeps.find(|(name, _)| *name == port.name);
        let kept = kept.map(|(_, kept)| self.seat(port, kept.port));
        if let Some(kept) = kept.filter(|kept| other(*kept).is_none()) {
            return Ok(kept);
        }
        let gateway = self.snapshot.gateway(self.gateway);
        let range = gateway.and_then(|gateway| gateway.spec.ports.range);
        let range = range.unwrap_or(DEFAULT_PORTS);
        let (from, to) = (range.from.get(), range.to.get().max(range.from.get()));
        let count = u32::from(to - from) + 1;
        let first = hash(&self.found.name, &port.name) % count;
        let seats = (0..count).filter_map(|step| {
            let offset = u16::try_from((first + step) % count).ok()?;
            let number = NonZeroU16::new(from.saturating_add(offset))?;
            Some(self.seat(port, number))
        });
        let mut free = seats.filter(|seat| other(*seat).is_none());
        free.next().ok_or_else(|| Refusal::PortsExhausted {
            gateway: self.gateway.clone(),
            from,
            to,
        })
    }

    fn in_use(&self, seat: Seat, by: &Owner) -> Refusal {
        Refusal::PortInUse {
            protocol: seat.protocol,
            port: seat.port,
            by: by.told_to(&self.found.name.namespace),
        }
    }

    /// The ports it had that are still asked for.
    fn kept(&self) -> Vec<Given> {
        let ports = self.object.spec.ports.iter();
        let kept = ports.filter_map(|port| {
            let mut all = self.keeps.iter();
            let (_, seat) = all.find(|(name, _)| *name == port.name)?;
            Some(given(port, seat.port))
        });
        kept.collect()
    }

    fn seat(&self, port: &TcpPort, number: NonZeroU16) -> Seat {
        Seat {
            protocol: port.protocol.unwrap_or_default(),
            port: number,
            at: self.own,
        }
    }
}

fn given(port: &TcpPort, listener: NonZeroU16) -> Given {
    Given {
        name: port.name.clone(),
        protocol: port.protocol.unwrap_or_default(),
        listener,
    }
}

/// What a limit counts.
const LOAD_BALANCERS: &str = "load balancers";

/// FNV-1a, 32 bits, over the names that stay.
fn hash(name: &Name, port: &str) -> u32 {
    let text = format!("{name}/{port}");
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
