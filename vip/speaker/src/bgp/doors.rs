//! Where neighbours call: a port for each family that any of them has.

use std::{net::IpAddr, time::Duration};

use kedge_core::{Coded as _, Instant, Problem};
use kedge_net::{
    bgp::{BgpError, Door},
    udp::Family,
};
use tokio::{net::TcpListener, sync::mpsc, task::AbortHandle};

use super::{BgpSpec, TcpAo, connection::Report};

/// The ports that are open, and those that should be.
#[derive(Debug)]
pub(super) struct Doors {
    port: u16,
    open: Vec<Open>,
    troubles: Vec<BgpError>,
    pub retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    door: Door,
    task: AbortHandle,
    /// Whose calls need a password.
    locked: Vec<IpAddr>,
    /// Whose calls need a key of TCP-AO, and which: it is there for as long as the port is open.
    sealed: Vec<(IpAddr, TcpAo)>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Doors {
    pub(super) const fn new(port: u16) -> Self {
        Self {
            port,
            open: Vec::new(),
            troubles: Vec::new(),
            retry_at: None,
        }
    }

    /// Opens what is missing, closes what nobody needs, and has calls need the keys they should.
    /// A neighbour comes with its address, where that is known: without one it is on a link, and its calls
    /// are not taken yet.
    pub(super) fn fit(
        &mut self,
        now: Instant,
        specs: &[(&BgpSpec, Option<IpAddr>)],
        reports: &mpsc::Sender<Report>,
    ) {
        self.troubles.clear();
        for family in [Family::V4, Family::V6] {
            let of_family = |(_, peer): &&(&BgpSpec, Option<IpAddr>)| {
                peer.map_or(Family::V6, Family::of) == family
            };
            let seals = |it: &Open| {
                it.sealed
                    .iter()
                    .all(|(peer, key)| is_wanted(specs, *peer, key))
            };
            self.open
                .retain(|it| it.door.family() != family || seals(it));
            let is_open = self.open.iter().any(|it| it.door.family() == family);
            if specs.iter().find(of_family).is_none() {
                self.open.retain(|it| it.door.family() != family);
            } else if !is_open {
                match open(family, self.port, reports.clone()) {
                    Ok(door) => self.open.push(door),
                    Err(error) => self.troubles.push(error),
                }
            }
        }
        for it in &mut self.open {
            let family = it.door.family();
            let of_family = |peer: &IpAddr| Family::of(*peer) == family;
            let locked = specs.iter().filter(|(spec, _)| spec.is_locked());
            let locked = locked.filter_map(|(spec, peer)| Some((*spec, peer.filter(of_family)?)));
            self.troubles.extend(it.lock(&locked.collect::<Vec<_>>()));
        }
        self.retry_at = (!self.troubles.is_empty()).then(|| now + RETRY);
    }

    /// Whether calls from there need the key that they should: one that could not be set lets everybody in.
    pub(super) fn guard(&self, spec: &BgpSpec, peer: IpAddr) -> bool {
        let mut open = self.open.iter();
        let is_locked = |it: &Open| match &spec.tcp_ao {
            Some(_) => it.sealed.iter().any(|(sealed, _)| *sealed == peer),
            None => it.locked.contains(&peer),
        };
        !spec.is_locked() || open.any(is_locked)
    }

    /// What is wrong with them.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let told = |error: &BgpError| {
            let consequence = match error {
                BgpError::Unsigned { .. } => {
                    "there is no session with a neighbour that has `tcp_ao`"
                }
                BgpError::PortInUse { .. }
                | BgpError::NoInterface { .. }
                | BgpError::NoSource { .. }
                | BgpError::Refused { .. } => {
                    "neighbours cannot call this host; it still calls them"
                }
            };
            error.problem().consequence(consequence)
        };
        self.troubles.iter().map(told).collect()
    }
}

fn open(family: Family, port: u16, reports: mpsc::Sender<Report>) -> Result<Open, BgpError> {
    let door = Door::open(family, port)?;
    let listener = TcpListener::from_std(door.listener().try_clone()?)?;
    let task = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    if reports.send(Report::Called(stream, from)).await.is_err() {
                        return;
                    }
                }
                // No descriptors: they may be there again in a moment.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
    Ok(Open {
        door,
        task: task.abort_handle(),
        locked: Vec::new(),
        sealed: Vec::new(),
    })
}

impl Open {
    /// Has exactly the calls of these neighbours need their keys; why that cannot be.
    fn lock(&mut self, wanted: &[(&BgpSpec, IpAddr)]) -> Vec<BgpError> {
        let mut troubles = Vec::new();
        let has_password = |peer: &IpAddr| {
            let mut all = wanted.iter();
            all.any(|(spec, it)| it == peer && spec.password.is_some())
        };
        for peer in self.locked.iter().filter(|peer| !has_password(peer)) {
            troubles.extend(self.door.lock(*peer, None).err().map(BgpError::from));
        }
        self.locked.retain(has_password);
        for (spec, peer) in wanted {
            let guard = spec.guard();
            if guard.md5.is_some() {
                match self.door.lock(*peer, guard.md5) {
                    Ok(()) => self.locked.push(*peer),
                    Err(error) => troubles.push(error.into()),
                }
            }
            let is_sealed = self.sealed.iter().any(|(it, _)| it == peer);
            if let (Some(key), Some(kept), false) = (&guard.ao, &spec.tcp_ao, is_sealed) {
                match self.door.seal(*peer, key) {
                    Ok(()) => self.sealed.push((*peer, kept.clone())),
                    Err(error) => troubles.push(error),
                }
            }
        }
        self.locked.sort_unstable();
        self.locked.dedup();
        troubles
    }
}

/// Whether a neighbour at that address is to have that key.
fn is_wanted(specs: &[(&BgpSpec, Option<IpAddr>)], peer: IpAddr, key: &TcpAo) -> bool {
    let mut all = specs.iter();
    all.any(|(spec, it)| *it == Some(peer) && spec.tcp_ao.as_ref() == Some(key))
}

const RETRY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
