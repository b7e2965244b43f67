//! The BFD sessions of this host: started with the first, told to people, left with the agent.

use std::{
    collections::BTreeMap,
    io,
    time::{Duration, Instant as Uptime},
};

use kedge_control::local::{BfdSession, BfdSessionList};
use kedge_core::{Code, Problem, bfd::Liveness};
use kedge_host::wall;
use kedge_net::{clock, holder};
use kedge_vip_speaker::bfd::{Bfd, BfdEvent, BfdSnapshot, BfdSpec, Levels, PORTS};
use tokio::sync::watch;
use tracing::{info, warn};

/// Every session, and what is known of them beside themselves.
pub(crate) struct Sessions {
    bfd: Bfd,
    /// Who has the ports that are taken.
    holders: BTreeMap<u16, String>,
    looked: Option<Uptime>,
    lost_events: u64,
}

impl Sessions {
    /// No session yet.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn new() -> Result<Self, Problem> {
        let refused = |error: io::Error| {
            Problem::new(Code::SysUnexpected, "BFD cannot be prepared").evidence(error.to_string())
        };
        Ok(Self {
            bfd: Bfd::new(true).map_err(refused)?,
            holders: BTreeMap::new(),
            looked: None,
            lost_events: 0,
        })
    }

    /// Makes `sessions` all there are. What did not change notices nothing.
    pub fn want(&mut self, sessions: Vec<BfdSpec>) {
        self.bfd.apply(sessions);
    }

    /// What each says, for whoever acts on it.
    pub fn levels(&self) -> watch::Receiver<Levels> {
        self.bfd.levels()
    }

    /// Waits for something to happen.
    pub async fn event(&mut self) -> BfdEvent {
        match self.bfd.event().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Looks after what no event tells.
    pub fn tend(&mut self) {
        let lost = self.bfd.lost_events();
        if lost != self.lost_events {
            warn!(
                lost = lost - self.lost_events,
                "changes of BFD sessions were not logged"
            );
            self.lost_events = lost;
        }
        let taken = |it: &BfdSnapshot| it.problems.iter().any(|it| it.code == Code::BfdPortInUse);
        if !self.bfd.snapshot().iter().any(taken) {
            (self.holders, self.looked) = (BTreeMap::new(), None);
        } else if self.looked.is_none_or(|at| at.elapsed() > LOOK) {
            self.looked = Some(Uptime::now());
            let found = |port| Some((port, holder::of_udp_port(port)?));
            self.holders = PORTS.into_iter().filter_map(found).collect();
        }
    }

    /// Every session as people see it.
    pub fn list(&self) -> BfdSessionList {
        let snapshot = self.bfd.snapshot();
        // What nobody has asked for yet is of no interest.
        let asked = |it: &&BfdSnapshot| !it.spec.on_request || it.view.remote.heard_at.is_some();
        let items = snapshot.iter().filter(asked);
        BfdSessionList {
            items: items.map(|it| self.describe(it)).collect(),
        }
    }

    /// Everything that is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        let snapshot = self.bfd.snapshot();
        let all = snapshot.iter().flat_map(|it| self.problems_of(it));
        self.bfd.problem().into_iter().chain(all).collect()
    }

    /// Tells every peer that this is no failure.
    pub async fn leave(mut self) {
        self.bfd.shutdown(LEAVE).await;
    }

    fn problems_of(&self, session: &BfdSnapshot) -> Vec<Problem> {
        let mut problems = session.problems.clone();
        for problem in &mut problems {
            if problem.code == Code::BfdPortInUse
                && let Some(holder) = self.holders.get(&session.spec.port())
            {
                problem.evidence.push(format!("it is that of {holder}"));
            }
        }
        problems
    }

    fn describe(&self, session: &BfdSnapshot) -> BfdSession {
        let since = wall::rfc3339_micros(session.since);
        BfdSession {
            problems: self.problems_of(session),
            ..session.tell(clock::now(), since)
        }
    }
}

/// Writes what happened into the log.
pub(crate) fn log(event: &BfdEvent) {
    let BfdEvent {
        name,
        from,
        to,
        liveness,
        because,
        ..
    } = event;
    let (session, from, to) = (name.as_str(), from.to_string(), to.to_string());
    match liveness {
        Liveness::Lost if from == "Up" => {
            warn!(session, from, to, because, "a BFD session lost its peer");
        }
        Liveness::Lost | Liveness::Unknown | Liveness::Alive => {
            info!(session, from, to, because, "a BFD session changed");
        }
    }
}

/// How often the processes of the host are searched for the one that has a port.
const LOOK: Duration = Duration::from_secs(60);
/// How long peers may take to answer a goodbye.
const LEAVE: Duration = Duration::from_millis(300);
