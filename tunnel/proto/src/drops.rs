//! Why a packet was not carried.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $label:literal;)*) => {
        /// Why a packet was not carried; also the label of its counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
        }

        impl DropReason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The reason as the label of a metric.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

reasons! {
    /// A datagram that is no WireGuard message: unknown type, wrong length.
    Malformed = "malformed";
    /// A datagram or packet larger than the buffers.
    Oversized = "oversized";
    /// A handshake message whose mac1 is not for our key.
    BadMac = "bad_mac";
    /// Too many handshakes asked for from there, or by that peer, came to nothing or came at once.
    RateLimited = "rate_limited";
    /// Too many others wait for a handshake.
    HandshakeQueueFull = "handshake_queue_full";
    /// A handshake from a key that is no peer of ours.
    UnknownPeer = "unknown_peer";
    /// A message for a session or handshake we do not have.
    UnknownSession = "unknown_session";
    /// A message that does not decrypt.
    Forged = "forged";
    /// A data packet seen before, or too old to tell.
    Replayed = "replayed";
    /// A handshake older than the newest one of that peer.
    StaleHandshake = "stale_handshake";
    /// A handshake message that does not fit the state.
    UnexpectedHandshake = "unexpected_handshake";
    /// The inner packet is no IP packet, or shorter than it says.
    NotIp = "not_ip";
    /// The inner source address is not the peer's.
    SourceNotAllowed = "source_not_allowed";
    /// A gateway passed on a packet for a host that is at another gateway.
    PassedOnTwice = "passed_on_twice";
    /// No peer owns the inner destination.
    NoPeer = "no_peer";
    /// The peer's address is not known yet.
    NoEndpoint = "no_endpoint";
    /// Too many packets wait for the peer's handshake.
    BacklogFull = "backlog_full";
    /// The handshake that packets waited for was given up.
    Expired = "expired";
    /// The socket refused the datagram.
    SendFailed = "send_failed";
    /// It would have waited too long for the stream over TLS, or for the worker behind one.
    TlsQueueFull = "tls_queue_full";
    /// Too much waits for the worker that has the peer.
    WorkerQueueFull = "worker_queue_full";
    /// The TUN device refused the packet.
    DeliverFailed = "deliver_failed";
}

/// A counter for each reason. One thread writes, any thread reads. They are made for the first packet
/// that is not carried: of most peers there is none.
#[derive(Debug, Default)]
pub struct Drops(OnceLock<Box<[AtomicU64; DropReason::ALL.len()]>>);

impl Drops {
    /// Counts one.
    pub fn count(&self, reason: DropReason) {
        self.count_many(reason, 1);
    }

    /// Counts several.
    pub fn count_many(&self, reason: DropReason, many: u64) {
        // What is nothing makes no counters.
        if many == 0 {
            return;
        }
        if let Some(counter) = self.0.get_or_init(Box::default).get(reason as usize) {
            counter.fetch_add(many, Ordering::Relaxed);
        }
    }

    /// How many were dropped for `reason`.
    #[must_use]
    pub fn of(&self, reason: DropReason) -> u64 {
        let counters = self.0.get();
        counters
            .and_then(|counters| counters.get(reason as usize))
            .map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// The reasons that happened, with their counts.
    #[must_use]
    pub fn nonzero(&self) -> Vec<(DropReason, u64)> {
        let all = DropReason::ALL
            .iter()
            .map(|reason| (*reason, self.of(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_reason_has_its_own_counter_and_label() {
        let drops = Drops::default();
        for (position, reason) in DropReason::ALL.iter().enumerate() {
            drops.count_many(*reason, u64::try_from(position).unwrap() + 1);
        }
        let counts: BTreeSet<u64> = drops
            .nonzero()
            .into_iter()
            .map(|(_, count)| count)
            .collect();
        let labels: BTreeSet<&str> = DropReason::ALL
            .iter()
            .map(|reason| reason.label())
            .collect();
        assert_eq!(
            (counts.len(), labels.len()),
            (DropReason::ALL.len(), DropReason::ALL.len())
        );
    }
}
