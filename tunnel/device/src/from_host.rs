//! Packets of the host, into the tunnel.

use std::io;

use kedge_net::{clock, tun::Tun};
use kedge_tunnel_proto::{
    noise::HEAD,
    shard::{ROOM, Shard},
};
use tracing::trace;

use crate::{network::Network, outbox::Outbox};

/// Takes what the host wants to send, seals it, and sends it, until there is no more or others must
/// have their turn.
///
/// # Errors
///
/// The interface is gone.
pub(crate) fn drain(
    tun: &Tun,
    shard: &mut Shard,
    outbox: &mut Outbox,
    network: &mut Network,
) -> io::Result<()> {
    let mut taken = 0;
    while taken < TURN {
        let slot = outbox.slot();
        let end = slot.len().saturating_sub(ROOM);
        let length = match slot.get_mut(HEAD..end).map(|packet| tun.read(packet)) {
            Some(Ok(length)) => length,
            Some(Err(err)) if Tun::is_gone(&err) => return Err(err),
            _ => break,
        };
        trace!(length, "from the host");
        taken += 1;
        let now = clock::now();
        if let Some(transmit) = shard.send(now, slot, length) {
            outbox.push(transmit);
        }
        if outbox.len() >= BATCH || outbox.is_full() {
            network.send(now, outbox, shard);
        }
    }
    network.send(clock::now(), outbox, shard);
    Ok(())
}

/// So many datagrams are sent before more is taken: as many as one system call takes.
const BATCH: usize = kedge_net::udp::LONGEST_RUN;

/// So many packets are taken before others have their turn.
const TURN: usize = 256;
