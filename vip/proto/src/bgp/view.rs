//! What a session shows.

use std::{collections::BTreeMap, sync::Arc};

use kedge_core::{
    Instant,
    bgp::{Asn, RouterId, SessionState},
};

use super::{Agreed, Because, Path, Side};
use crate::wire::bgp::{Action, Capability, Fault, HoldTime, Notification, Prefix};

/// A session, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its state.
    pub state: SessionState,
    /// Since when.
    pub since: Instant,
    /// Why.
    pub because: Because,
    /// What the neighbour is, as far as it said so.
    pub peer: Option<Peer>,
    /// The last NOTIFICATION, and whether it was ours.
    pub notification: Option<(Side, Notification)>,
    /// What happened so far.
    pub counts: Counts,
    /// How many destinations it announces, where that is bounded.
    pub standing: Option<usize>,
    /// What it was told.
    pub told: BTreeMap<Prefix, Arc<Path>>,
    /// Of the offers, those it was not told of, as no address is there for packets to them.
    pub without_next_hop: Vec<Prefix>,
    /// When it is called next, or the session begins.
    pub next_at: Option<Instant>,
}

/// What a neighbour said it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its autonomous system.
    pub asn: Asn,
    /// Its name.
    pub router_id: RouterId,
    /// Its hold time.
    pub hold_time: HoldTime,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// What was agreed on.
    pub agreed: Agreed,
    /// Who made the connection.
    pub side: Side,
    /// The kinds of routes of which it said all: IPv4, IPv6.
    pub complete: [bool; 2],
}

/// What happened so far, over all sessions with a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// UPDATEs received.
    pub updates_in: u64,
    /// UPDATEs sent.
    pub updates_out: u64,
    /// NOTIFICATIONs received.
    pub notifications_in: u64,
    /// NOTIFICATIONs sent.
    pub notifications_out: u64,
    /// Routes announced to us.
    pub routes_announced: u64,
    /// Routes taken back from us.
    pub routes_withdrawn: u64,
    /// Routes announced to us that count as taken back.
    pub routes_refused: u64,
    /// How often the session was established.
    pub established: u64,
    /// How often it was lost.
    pub lost: u64,
    /// Attributes that were discarded, messages treated as withdrawn, sessions reset: for flaws of
    /// UPDATEs.
    pub flaws: [u64; 3],
    /// Requests to send our routes again.
    pub refreshes: u64,
}

impl Counts {
    pub(super) fn flawed(&mut self, fault: &Fault) {
        let [discarded, withdrawn, reset] = &mut self.flaws;
        let count = match fault.action {
            Action::AttributeDiscard => discarded,
            Action::TreatAsWithdraw => withdrawn,
            Action::SessionReset => reset,
        };
        *count = count.saturating_add(1);
    }
}
