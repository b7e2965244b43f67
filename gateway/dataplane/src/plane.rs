//! The declared set of listeners.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipnet::IpNet;
use kedge_control::{balance::Listener, frontend::ClientIp, local::ListenerStatus};
use kedge_core::{Code, Fix, Problem};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    datagrams,
    door::Door,
    listener::{Limits, Shared, run},
    means::Means,
    offer::{Carries, Place, place},
    pool::{Hosts, Liveness},
    proxied::meet,
};

/// The built-in proxy: a set of listeners, each with its members.
///
/// Dropping it closes everything at once; [`shutdown`](Self::shutdown) drains.
#[derive(Debug)]
pub struct DataPlane {
    limits: Limits,
    means: Arc<Means>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    hosts: Hosts,
    running: BTreeMap<Place, Running>,
    tasks: JoinSet<()>,
    refused: Vec<Problem>,
}

#[derive(Debug)]
struct Running {
    serves: Serves,
    stop: watch::Sender<Option<Duration>>,
}

#[derive(Debug)]
enum Serves {
    /// One frontend.
    Alone(Carries, Arc<Shared>),
    /// Those whose names clients ask for.
    Named(Door),
}

impl Running {
    /// Who has the socket.
    const fn place(&self) -> &Arc<Shared> {
        match &self.serves {
            Serves::Alone(_, shared) => shared,
            Serves::Named(door) => door.shared(),
        }
    }

    /// The frontends.
    fn frontends(&self) -> Vec<&Arc<Shared>> {
        match &self.serves {
            Serves::Alone(_, shared) => vec![shared],
            Serves::Named(door) => door.behind().collect(),
        }
    }

    fn status(&self) -> Vec<ListenerStatus> {
        let frontends = self.frontends().into_iter().map(|one| one.status());
        let mut all: Vec<ListenerStatus> = frontends.collect();
        if let Serves::Named(door) = &self.serves {
            // Whoever listens leads to everybody behind.
            let mut status = door.shared().status();
            for member in all.iter().flat_map(|one| &one.members) {
                if !status.members.contains(member) {
                    status.members.push(member.clone());
                }
            }
            all.insert(0, status);
        }
        all
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::from_iter(self.place().of_place());
        if let Serves::Named(door) = &self.serves {
            problems.extend(door.shared().of_room());
        }
        for one in self.frontends() {
            problems.extend(one.of_members());
            problems.extend(one.of_room());
        }
        problems
    }

    /// Whether it is the one for that, as it is.
    fn is_for(&self, carries: &Carries) -> bool {
        match &self.serves {
            Serves::Alone(Carries::Connections { .. }, _) => {
                matches!(carries, Carries::Connections { .. })
            }
            Serves::Alone(Carries::Datagrams { idle: own, .. }, _) => {
                matches!(carries, Carries::Datagrams { idle, .. } if idle == own)
            }
            Serves::Alone(own @ Carries::Named { .. }, _) => own == carries,
            Serves::Named(_) => matches!(carries, Carries::Named { .. }),
        }
    }

    /// Takes the first frontend that it is to serve.
    fn is(&mut self, carries: Carries, listener: Listener, hosts: &Hosts, tasks: &mut JoinSet<()>) {
        match (&mut self.serves, carries) {
            (Serves::Named(door), Carries::Named { names, told }) => {
                door.begin();
                door.put((names, told), listener, hosts, tasks);
            }
            (Serves::Alone(_, shared), carries) => {
                shared.told.set(carries.told());
                shared.ranges.set(carries.ranges().to_vec());
                shared.rename(listener.name);
                shared.pool().set(listener.members, hosts);
            }
            (Serves::Named(_), Carries::Connections { .. } | Carries::Datagrams { .. }) => {}
        }
    }

    /// It takes nobody any more, and its connections end within `drain`.
    fn end(&self, drain: Duration) {
        self.stop.send_replace(Some(drain));
        if let Serves::Named(door) = &self.serves {
            door.stop(drain);
        }
    }
}

