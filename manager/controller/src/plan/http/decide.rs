//! Who is served, by which names, and what of it.

use std::{collections::BTreeMap, num::NonZeroU16};

use kedge_crd::{EdgeGateway, HttpLoadBalancerSpec, Tenant};

use super::{
    Http,
    check::check,
    doors::{Asked, Door, PORT, TLS_PORT, doors},
    names::{ALL, Generated, Names, Taken, ask_for_all, holds, may_ask},
    offer,
    own::{self, Place, Sharing},
    read::Found,
    refusal::Refusal,
    tls::{self, Endings, Modes},
};
use crate::{
    plan::{
        ledger::Ledger,
        ports::{Owner, Seat},
        tcp::{self, Tcp},
    },
    snapshot::Snapshot,
    store::Name,
};

/// Decides about every HTTPLoadBalancer, beside the other load balancers of the namespace.
pub fn all(
    snapshot: &Snapshot,
    found: &[Found],
    tcp: &[Tcp],
    balancers: BTreeMap<String, u32>,
    ledger: &mut Ledger,
) -> Vec<Http> {
    let mut desk = Desk {
        snapshot,
        ledger,
        tcp: tcp.iter().map(|tcp| (&tcp.name, tcp)).collect(),
        balancers,
        names: Names::default(),
        generated: Generated::default(),
        modes: Modes::new(),
    };
    // What anybody has counts before any wish: a limit that is lowered takes nothing back.
    for found in found {
        desk.enter(found);
    }
    for gateway in snapshot.gateways.keys().chain(snapshot.faces.keys()) {
        for held in snapshot.commons.names(gateway, &snapshot.space) {
            let (gateway, own) = (gateway.clone(), held.own);
            let place = Place { gateway, own };
            desk.names.enter(&place, &held.host, &held.tenant);
        }
    }
    let decided = found.iter().map(|found| (found, desk.decide(found)));
    let mut decided: Vec<(&Found, (Http, Option<Ports>))> = decided.collect();
    // How TLS ends for a name that several share is said by who came first, whoever has its names by now.
    let mut order: Vec<_> = decided.iter().collect();
    order.sort_by_key(|(found, _)| (&found.created, &found.name));
    for (_, (http, ports)) in order {
        if ports.is_some() {
            tls::claim(http, &mut desk.modes);
        }
    }
    for (found, (http, ports)) in &mut decided {
        if let Some(ports) = ports.take() {
            desk.finish(found, http, ports);
        }
    }
    decided.into_iter().map(|(_, (http, _))| http).collect()
}

/// What is decided from.
struct Desk<'a> {
    snapshot: &'a Snapshot,
    ledger: &'a mut Ledger,
    tcp: BTreeMap<&'a Name, &'a Tcp>,
    /// How many load balancers namespaces have.
    balancers: BTreeMap<String, u32>,
    names: Names,
    generated: Generated,
    modes: Modes,
}

/// The ports that one asks for, as far as they are free.
type Ports = Vec<Door<Result<NonZeroU16, Refusal>>>;

impl<'a> Desk<'a> {
    fn enter(&mut self, found: &Found) {
        let Some(tenant) = found.tenant(self.snapshot) else {
            return;
        };
        let owner = &tenant.metadata.name;
        if !found.last.generated_hostname.is_empty() {
            self.generated.enter(owner, &found.last.generated_hostname);
        }
        let Some((place, mut names)) = found.keeps(self.snapshot) else {
            return;
        };
        // A name that an admin took from the list is free, and who has no other counts no more.
        names.retain(|host| may_ask(tenant, host));
        let used = self.balancers.entry(found.name.namespace.clone());
        *used.or_default() += u32::from(!names.is_empty() || place.own.is_some());
        for host in names {
            self.names.enter(&place, host, owner);
        }
    }

    /// Decides about its names; what of it is served follows, unless it is refused.
    fn decide(&mut self, found: &Found) -> (Http, Option<Ports>) {
        let mut http = Http {
            name: found.name.clone(),
            tenant: String::new(),
            spec: HttpLoadBalancerSpec::default(),
            last: found.last.clone(),
            gateway: None,
            own: None,
            generated: found.last.generated_hostname.clone(),
            names: Vec::new(),
            refused: Vec::new(),
            endings: Endings::default(),
            served: None,
            is_asked: found.asked.is_some(),
        };
        let ports = match self.serve(found, &mut http) {
            Ok(ports) => ports,
            Err(refusal) => {
                http.refused.push(refusal);
                None
            }
        };
        (http, ports)
    }

