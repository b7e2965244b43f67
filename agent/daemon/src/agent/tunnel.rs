//! The agent's tunnel, as it is planned, and the names that are asked about through it.

use kedge_host::link::Link;
use kedge_tunnel_proto::memory::Memory;
use tracing::info;

use super::{Agent, EPOCH, TUNNEL_PEERS, goes_on_without};
use crate::tunnel::{Proxy, Tunnel};

impl Agent {
    /// Wants the tunnel as it is planned. A host that has none needs no key either.
    pub(super) fn want_tunnel(&mut self) {
        self.key_problem = None;
        let kind = self.live.config().tunnel.data_plane.kind();
        if let Some(mut other) = self.tunnel.take_if(|tunnel| tunnel.kind != kind) {
            info!(from = %other.kind, to = %kind, because = "configured", "the tunnel's data plane changes");
            other.close();
            if let Some(memory) = other.learned() {
                self.tunnel_peers.save(memory.clone());
            }
        }
        if self.tunnel.is_none() && self.desired.tunnel.is_some() {
            match self.tunnel_keys() {
                Ok((key, next)) => {
                    let memory = self.store.load::<Memory>(TUNNEL_PEERS);
                    self.standing.extend(memory.problems);
                    let memory = memory.value.unwrap_or_default();
                    let mut tunnel = Tunnel::new(kind, key.clone(), memory);
                    tunnel.set_keys(key, next);
                    tunnel.resume(self.store.load(EPOCH).value.unwrap_or_default());
                    self.tunnel = Some(tunnel);
                }
                Err(problem) => {
                    goes_on_without(&problem);
                    self.key_problem = Some(problem);
                }
            }
        }
        if let Some(tunnel) = &mut self.tunnel {
            let proxy = Proxy::of(&self.live.config().tunnel, self.live.root());
            tunnel.show(self.link.as_ref().map(Link::client), proxy);
            tunnel.want(self.desired.tunnel.clone());
        }
        self.want_dns();
    }

    /// Says whether a gateway answers through the tunnel to whoever stands in for it.
    pub(super) fn watch_tunnel(&mut self) {
        let tunnel = self.tunnel.as_ref();
        let answers = tunnel.is_some_and(|tunnel| tunnel.report().gateway.is_some());
        self.shortcuts.tunnel(answers);
    }

    /// Wants the tunnel's names asked about through its link, while that is there.
    pub(super) fn want_dns(&mut self) {
        let tunnel = &self.live.config().tunnel;
        let link = self.tunnel.as_ref().and_then(|_| {
            let mut links = self.facts.links.iter();
            links.find(|link| link.name == tunnel.interface)
        });
        self.dns
            .want(link.map(|link| link.index), tunnel.dns.as_ref());
    }
}
