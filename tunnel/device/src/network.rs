//! The sockets' side of the worker: runs of datagrams out, one system call each, and one by one
//! where a destination takes no runs.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use kedge_core::Instant;
use kedge_net::udp::{Family, Form, Inbox, LONGEST_RUN, Sockets, refuses_segments, refuses_source};
use kedge_tunnel_proto::{
    drops::DropReason,
    fallback::is_lane,
    other::{address, by_other, is_by_other},
    shard::{Shard, Transmit},
};
use tracing::{debug, info, trace};

use crate::{
    lanes::Lanes,
    offload::Part,
    outbox::{Outbox, Run},
};

/// The sockets, and what is known of the way to others.
#[derive(Debug)]
pub(crate) struct Network {
    sockets: Arc<Sockets>,
    /// Where initiations come, if that is not where the rest does.
    door: Option<Arc<Sockets>>,
    other: Option<Port>,
    lanes: Arc<Lanes>,
    /// Whether datagrams are sent in runs, as it was told last.
    gso: Part,
    refusals: Vec<Refusal>,
}

/// The sockets of a port that one worker looks after.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) sockets: Arc<Sockets>,
    /// Where initiations come, if that is not where the rest does.
    pub(crate) door: Option<Arc<Sockets>>,
}

/// Which sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The worker's own, from which it sends.
    Own,
    /// Those where initiations come.
    Door,
    /// The same of the other port.
    Other,
    /// The same.
    OtherDoor,
}

impl At {
    /// The place that stands for where a datagram came from.
    pub(crate) fn place(self, from: SocketAddr) -> SocketAddr {
        match self {
            Self::Own | Self::Door => from,
            Self::Other | Self::OtherDoor => by_other(from),
        }
    }
}

/// A destination that takes no runs.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    to: IpAddr,
    until: Instant,
}

impl Network {
    pub(crate) fn new(sockets: Arc<Sockets>, lanes: Arc<Lanes>, gso: Part) -> Self {
        Self {
            sockets,
            door: None,
            other: None,
            lanes,
            gso,
            refusals: Vec::with_capacity(REFUSALS),
        }
    }

    /// Hears initiations at a door of their own.
    pub(crate) fn with_door(self, door: Option<Arc<Sockets>>) -> Self {
        Self { door, ..self }
    }

    /// Has another port, too.
    pub(crate) fn with_other(self, other: Option<Port>) -> Self {
        Self { other, ..self }
    }

    pub(crate) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// The sockets there, if there are any.
    pub(crate) fn heard_at(&self, at: At) -> Option<&Sockets> {
        let sockets = match at {
            At::Own => Some(&self.sockets),
            At::Door => self.door.as_ref(),
            At::Other => self.other.as_ref().map(|other| &other.sockets),
            At::OtherDoor => self.other.as_ref().and_then(|other| other.door.as_ref()),
        };
        sockets.map(|sockets| &**sockets)
    }

    /// Whether datagrams are sent in runs, if that changed since the last call.
    pub(crate) fn changed(&mut self) -> Option<Part> {
        let gso = match (self.gso, self.refusals.len()) {
            (off @ Part::Off(_), _) => off,
            (_, 0) => Part::On,
            (_, many) => Part::OnBut(many),
        };
        (gso != self.gso).then(|| {
            self.gso = gso;
            gso
        })
    }

