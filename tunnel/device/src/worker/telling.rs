//! What a worker says of its peers, and by which names.

use std::net::SocketAddr;

use kedge_tunnel_proto::{
    directory::{Change, PeerId},
    other,
    shard::{Event, EventKind},
};
use tracing::{field::display, info};

use super::Worker;
use crate::offload::Part;

impl Worker {
    pub(super) fn tell(&mut self) {
        if let Some(gso) = self.network.changed() {
            let refused = match gso {
                Part::OnBut(destinations) => destinations,
                Part::On | Part::Off(_) => 0,
            };
            self.offload.refused(self.number, refused);
        }
        while let Some(Event { peer, change }) = self.shard.poll_event() {
            let peer = self.name(peer);
            match change {
                EventKind::State { from, to } => {
                    info!(peer, ?from, ?to, because = "handshake", "tunnel session");
                }
                EventKind::Keys { to } => {
                    let (ours, its) = (to.local, to.remote);
                    info!(peer, %ours, %its, because = "a newer session", "tunnel keys");
                }
                EventKind::Doubted => {
                    let because = "handshakes older than one before, again and again";
                    info!(peer, because, "the clock of a tunnel peer went back");
                }
                EventKind::Moved { from, to } => {
                    let shown = |place: Option<SocketAddr>| place.map(other::address).map(display);
                    let (from, to) = (shown(from), shown(to));
                    info!(
                        peer,
                        from,
                        to,
                        because = "authenticated data",
                        "tunnel endpoint"
                    );
                }
            }
        }
    }

    pub(super) fn rename(&mut self, change: &Change) {
        for id in &change.remove {
            self.names.remove(id);
        }
        let updated = change.update.iter().map(|update| &update.entry);
        for entry in change.add.iter().chain(updated) {
            let name = &entry.spec.name;
            if !name.is_empty() && *name != entry.spec.public_key.to_string() {
                self.names.insert(entry.id, name.clone());
            } else {
                self.names.remove(&entry.id);
            }
        }
    }

    pub(super) fn name(&self, peer: PeerId) -> String {
        let named = self.names.get(&peer).cloned();
        let key = || Some(self.shard.public_key(peer)?.to_string());
        named.or_else(key).unwrap_or_else(|| "?".to_owned())
    }
}