    fn serve(&mut self, found: &Found, http: &mut Http) -> Result<Option<Ports>, Refusal> {
        // It keeps what it has until it may be served again, and gets nothing.
        if let Some((place, names)) = found.keeps(self.snapshot) {
            let tenant = found.tenant(self.snapshot);
            let may = |host: &&str| tenant.is_none_or(|tenant| may_ask(tenant, host));
            let names = names.into_iter().filter(may).map(str::to_owned);
            http.own = found.last.address.clone().filter(|_| place.own.is_some());
            (http.gateway, http.names) = (Some(place.gateway), names.collect());
        }
        let object = match found.asked.as_deref() {
            Some(Ok(object)) => object,
            Some(Err(error)) => {
                let error = error.clone();
                return Err(Refusal::Common(tcp::Refusal::Unreadable { error }));
            }
            None => return Ok(None),
        };
        http.spec = object.spec.clone();
        let (tenant, gateway) = self.place(found)?;
        http.tenant.clone_from(&tenant.metadata.name);
        let holds = holds(&http.spec);
        if !holds {
            ask_for_all(tenant, &mut http.spec);
            let own = self
                .generated
                .of(tenant, &found.name, object, &http.generated);
            http.generated = own.unwrap_or_default();
        }
        let serves = self.snapshot.gateway(&gateway);
        let Some(serves) = serves.filter(|it| it.spec.http.is_some()) else {
            return Err(Refusal::NotServed { gateway });
        };
        check(&http.spec, &http.generated)?;
        for (at, it) in http.spec.tls.iter().enumerate() {
            let hosts = tls::hosts(&http.spec, it, &http.generated);
            for host in hosts.into_iter().filter(|_| it.passthrough) {
                tls::passed(&http.spec, at, host)?;
            }
        }
        let sharing = self.claim((found, &mut *http), tenant, &gateway, holds)?;
        let place = Place {
            gateway,
            own: http.own(),
        };
        let ports = self.ports(http, (&place, sharing.as_ref()), serves);
        if let (true, Some(ports)) = (holds, &ports) {
            let refusals = ports.iter().flat_map(|door| [&door.http, &door.https]);
            let refusals = refusals.flatten().filter_map(|port| port.clone().err());
            http.refused.extend(refusals);
        }
        Ok(ports.filter(|_| !http.names.is_empty()))
    }

    /// What of it is served, at the ports that are free.
    fn finish(&self, found: &Found, http: &mut Http, ports: Ports) {
        let Some(place) = http.place() else {
            return;
        };
        http.endings = tls::endings(self.snapshot, http, &place, &self.modes);
        let tenant = found.tenant(self.snapshot);
        let may_all = tenant.is_some_and(|tenant| {
            may_ask(tenant, ALL) && self.names.is_free(&place, ALL, &tenant.metadata.name)
        });
        http.endings.rest.take_if(|_| !may_all);
        let wants_tls = !http.spec.tls.is_empty();
        let mut refusals = Vec::new();
        let mut free =
            |port: Result<NonZeroU16, Refusal>| port.map_err(|refusal| refusals.push(refusal)).ok();
        let doors: Vec<Door<NonZeroU16>> = ports
            .into_iter()
            .map(|door| Door {
                http: door.http.and_then(&mut free),
                https: door.https.filter(|_| wants_tls).and_then(&mut free),
                listeners: door.listeners,
                called: door.called,
            })
            .collect();
        let tcp = |name: &str| {
            let name = Name::new(&found.name.namespace, name);
            self.tcp.get(&name).copied()
        };
        http.served = Some(offer::served(http, &doors, &place.gateway, tcp));
        http.refused.extend(refusals);
    }

    /// Where it is to be served, and whose it is.
    fn place(&self, found: &Found) -> Result<(&'a Tenant, Name), Refusal> {
        let common = Refusal::Common;
        let namespace = || found.name.namespace.clone();
        let tenant = found.tenant(self.snapshot).ok_or_else(|| {
            common(tcp::Refusal::NoTenant {
                namespace: namespace(),
            })
        })?;
        let needs_address = found.object().is_none_or(|it| it.spec.address.is_none());
        let gateway = tcp::gateway(self.snapshot, tenant, needs_address).map_err(common)?;
        Ok((tenant, gateway))
    }

