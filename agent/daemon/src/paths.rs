//! The paths of the tunnel: BFD in each of them, and which one packets take.

use std::future::{Future, pending};

use kedge_net::clock;
use tokio::time::sleep;

use crate::{agent::Agent, tunnel::sessions};

impl Agent {
    /// Wants every BFD session: those of the configuration, and those that gateways are watched with.
    /// A name that both have is the configuration's.
    pub(crate) fn want_sessions(&mut self) {
        let mut wanted = self.live.config().bfd.clone();
        wanted.extend(self.announcing.neighbors.paths_found());
        let gateways = self.desired.tunnel.as_ref().map(sessions);
        for session in gateways.into_iter().flatten() {
            if wanted.iter().all(|known| known.name != session.name) {
                wanted.push(session);
            }
        }
        self.bfd.want(wanted);
    }

    /// Looks which gateway packets go through from here on.
    pub(crate) fn steer(&mut self) {
        if let Some(tunnel) = &mut self.tunnel {
            let levels = self.bfd.levels().borrow().clone();
            tunnel.steer(&levels);
            if let Some(epoch) = tunnel.new_epoch() {
                self.epochs.save(epoch);
            }
        }
    }

    /// Waits until a gateway has to be looked at though no session of BFD changed: something is due, or
    /// what lies behind a gateway begins or ceases to answer.
    pub(crate) fn path_is_due(&self) -> impl Future<Output = ()> + use<> {
        let tunnel = self.tunnel.as_ref();
        let (due, news) = (
            tunnel.and_then(|tunnel| tunnel.deadline()),
            tunnel.map(|tunnel| tunnel.news()),
        );
        let due = async move {
            match due {
                Some(due) => sleep(due.since(clock::now())).await,
                None => pending().await,
            }
        };
        let news = async move {
            match news {
                Some(news) => news.notified().await,
                None => pending().await,
            }
        };
        async move {
            tokio::select! {
                () = due => {}
                () = news => {}
            }
        }
    }
}
