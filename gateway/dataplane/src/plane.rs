//! The declared set of listeners.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kedge_control::{balance::Listener, local::ListenerStatus};
use kedge_core::{Code, Fix, Problem};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    datagrams,
    listener::{Limits, Shared, run},
    offer::Carries,
    pipes::Pipes,
    pool::{Hosts, Liveness},
};

/// The built-in proxy: a set of listeners, each with its members.
///
/// Dropping it closes everything at once; [`shutdown`](Self::shutdown) drains.
#[derive(Debug)]
pub struct DataPlane {
    limits: Limits,
    pipes: Arc<Pipes>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    hosts: Hosts,
    running: BTreeMap<Place, Running>,
    tasks: JoinSet<()>,
    refused: Vec<Problem>,
}

/// Where a listener is: whether it carries datagrams, and its address. Both protocols have every port.
pub type Place = (bool, SocketAddr);

#[derive(Debug)]
struct Running {
    carries: Carries,
    shared: Arc<Shared>,
    stop: watch::Sender<Option<Duration>>,
}

impl DataPlane {
    /// A data plane without listeners.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            pipes: Arc::default(),
            inner: Mutex::default(),
        }
    }

    /// Makes `listeners` the set that is served: new ones are bound, those that are gone stop
    /// accepting and drain, the others keep their socket and every connection.
    ///
    /// Must be called within a tokio runtime.
    pub fn apply(&self, listeners: Vec<Listener>) {
        let listeners = listeners.into_iter();
        self.serve(listeners.map(|listener| (Carries::Connections, listener)));
    }

    /// As [`apply`](Self::apply), for listeners of both protocols.
    pub fn serve(&self, listeners: impl IntoIterator<Item = (Carries, Listener)>) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        while inner.tasks.try_join_next().is_some() {}
        inner.refused.clear();
        let mut before = std::mem::take(&mut inner.running);
        for (carries, listener) in listeners {
            let at = SocketAddr::new(listener.address, listener.port);
            let place = (matches!(carries, Carries::Datagrams { .. }), at);
            if let Some(first) = inner.running.get(&place) {
                inner
                    .refused
                    .push(twice(&listener.name, at, &first.shared.name()));
                continue;
            }
            let same = before.get(&place).filter(|one| one.carries == carries);
            let same = same.is_some().then(|| before.remove(&place)).flatten();
            let running = same.unwrap_or_else(|| {
                let (stop, stopped) = watch::channel(None);
                let pipes = Arc::clone(&self.pipes);
                let shared = Shared::new(listener.name.clone(), at, self.limits, pipes);
                let shared = Arc::new(shared);
                shared.pool().set(listener.members.clone(), &inner.hosts);
                match carries {
                    Carries::Connections => {
                        inner.tasks.spawn(run(Arc::clone(&shared), stopped));
                    }
                    Carries::Datagrams { idle } => {
                        let datagrams = datagrams::run(Arc::clone(&shared), idle, stopped);
                        inner.tasks.spawn(datagrams);
                    }
                }
                Running {
                    carries,
                    shared,
                    stop,
                }
            });
            running.shared.rename(listener.name);
            running.shared.pool().set(listener.members, &inner.hosts);
            inner.running.insert(place, running);
        }
        for gone in before.values() {
            gone.stop.send_replace(Some(self.limits.drain));
        }
    }

    /// Takes what the tunnel says of a host: only members of live hosts get connections.
    pub fn alive(&self, host: &str, alive: bool, because: impl Into<String>) {
        let because = because.into();
        let liveness = Liveness { alive, because };
        let mut inner = self.inner();
        for running in inner.running.values() {
            running.shared.pool().heard(host, &liveness);
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
        inner.running.values().map(|r| r.shared.status()).collect()
    }

    /// What is wrong with the listeners.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let inner = self.inner();
        let of_listeners = inner.running.values().flat_map(|r| r.shared.problems());
        inner.refused.iter().cloned().chain(of_listeners).collect()
    }

    /// The listeners that are not bound, and why not where that is known.
    #[must_use]
    pub fn unbound(&self) -> Vec<(Place, Option<Problem>)> {
        let inner = self.inner();
        let running = inner.running.iter();
        let unbound = running.filter_map(|(place, one)| Some((*place, one.shared.unbound()?)));
        unbound.collect()
    }

    /// Stops accepting, and gives open connections at most `limit` to end.
    pub async fn shutdown(self, limit: Duration) {
        let mut inner = self
            .inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for running in inner.running.values() {
            running.stop.send_replace(Some(limit));
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
