//! Who is served, by which names, and what of it.

use std::{collections::BTreeMap, num::NonZeroU16};

use kedge_crd::{EdgeGateway, HttpLoadBalancerSpec, Tenant};

use super::{
    Http, Served,
    check::check,
    names::{ALL, Generated, Names, Taken, ask_for_all, may_ask},
    offer,
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
    ledger: &Ledger,
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
        for (host, tenant) in snapshot.commons.names(gateway, &snapshot.space) {
            desk.names.enter(gateway, host, tenant);
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
    ledger: &'a Ledger,
    tcp: BTreeMap<&'a Name, &'a Tcp>,
    /// How many load balancers namespaces have.
    balancers: BTreeMap<String, u32>,
    names: Names,
    generated: Generated,
    modes: Modes,
}

/// The ports of a gateway that HTTPLoadBalancers share, as far as they are free.
struct Ports {
    http: Result<NonZeroU16, Refusal>,
    https: Result<NonZeroU16, Refusal>,
}

impl<'a> Desk<'a> {
    fn enter(&mut self, found: &Found) {
        let Some(tenant) = found.tenant(self.snapshot) else {
            return;
        };
        let owner = &tenant.metadata.name;
        if !found.last.generated_hostname.is_empty() {
            self.generated.enter(owner, &found.last.generated_hostname);
        }
        let Some((gateway, mut names)) = found.keeps(self.snapshot) else {
            return;
        };
        // A name that an admin took from the list is free, and who has no other counts no more.
        names.retain(|host| may_ask(tenant, host));
        let used = self.balancers.entry(found.name.namespace.clone());
        *used.or_default() += u32::from(!names.is_empty());
        for host in names {
            self.names.enter(&gateway, host, owner);
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
        if let Some((gateway, names)) = found.keeps(self.snapshot) {
            let tenant = found.tenant(self.snapshot);
            let may = |host: &&str| tenant.is_none_or(|tenant| may_ask(tenant, host));
            let names = names.into_iter().filter(may).map(str::to_owned);
            (http.gateway, http.names) = (Some(gateway), names.collect());
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
        ask_for_all(tenant, &mut http.spec);
        let own = self
            .generated
            .of(tenant, &found.name, object, &http.generated);
        http.generated = own.unwrap_or_default();
        let object_gateway = self.snapshot.gateway(&gateway);
        let ports =
            object_gateway.and_then(|object| self.ports(&found.name.namespace, &gateway, object));
        let Some(ports) = ports else {
            return Err(Refusal::NotServed { gateway });
        };
        check(&http.spec, &http.generated)?;
        for (at, it) in http.spec.tls.iter().enumerate() {
            let hosts = tls::hosts(&http.spec, it, &http.generated);
            for host in hosts.into_iter().filter(|_| it.passthrough) {
                tls::passed(&http.spec, at, host)?;
            }
        }
        self.claim(http, tenant, &gateway)?;
        Ok(Some(ports).filter(|_| !http.names.is_empty()))
    }

    /// What of it is served, at the ports that are free.
    fn finish(&self, found: &Found, http: &mut Http, ports: Ports) {
        let Some(gateway) = http.gateway.clone() else {
            return;
        };
        http.endings = tls::endings(self.snapshot, http, &gateway, &self.modes);
        let tenant = found.tenant(self.snapshot);
        let may_all = tenant.is_some_and(|tenant| {
            may_ask(tenant, ALL) && self.names.is_free(&gateway, ALL, &tenant.metadata.name)
        });
        http.endings.rest.take_if(|_| !may_all);
        let (plain, secure) = (ports.http, ports.https);
        let wants_tls = !http.spec.tls.is_empty();
        let served = Served {
            http: plain.as_ref().ok().copied(),
            https: secure.as_ref().ok().copied().filter(|_| wants_tls),
            ..Served::default()
        };
        let refusals = [plain.err(), secure.err().filter(|_| wants_tls)];
        let tcp = |name: &str| {
            let name = Name::new(&found.name.namespace, name);
            self.tcp.get(&name).copied()
        };
        http.served = Some(offer::served(http, served, &gateway, tcp));
        http.refused.extend(refusals.into_iter().flatten());
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
        let gateway = tcp::gateway(self.snapshot, tenant, true).map_err(common)?;
        Ok((tenant, gateway))
    }

    /// Gives it the names that it asks for and that are free.
    fn claim(&mut self, http: &mut Http, tenant: &Tenant, gateway: &Name) -> Result<(), Refusal> {
        let is_new = http.names.is_empty();
        let limits = tenant.spec.limits.as_ref();
        let most = limits.and_then(|limits| limits.load_balancers);
        let used = self.balancers.entry(http.name.namespace.clone());
        let used = used.or_default();
        if let Some(most) = most.filter(|most| is_new && *used >= *most) {
            let what = "load balancers";
            return Err(Refusal::Common(tcp::Refusal::Quota { what, most }));
        }
        let generated = Some(&http.generated).filter(|host| !host.is_empty());
        let mut names: Vec<String> = Vec::new();
        for host in generated.into_iter().chain(&http.spec.hostnames.clone()) {
            if names.contains(host) {
                continue;
            }
            if !may_ask(tenant, host) {
                http.refused.push(Refusal::NotAllowed {
                    hostname: host.clone(),
                    tenant: tenant.metadata.name.clone(),
                });
                continue;
            }
            match self.names.claim(gateway, host, &tenant.metadata.name) {
                Ok(()) => names.push(host.clone()),
                Err(Taken) => http.refused.push(Refusal::Taken {
                    hostname: host.clone(),
                }),
            }
        }
        *used += u32::from(is_new && !names.is_empty());
        http.gateway = Some(gateway.clone());
        http.names = names;
        match http.names.is_empty() && http.refused.is_empty() {
            true => Err(Refusal::NoNames {
                tenant: tenant.metadata.name.clone(),
            }),
            false => Ok(()),
        }
    }

    /// The ports that HTTPLoadBalancers share at a gateway; `None` where it serves none.
    fn ports(&self, space: &str, name: &Name, gateway: &EdgeGateway) -> Option<Ports> {
        let shared = gateway.spec.http.as_ref()?;
        let (http, https) = (shared.http_port(), shared.https_port());
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
        let free = |port: NonZeroU16, field| {
            if tunnel == Some(port) {
                return twice(port, field, "spec.tunnel.tlsPort");
            }
            let seat = Seat::own_tcp(port);
            let other = self.ledger.ports.other(name, seat, &Owner::http(name));
            match other {
                None => Ok(port),
                Some(by) => Err(Refusal::Common(tcp::Refusal::PortInUse {
                    protocol: seat.protocol,
                    port,
                    by: by.told_to(space),
                })),
            }
        };
        Some(Ports {
            http: free(http, "spec.http.port"),
            https: match http == https {
                true => twice(https, "spec.http.tlsPort", "spec.http.port"),
                false => free(https, "spec.http.tlsPort"),
            },
        })
    }
}