    /// Gives it the address that it asks for, and the names that are free there; says with whom it shares the
    /// address. One that holds it for others has no names.
    fn claim(
        &mut self,
        (found, http): (&Found, &mut Http),
        tenant: &Tenant,
        gateway: &Name,
        holds: bool,
    ) -> Result<Option<Sharing>, Refusal> {
        let common = Refusal::Common;
        let is_new = !http.counts();
        let limits = tenant.spec.limits.as_ref();
        let most = limits.and_then(|limits| limits.load_balancers);
        let space = &http.name.namespace;
        let used = self.balancers.get(space).copied().unwrap_or_default();
        if let Some(most) = most.filter(|most| is_new && used >= *most) {
            let what = "load balancers";
            return Err(common(tcp::Refusal::Quota { what, most }));
        }
        let wished = wished(http, tenant, holds);
        let chosen = match holds || !wished.is_empty() {
            true => own::choose(self.snapshot, self.ledger, found, tenant),
            false => Ok(None),
        };
        let chosen = chosen.map_err(|because| common(tcp::Refusal::Address(because)))?;
        let (sharing, own) = chosen.unzip();
        let place = Place {
            gateway: gateway.clone(),
            own: own.as_ref().map(|own| own.ip),
        };
        let mut names: Vec<String> = Vec::new();
        for hostname in wished {
            match self.names.claim(&place, &hostname, &tenant.metadata.name) {
                Ok(()) => names.push(hostname),
                Err(Taken) => http.refused.push(Refusal::Taken { hostname }),
            }
        }
        http.gateway = Some(gateway.clone());
        http.own = own.filter(|_| holds || !names.is_empty());
        http.names = names;
        let used = self.balancers.entry(http.name.namespace.clone());
        *used.or_default() += u32::from(is_new && http.counts());
        match !http.counts() && http.refused.is_empty() {
            true => Err(Refusal::NoNames {
                tenant: tenant.metadata.name.clone(),
            }),
            false => Ok(sharing.filter(|_| http.own.is_some())),
        }
    }

    /// The ports that it asks for at a place of a gateway; `None` where that serves none.
    fn ports(
        &mut self,
        http: &Http,
        (place, sharing): (&Place, Option<&Sharing>),
        gateway: &EdgeGateway,
    ) -> Option<Ports> {
        let shared = gateway.spec.http.as_ref()?;
        let name = &place.gateway;
        let owner = sharing.map_or_else(|| Owner::http(name), Sharing::owner);
        let twice = |port, field, other| {
            let gateway = name.clone();
            Err(Refusal::PortTwice {
                gateway,
                port,
                field,
                other,
            })
        };
        let tunnel = gateway.spec.tunnel.tls_port;
        let both = shared.http_port() == shared.https_port();
        let mut free = |(port, field): Asked| {
            if tunnel == Some(port) {
                return twice(port, field, "spec.tunnel.tlsPort");
            }
            if both && field == TLS_PORT {
                return twice(port, field, PORT);
            }
            let seat = Seat {
                at: place.own,
                ..Seat::own_tcp(port)
            };
            let taken = match sharing {
                Some(_) => self.ledger.ports.take(name, seat, &owner),
                None => {
                    let other = self.ledger.ports.other(name, seat, &owner);
                    other.map_or(Ok(()), |other| Err(other.clone()))
                }
            };
            taken.map(|()| port).map_err(|by| {
                Refusal::Common(tcp::Refusal::PortInUse {
                    protocol: seat.protocol,
                    port,
                    by: by.told_to(&http.name.namespace),
                })
            })
        };
        let asked = doors(&http.spec, shared).into_iter();
        Some(asked.map(|door| door.map(&mut free)).collect())
    }
}

/// The names that it asks for and may have; of others it is told.
fn wished(http: &mut Http, tenant: &Tenant, holds: bool) -> Vec<String> {
    if holds {
        return Vec::new();
    }
    let generated = Some(&http.generated).filter(|host| !host.is_empty());
    let mut wished: Vec<String> = Vec::new();
    for host in generated.into_iter().chain(&http.spec.hostnames) {
        if wished.contains(host) {
            continue;
        }
        match may_ask(tenant, host) {
            true => wished.push(host.clone()),
            false => http.refused.push(Refusal::NotAllowed {
                hostname: host.clone(),
                tenant: tenant.metadata.name.clone(),
            }),
        }
    }
    wished
}