impl DataPlane {
    /// A data plane without listeners.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            means: Arc::default(),
            inner: Mutex::default(),
        }
    }

    /// Reaches these hosts from the network namespaces at these paths, all others from this process's own.
    pub fn enclose(&self, hosts: BTreeMap<String, PathBuf>) {
        self.means.enclose(hosts);
    }

    /// Has clients come through the load balancers at these addresses, which say by the PROXY protocol who
    /// the client is; by themselves where there are none. It goes for connections that come from here on.
    pub fn behind(&self, outer: Option<Vec<IpNet>>) {
        self.means.behind(outer);
    }

    /// Makes `listeners` the set that is served: new ones are bound, those that are gone stop
    /// accepting and drain, the others keep their socket and every connection.
    ///
    /// Must be called within a tokio runtime.
    pub fn apply(&self, listeners: Vec<Listener>) {
        let carries = Carries::Connections {
            told: ClientIp::Hidden,
            ranges: Vec::new(),
        };
        let listeners = listeners.into_iter();
        self.serve(listeners.map(|listener| (carries.clone(), listener)));
    }

    /// As [`apply`](Self::apply), for listeners of every kind. Those with names share an address and
    /// port, where each name leads to the first that has it.
    pub fn serve(&self, listeners: impl IntoIterator<Item = (Carries, Listener)>) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        while inner.tasks.try_join_next().is_some() {}
        inner.refused.clear();
        let mut before = std::mem::take(&mut inner.running);
        for (carries, listener) in listeners {
            let place = place(&carries, &listener);
            let has = inner.running.get_mut(&place);
            match (carries, has) {
                (
                    Carries::Named { names, told },
                    Some(Running {
                        serves: Serves::Named(door),
                        ..
                    }),
                ) if !door.has(&listener.name) => {
                    door.put((names, told), listener, &inner.hosts, &mut inner.tasks);
                }
                (_, Some(first)) => {
                    let twice = twice(&listener.name, place.1, &first.place().name());
                    inner.refused.push(twice);
                }
                (carries, None) => {
                    let mut running = before
                        .get(&place)
                        .is_some_and(|one| one.is_for(&carries))
                        .then(|| before.remove(&place))
                        .flatten()
                        .unwrap_or_else(|| self.open(&carries, &listener, inner));
                    running.is(carries, listener, &inner.hosts, &mut inner.tasks);
                    inner.running.insert(place, running);
                }
            }
        }
        for running in inner.running.values_mut() {
            if let Serves::Named(door) = &mut running.serves {
                door.finish(self.limits.drain);
            }
        }
        for gone in before.values() {
            gone.end(self.limits.drain);
        }
    }

    /// Begins to listen.
    fn open(&self, carries: &Carries, listener: &Listener, inner: &mut Inner) -> Running {
        let at = SocketAddr::new(listener.address, listener.port);
        let (stop, stopped) = watch::channel(None);
        let tasks = &mut inner.tasks;
        let with = (self.limits, &self.means);
        if matches!(carries, Carries::Named { .. }) {
            let serves = Serves::Named(Door::open(at, with, stopped, tasks));
            return Running { serves, stop };
        }
        let means = Arc::clone(&self.means);
        let shared = Shared::new(listener.name.clone(), at, self.limits, means);
        let shared = Arc::new(shared);
        shared.told.set(carries.told());
        shared.ranges.set(carries.ranges().to_vec());
        shared.pool().set(listener.members.clone(), &inner.hosts);
        match carries {
            Carries::Datagrams { idle, .. } => {
                let datagrams = datagrams::run(Arc::clone(&shared), *idle, stopped);
                tasks.spawn(datagrams);
            }
            Carries::Connections { .. } | Carries::Named { .. } => {
                let own = Arc::clone(&shared);
                let each = move |client| meet(client, Arc::clone(&own));
                tasks.spawn(run(Arc::clone(&shared), stopped, each));
            }
        }
        let serves = Serves::Alone(carries.clone(), shared);
        Running { serves, stop }
    }

    /// Takes what the tunnel says of a host: only members of live hosts get connections.
    pub fn alive(&self, host: &str, alive: bool, because: impl Into<String>) {
        let because = because.into();
        let liveness = Liveness { alive, because };
        let mut inner = self.inner();
        for one in inner.running.values().flat_map(Running::frontends) {
            one.pool().heard(host, &liveness);
        }
        inner.hosts.insert(host.to_owned(), liveness);
    }

    /// Forgets a host that is no peer any more.
    pub fn forget(&self, host: &str) {
        self.alive(host, false, "the host is no peer of this gateway");
        self.inner().hosts.remove(host);
    }

    /// The listeners, by address.
    #[must_use]
    pub fn status(&self) -> Vec<ListenerStatus> {
        let inner = self.inner();
        inner.running.values().flat_map(Running::status).collect()
    }

    /// What is wrong with the listeners.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let inner = self.inner();
        let of_listeners = inner.running.values().flat_map(Running::problems);
        inner.refused.iter().cloned().chain(of_listeners).collect()
    }

    /// The listeners that are not bound, and why not where that is known.
    #[must_use]
    pub fn unbound(&self) -> Vec<(Place, Option<Problem>)> {
        let inner = self.inner();
        let running = inner.running.iter();
        let unbound = running.filter_map(|(place, one)| Some((*place, one.place().unbound()?)));
        unbound.collect()
    }

    /// Stops accepting, and gives open connections at most `limit` to end.
    pub async fn shutdown(self, limit: Duration) {
        let mut inner = self
            .inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for running in inner.running.values() {
            running.end(limit);
        }
        let all = async { while inner.tasks.join_next().await.is_some() {} };
        // Each task keeps the limit itself; this one covers listeners that drained longer before.
        let _ = timeout(limit + Duration::from_secs(1), all).await;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn twice(name: &str, at: SocketAddr, first: &str) -> Problem {
    Problem::new(
        Code::GatewayPortInUse,
        format!("two listeners want port {} on {}", at.port(), at.ip()),
    )
    .object(format!("listeners/{name}"))
    .evidence(format!("{first} has it"))
    .consequence(format!("{name} serves nobody"))
    .fix(Fix::text("give one of them another port"))
}
