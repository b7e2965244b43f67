//! What the kernel of a router knows, and when it learnt that: the same for whoever told it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ipnet::{IpNet, Ipv4Net};
use kedge_core::Instant;
use kedge_net::{
    netns::Namespace,
    route_events::{RouteEvent, RouteEvents},
    sched,
};

use super::speaker::LIMIT;
use crate::{error::LabError, roles::PRIORITY, stage::Stage};

/// Listens to a router's kernel until it is dropped.
#[derive(Debug)]
pub(super) struct Observer {
    heard: mpsc::Receiver<Result<RouteEvent, String>>,
    there: BTreeSet<IpNet>,
    /// When those went that are not.
    went: BTreeMap<IpNet, Instant>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    /// Listens in a namespace from here on.
    pub(super) fn start(namespace: &str) -> Result<Self, LabError> {
        let namespace = Namespace::open(namespace)?;
        let mut events = namespace
            .run(RouteEvents::open)?
            .map_err(LabError::file("the routes of a router"))?;
        let (tell, heard) = mpsc::channel();
        let over = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&over);
        let thread = thread::spawn(move || {
            // Where it is refused a busy machine is taken for a slow speaker.
            let _ = sched::real_time(PRIORITY);
            while !stop.load(Relaxed) {
                let event = match events.next(LOOK) {
                    Ok(None) => continue,
                    Ok(Some(event)) => Ok(event),
                    Err(error) => Err(error.to_string()),
                };
                let is_over = event.is_err();
                if tell.send(event).is_err() || is_over {
                    return;
                }
            }
        });
        Ok(Self {
            heard,
            there: BTreeSet::new(),
            went: BTreeMap::new(),
            over,
            thread: Some(thread),
        })
    }

    /// Whether there is a route to an address.
    pub(super) fn has(&mut self, address: Ipv4Addr) -> Result<bool, String> {
        loop {
            match self.heard.try_recv() {
                Ok(Ok(event)) => self.take(event),
                Ok(Err(error)) => return Err(error),
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => return Err("nobody listens".to_owned()),
            }
        }
        Ok(self.there.contains(&host(address)))
    }

    /// Waits until there is no route to an address any more; when that was.
    pub(super) fn gone(&mut self, address: Ipv4Addr, stage: &Stage) -> Result<Instant, LabError> {
        stage.eventually("the route is withdrawn", LIMIT, || {
            let is_there = self.has(address)?;
            let went = self.went.get(&host(address)).filter(|_| !is_there);
            went.copied()
                .ok_or_else(|| format!("there is a route to {address} still"))
        })
    }

    fn take(&mut self, event: RouteEvent) {
        let RouteEvent {
            destination,
            is_there,
            at,
        } = event;
        if is_there {
            self.there.insert(destination);
            self.went.remove(&destination);
        } else {
            self.there.remove(&destination);
            self.went.insert(destination, at);
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It panics nowhere.
            let _ = thread.join();
        }
    }
}

fn host(address: Ipv4Addr) -> IpNet {
    IpNet::V4(Ipv4Net::from(address))
}

/// How often it is looked whether anybody still wants to know.
const LOOK: Duration = Duration::from_millis(100);
