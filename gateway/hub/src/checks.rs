//! One check for each host, where there are too many back ends to check each of them as often.
//!
//! That a host's tunnel lives says nothing of what it serves. Envoy finds that out, back end by back end and cluster by
//! cluster; where that is too much, this does, host by host, and Envoy looks less often.

mod machine;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kedge_control::frontend::Offer;
use kedge_net::netns::within;
use tokio::{net::TcpSocket, sync::Semaphore, task::JoinSet, time::timeout};
use tracing::info;

use crate::{
    hub::Hub,
    tenants::{path_of, peers},
};
use machine::{Answer, Machine};

/// What hosts are asked.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    machine: Machine,
    /// One round at a time.
    rounds: JoinSet<Vec<Answer>>,
}

/// Whom to ask, where, and from which network namespace.
type Ask = (String, SocketAddr, Option<PathBuf>);

impl Checks {
    /// The answers of a round; `None` while none is under way. Cancelling loses nothing.
    pub async fn round(&mut self) -> Option<Vec<Answer>> {
        self.rounds.join_next().await?.ok()
    }
}

impl Hub {
    /// Has everything served that there is to serve.
    pub fn serve(&mut self) {
        let offer = self.offer();
        // The built-in proxy refuses to check anything.
        let changed = if self.plane.checks() {
            self.checks.machine.want(&offer)
        } else {
            self.checks.machine.want(&Offer::default())
        };
        self.plane.relax(self.checks.machine.is_relaxed());
        self.plane.apply(offer);
        for host in changed {
            self.tell_host(&host);
        }
    }

    /// What is due about once a second: all hosts that are there are asked.
    pub fn ask_hosts(&mut self) {
        if !self.checks.rounds.is_empty() {
            return;
        }
        let inside: BTreeMap<&str, &Path> = peers(&self.plan)
            .iter()
            .filter_map(|peer| Some((peer.name.as_str(), path_of(&self.plan, peer.realm)?)))
            .collect();
        let asked = self.checks.machine.asked();
        let asked = asked.filter(|(host, _)| self.hosts.get(host).is_some_and(|host| host.alive));
        let asked = asked.map(|(host, at)| {
            let inside = inside.get(host.as_str()).map(|path| path.to_path_buf());
            (host.clone(), at, inside)
        });
        let asked: Vec<Ask> = asked.collect();
        if !asked.is_empty() {
            self.checks.rounds.spawn(ask(asked));
        }
    }

    /// Takes what hosts answered.
    pub fn hear_hosts(&mut self, round: Vec<Answer>) {
        for host in self.checks.machine.hear(round) {
            let (to, because) = match self.checks.machine.is_down(&host) {
                true => ("down", SILENT),
                false => ("up", "it answers, or no host does"),
            };
            info!(host, to, because, "host");
            self.tell_host(&host);
        }
    }

    /// Tells the data plane of a host: it gets connections if its tunnel lives and it answers.
    pub fn tell_host(&mut self, name: &str) {
        let Some(host) = self.hosts.get(name) else {
            return;
        };
        let is_silent = host.alive && self.checks.machine.is_down(name);
        let because = if is_silent { SILENT } else { &host.because };
        self.plane.alive(name, host.alive && !is_silent, because);
    }
}

async fn ask(asked: Vec<Ask>) -> Vec<Answer> {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut asking = JoinSet::new();
    for (host, at, inside) in asked {
        let room = Arc::clone(&room);
        asking.spawn(async move {
            let _place = room.acquire().await;
            let answered = answers(at, inside.as_deref()).await?;
            Some(Answer { host, at, answered })
        });
    }
    let mut answers = Vec::new();
    while let Some(asked) = asking.join_next().await {
        answers.extend(asked.ok().flatten());
    }
    answers
}

/// Whether it takes a connection; `None` where that could not be found out here.
async fn answers(at: SocketAddr, inside: Option<&Path>) -> Option<bool> {
    let make = match at {
        SocketAddr::V4(_) => TcpSocket::new_v4,
        SocketAddr::V6(_) => TcpSocket::new_v6,
    };
    let socket = within(inside, make).ok()?;
    match timeout(LIMIT, socket.connect(at)).await {
        Ok(Ok(open)) => {
            // It is closed at once, and nothing of it is kept by the kernel.
            let _ = open.set_zero_linger();
            Some(true)
        }
        Ok(Err(error)) => is_its(error.kind()).then_some(false),
        Err(_) => Some(false),
    }
}

/// Whether an error is the host's: for want of a port or of room none of them is down.
const fn is_its(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::TimedOut
    )
}

/// How long a host may take: it is asked again a second later.
const LIMIT: Duration = Duration::from_millis(800);
/// How many are asked at a time: their answers are there before the next are asked, where hosts are near.
const AT_ONCE: usize = 256;
/// Why a host gets nothing though its tunnel lives.
const SILENT: &str = "its tunnel lives, and no port that stands for it answers";
