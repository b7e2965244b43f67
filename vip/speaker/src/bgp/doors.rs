//! Where neighbours call: a port for each family that any of them has.

use std::{net::IpAddr, time::Duration};

use kedge_core::{Coded as _, Instant, Problem};
use kedge_net::{
    bgp::{BgpError, Door},
    udp::Family,
};
use tokio::{net::TcpListener, sync::mpsc, task::AbortHandle};

use super::{BgpSpec, connection::Report};

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
    /// Whose calls need a key.
    locked: Vec<IpAddr>,
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
    pub(super) fn fit(&mut self, now: Instant, specs: &[&BgpSpec], reports: &mpsc::Sender<Report>) {
        self.troubles.clear();
        for family in [Family::V4, Family::V6] {
            let of_family = |spec: &&&BgpSpec| Family::of(spec.peer) == family;
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
            let locked = specs.iter().filter(|spec| spec.password.is_some());
            let locked = locked.filter(|spec| Family::of(spec.peer) == family);
            let wanted: Vec<IpAddr> = locked.clone().map(|spec| spec.peer).collect();
            let gone = it.locked.iter().filter(|peer| !wanted.contains(peer));
            let mut troubles = Vec::new();
            for peer in gone {
                troubles.extend(it.door.lock(*peer, None).err());
            }
            for spec in locked {
                troubles.extend(it.door.lock(spec.peer, spec.guard().md5).err());
            }
            it.locked = wanted;
            self.troubles
                .extend(troubles.into_iter().map(BgpError::from));
        }
        self.retry_at = (!self.troubles.is_empty()).then(|| now + RETRY);
    }

    /// What is wrong with them.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let consequence = "neighbours cannot call this host; it still calls them";
        let all = self.troubles.iter();
        all.map(|error| error.problem().consequence(consequence))
            .collect()
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
    })
}

const RETRY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
