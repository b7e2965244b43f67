//! What is still open to the backends that are being left.
//!
//! The kernel counts sockets of the network namespace that a host is reached from, whoever has them: Envoy's count of a
//! cluster starts anew with each change of it, while its connections go on.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    path::Path,
};

use kedge_control::report::Draining;
use kedge_core::{Code, Fix, Problem};
use kedge_net::{connections::open_to, netns::within};

use crate::{
    bounds::Plan,
    hub::Hub,
    tenants::{path_of, peers},
};

/// The backends that are being left.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    told: Vec<Draining>,
    problem: Option<Problem>,
}

impl Leaving {
    /// Counts again.
    fn count(&mut self, plan: &Plan) {
        self.told.clear();
        self.problem = None;
        let left = left(plan);
        if left.is_empty() {
            return;
        }
        let hosts: BTreeSet<&str> = left.iter().map(|(host, _)| *host).collect();
        let apart: BTreeMap<&str, &Path> = peers(plan)
            .iter()
            .filter(|peer| hosts.contains(peer.name.as_str()))
            .filter_map(|peer| Some((peer.name.as_str(), path_of(plan, peer.realm)?)))
            .collect();
        let mut places: BTreeMap<Option<&Path>, Vec<SocketAddr>> = BTreeMap::new();
        for (host, place) in &left {
            let inside = apart.get(host).copied();
            places.entry(inside).or_default().push(*place);
        }
        let mut open = BTreeMap::new();
        for (inside, places) in places {
            match within(inside, || open_to(&places)) {
                Ok(counted) => _ = open.insert(inside, counted),
                Err(error) => self.problem = Some(uncounted(error)),
            }
        }
        self.told = left
            .into_iter()
            .map(|(host, place)| Draining {
                host: host.to_owned(),
                address: place.ip(),
                port: place.port(),
                open: open
                    .get(&apart.get(host).copied())
                    .and_then(|open| open.get(&place).copied()),
            })
            .collect();
    }
}

impl Hub {
    /// Counts what is open to the backends that are being left.
    pub fn count_left(&mut self) {
        self.leaving.count(&self.plan);
    }

    /// The backends that are being left, and what is open to each.
    pub fn left(&self) -> Vec<Draining> {
        self.leaving.told.clone()
    }

    /// Why it cannot be told what is open.
    pub fn left_problem(&self) -> Option<Problem> {
        self.leaving.problem.clone()
    }
}

/// The backends of a plan that are being left, each once.
fn left(plan: &Plan) -> BTreeSet<(&str, SocketAddr)> {
    let own = plan.listeners.iter().flat_map(|one| &one.members);
    let own = own.filter(|member| member.draining);
    let own = own.map(|member| (&*member.host, SocketAddr::new(member.address, member.port)));
    let tenants = plan.offer.pools.iter().flat_map(|pool| &pool.members);
    let tenants = tenants.filter(|member| member.draining);
    let tenants = tenants.map(|member| {
        let place = SocketAddr::new(member.address, member.port.get());
        (&*member.host, place)
    });
    own.chain(tenants).collect()
}

fn uncounted(error: io::Error) -> Problem {
    Problem::warning(
        Code::GatewayUncounted,
        "open connections to hosts that are being left cannot be counted",
    )
    .caused_by(&error)
    .consequence("whoever waits for them to end, such as the deletion of a Machine, waits for its whole drain.timeout")
    .fix(Fix::text(
        "run a kernel with CONFIG_INET_DIAG, CONFIG_INET_TCP_DIAG and CONFIG_INET_UDP_DIAG, or load their modules",
    ).command("modprobe -a tcp_diag udp_diag"))
}