    /// Takes what waits into `inbox`; nothing is none.
    pub(crate) fn receive(&self, at: At, family: Family, inbox: &mut Inbox) {
        let Some(sockets) = self.heard_at(at) else {
            inbox.clear();
            return;
        };
        for _ in 0..PENDING_ERRORS {
            match inbox.fill(sockets, family) {
                // What became of an earlier datagram is told once, in place of those that wait.
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    trace!(error = &error as &dyn std::error::Error, "while receiving");
                }
                _ => return,
            }
        }
    }

    /// Sends all that is in `outbox`, which is empty then. What the kernel refuses is counted.
    pub(crate) fn send(&mut self, now: Instant, outbox: &mut Outbox, shard: &mut Shard) {
        for run in outbox.runs() {
            if is_lane(run.to) {
                self.send_in_stream(now, outbox, &run, shard);
                continue;
            }
            if run.count > 1 && self.takes_runs(now, run.to) {
                match self.send_run(outbox, &run, shard) {
                    Ok(()) => continue,
                    Err(error) if refuses_segments(&error) => {
                        if self.send_each(outbox, &run, shard) {
                            self.refused(now, run.to, &error);
                        }
                        continue;
                    }
                    Err(error) => {
                        lost(&run, run.count, &error, shard);
                        continue;
                    }
                }
            }
            self.send_each(outbox, &run, shard);
        }
        outbox.clear();
    }

    /// Sends one datagram in one piece. What becomes of it only its answer says: larger than the first
    /// link takes, it is lost like any other.
    pub(crate) fn send_whole(&self, now: Instant, transmit: &Transmit, datagram: &[u8]) {
        let Transmit { to, from, .. } = *transmit;
        if is_lane(to) {
            self.lanes.send(now, to, std::iter::once(datagram));
            return;
        }
        let (sockets, to) = self.way_to(to);
        if let Err(error) = sockets.send_whole(to, from, datagram) {
            let error = &error as &dyn std::error::Error;
            trace!(%to, error, length = datagram.len(), "not sent in one piece");
        }
    }

    /// Tries runs again wherever they were refused.
    pub(crate) fn forget_refusals(&mut self) {
        self.refusals.clear();
    }

    /// Nobody waits for a stream: what it does not take in time is dropped, and counted.
    fn send_in_stream(&self, now: Instant, outbox: &Outbox, run: &Run, shard: &mut Shard) {
        match self.lanes.send(now, run.to, outbox.datagrams(run)) {
            Some(0) => {}
            Some(dropped) => shard.count(run.peer, DropReason::TlsQueueFull, dropped),
            None => shard.count(run.peer, DropReason::SendFailed, u64::from(run.count)),
        }
    }

    fn send_run(&self, outbox: &Outbox, run: &Run, shard: &mut Shard) -> io::Result<()> {
        let mut parts = [IoSlice::new(&[]); LONGEST_RUN];
        let mut count = 0;
        for (part, piece) in parts.iter_mut().zip(outbox.pieces(run)) {
            *part = IoSlice::new(piece);
            count += 1;
        }
        let parts = parts.get(..count).unwrap_or_default();
        let size = u16::try_from(run.size).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.send_from(run, parts, Some(size), shard)
    }

    /// Whether at least one of them was taken.
    fn send_each(&self, outbox: &Outbox, run: &Run, shard: &mut Shard) -> bool {
        let mut any = false;
        for datagram in outbox.datagrams(run) {
            match self.send_from(run, &[IoSlice::new(datagram)], None, shard) {
                Ok(()) => any = true,
                Err(error) => lost(run, 1, &error, shard),
            }
        }
        any
    }

    /// Sends from the address that the peer called, and where that is none of ours any more from
    /// whichever leads there.
    fn send_from(
        &self,
        run: &Run,
        parts: &[IoSlice<'_>],
        segment: Option<u16>,
        shard: &mut Shard,
    ) -> io::Result<()> {
        let form = Form {
            segment,
            traffic_class: run.ecn.bits(),
        };
        let (sockets, to) = self.way_to(run.to);
        let sent = sockets.send(to, run.from, parts, form);
        let (Err(_), Some(from)) = (&sent, run.from) else {
            return sent;
        };
        if !sent.as_ref().is_err_and(refuses_source) {
            return sent;
        }
        sockets.send(to, None, parts, form)?;
        if let Some(peer) = run.peer {
            debug!(
                because = "the address that it called is gone",
                "a tunnel peer hears from another one"
            );
            trace!(to = %run.to, %from, "the address before");
            shard.lost_address(peer, from);
        }
        Ok(())
    }

    /// From which sockets a place is reached, and its address.
    fn way_to(&self, place: SocketAddr) -> (&Sockets, SocketAddr) {
        let other = self.other.as_ref().filter(|_| is_by_other(place));
        let sockets = other.map_or(&self.sockets, |other| &other.sockets);
        (sockets, address(place))
    }

    fn takes_runs(&mut self, now: Instant, to: SocketAddr) -> bool {
        if !self.gso.is_on() {
            return false;
        }
        if self.refusals.is_empty() {
            return true;
        }
        self.refusals.retain(|refusal| refusal.until > now);
        let to = address(to).ip();
        self.refusals.iter().all(|refusal| refusal.to != to)
    }

    /// The route's interface cannot send runs, or the tunnel's packets are larger than its MTU.
    fn refused(&mut self, now: Instant, to: SocketAddr, error: &io::Error) {
        let error = error as &dyn std::error::Error;
        info!(
            error,
            from = "runs",
            to = "single datagrams",
            because = "the kernel takes no runs for this destination",
            "tunnel offload"
        );
        trace!(%to, "no runs");
        if self.refusals.len() >= REFUSALS {
            self.refusals.remove(0);
        }
        self.refusals.push(Refusal {
            to: address(to).ip(),
            until: now + ANOTHER_TRY,
        });
    }
}

fn lost(run: &Run, count: u16, error: &io::Error, shard: &mut Shard) {
    let error = error as &dyn std::error::Error;
    trace!(to = %run.to, error, count, "the network refused a datagram");
    shard.count(run.peer, DropReason::SendFailed, u64::from(count));
}

/// Destinations that may be known to take no runs; of more the first is forgotten.
const REFUSALS: usize = 64;

/// Routes and their MTU change.
const ANOTHER_TRY: Duration = Duration::from_mins(10);

/// Errors of earlier datagrams that are passed over in one turn.
const PENDING_ERRORS: usize = 16;
