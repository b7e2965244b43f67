//! The one thread: sockets first, then deadlines, then readers.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    io,
    sync::Arc,
    time::Duration,
};

use kedge_core::Instant;
use kedge_net::{bfd::Arrival, clock, sched, wait::Waiter};
use kedge_vip_proto::wire::bfd::{Control, Discriminator};
use tokio::sync::{mpsc, oneshot};

use super::{
    BfdEvent, BfdSpec, Leave, Levels, Shared,
    demux::{Door, Doors, Place},
    due::Due,
    instance::{Instance, Outcome, Snapshots},
    pace::Pace,
};

#[derive(Debug)]
pub(super) struct Shell {
    shared: Arc<Shared>,
    tell: mpsc::Sender<BfdEvent>,
    real_time: bool,
    waiter: Waiter,
    doors: Doors,
    sessions: Vec<Instance>,
    due: Due,
    /// Those that tell their peers that they leave.
    leaving: Vec<Instance>,
    pace: Pace,
    /// When sockets that could not be opened are tried again.
    retry_at: Option<Instant>,
    /// Whether readers should see a change at once, or counters when there is time.
    news: Option<bool>,
    published_at: Instant,
    ends: Option<(Instant, Vec<oneshot::Sender<()>>)>,
}

impl Shell {
    pub(super) fn new(
        shared: Arc<Shared>,
        tell: mpsc::Sender<BfdEvent>,
        real_time: bool,
    ) -> io::Result<Self> {
        let waiter = Waiter::new()?;
        waiter.add(&shared.bell, BELL)?;
        Ok(Self {
            shared,
            tell,
            real_time,
            waiter,
            doors: Doors::default(),
            sessions: Vec::new(),
            due: Due::default(),
            leaving: Vec::new(),
            pace: Pace::new(real_time),
            retry_at: None,
            news: None,
            published_at: Instant::ZERO,
            ends: None,
        })
    }

    pub(super) fn run(mut self) {
        if self.real_time {
            // Without it intervals below 50 ms are not kept, which says why.
            let _ = sched::real_time(sched::VRRP_PRIORITY);
        }
        loop {
            let Ok(ready) = self.waiter.wait_until(self.next_deadline()) else {
                return;
            };
            let [bell, sockets] = [BELL, SOCKETS].map(|key| ready.contains(&key));
            // What waited in the sockets counts before any deadline does: after a stall the
            // packets are there, and only the clock says that they are late.
            let now = clock::now();
            if sockets {
                self.take_packets(now);
            }
            if bell {
                self.shared.bell.silence();
                self.obey(now);
            }
            self.timeouts(clock::now());
            let now = clock::now();
            self.publish(now);
            if self.is_over(now) {
                return;
            }
        }
    }

    fn take_packets(&mut self, now: Instant) {
        for index in 0..self.doors.0.len() {
            let Some(place) = self.doors.0.get(index).map(Door::place) else {
                break;
            };
            // So that a flood cannot stop our own packets.
            for _ in 0..AT_ONCE {
                let mut buffer = [0; BUFFER];
                let Some(door) = self.doors.0.get(index) else {
                    break;
                };
                let Some(socket) = &door.socket else { break };
                let Ok(Some(arrival)) = socket.receive(&mut buffer) else {
                    break;
                };
                let bytes = buffer.get(..arrival.length).unwrap_or(&buffer);
                self.take_packet(now, &place, &arrival, bytes);
            }
        }
    }

    fn take_packet(&mut self, now: Instant, door: &Place, arrival: &Arrival, bytes: &[u8]) {
        let all = |it: &Instance| it.is_meant(arrival, door);
        let packet = match Control::parse(bytes) {
            Ok(packet) => packet,
            Err(malformed) => {
                if let Some(session) = self.sessions.iter_mut().find(|it| all(it)) {
                    session.count(malformed.label());
                    self.news.get_or_insert(false);
                }
                return;
            }
        };
        let place = match packet.control.your {
            // A number is not enough: whoever guesses it is somebody else still.
            Some(your) => self.due.place(your).filter(|at| {
                let session = self.sessions.get(*at);
                session.is_some_and(|it| it.local() == your && all(it))
            }),
            None => self.sessions.iter().position(all),
        };
        let is_left = |it: &Instance| {
            let your = packet.control.your;
            your.is_none_or(|your| it.local() == your) && all(it)
        };
        let found = match place {
            Some(at) => self.sessions.get_mut(at),
            None => self.leaving.iter_mut().find(|it| is_left(it)),
        };
        match found {
            Some(session) => {
                let left = session.peer_leaves();
                let outcome = session.take(now, arrival, &packet);
                if session.peer_leaves() == left {
                    self.news.get_or_insert(false);
                } else {
                    // No event tells it where the session was not up.
                    self.news = Some(true);
                }
                if let Some(at) = place {
                    self.due.note(at, session);
                }
                self.settle(now, outcome);
            }
            None => {
                if let Some(session) = self.sessions.iter_mut().find(|it| all(it)) {
                    session.count("other_session");
                    self.news.get_or_insert(false);
                }
            }
        }
    }

    /// Brings the sessions to what is wanted.
    fn obey(&mut self, now: Instant) {
        if let Some(wanted) = self.shared.desired.swap(None) {
            self.apply(now, &wanted);
        }
        if self.pace.has_news() {
            for index in 0..self.sessions.len() {
                self.repace(now, index);
            }
            self.news = Some(true);
        }
        let leave = self.shared.leaving().take();
        if let Some(Leave { timeout, done }) = leave {
            self.apply(now, &[]);
            let (deadline, waiting) = self.ends.get_or_insert_with(|| (now + timeout, Vec::new()));
            *deadline = (*deadline).min(now + timeout);
            waiting.extend(done);
        }
    }

    fn apply(&mut self, now: Instant, wanted: &[BfdSpec]) {
        let stays = |it: &Instance| wanted.iter().any(|spec| spec.is_same_session(&it.spec));
        let gone = self.sessions.extract_if(.., |it| !stays(it));
        let gone: Vec<Instance> = gone.collect();
        for mut session in gone {
            if !session.stop(now).ended {
                self.leaving.push(session);
            }
        }
        for spec in wanted {
            let known = self
                .sessions
                .iter()
                .position(|it| spec.is_same_session(&it.spec));
            match known {
                Some(index) => {
                    if let Some(session) = self.sessions.get_mut(index) {
                        session.spec = spec.clone();
                    }
                    self.repace(now, index);
                }
                None => self.begin(now, spec),
            }
        }
        self.sessions.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        self.open(now);
        self.news = Some(true);
    }

    fn begin(&mut self, now: Instant, spec: &BfdSpec) {
        let config = self.pace.paced(&self.shared, spec.config);
        let session = Instance::new(now, spec.clone(), config, self.discriminator(), seed());
        self.sessions.push(session);
    }

    fn repace(&mut self, now: Instant, index: usize) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let config = self.pace.paced(&self.shared, session.spec.config);
        let outcome = session.configure(now, config);
        self.due.note(index, session);
        self.settle(now, outcome);
    }

    /// One that no session here has.
    fn discriminator(&self) -> Discriminator {
        loop {
            let [a, b, c, d, ..] = seed().to_be_bytes();
            let drawn = Discriminator::new(u32::from_be_bytes([a, b, c, d]));
            let all = || self.sessions.iter().chain(&self.leaving);
            if let Some(drawn) = drawn.filter(|drawn| all().all(|it| it.local() != *drawn)) {
                return drawn;
            }
        }
    }

    /// Opens the sockets that are missing, and comes back for those that cannot be opened.
    fn open(&mut self, now: Instant) {
        let all = self.sessions.iter().chain(&self.leaving);
        let specs = all.map(|it| &it.spec);
        self.doors.fit(specs, &self.waiter, SOCKETS);
        for session in &mut self.sessions {
            let trouble = self.doors.trouble(&session.spec);
            session.open(trouble);
        }
        let missing = self.sessions.iter().any(|it| !it.has_socket());
        self.retry_at = missing.then(|| now + RETRY);
        self.due.learn(&self.sessions);
    }

    fn timeouts(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|due| due <= now) {
            self.open(now);
            self.news = Some(true);
        }
        let mut from = 0;
        while let Some(index) = self.due.next_ready(from, now) {
            from = index + 1;
            let Some(session) = self.sessions.get_mut(index) else {
                break;
            };
            let outcome = session.timeout(now);
            self.due.note(index, session);
            self.news.get_or_insert(false);
            self.settle(now, outcome);
        }
        for session in &mut self.leaving {
            // What it says of itself concerns nobody any more.
            let _ = session.timeout(now);
        }
        if self.next_notice().is_some_and(|due| due <= now) {
            self.news = Some(true);
        }
        let before = self.leaving.len();
        self.leaving.retain(|it| it.deadline().is_some());
        if before != self.leaving.len() {
            self.open(now);
        }
    }

    fn settle(&mut self, now: Instant, outcome: Outcome) {
        if outcome.broken && self.retry_at.is_none() {
            self.retry_at = Some(now + RETRY);
        }
        for event in outcome.events {
            self.news = Some(true);
            if self.tell.try_send(event).is_err() {
                let lost = &self.shared.lost_events;
                lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let leaving = self.leaving.iter().filter_map(Instance::deadline);
        let deadlines = leaving.chain(self.due.wakes());
        let ends = self.ends.as_ref().map(|(deadline, _)| *deadline);
        let others = [self.retry_at, ends, self.next_notice()];
        deadlines.chain(others.into_iter().flatten()).min()
    }

    /// When something becomes worth telling that nothing else tells.
    fn next_notice(&self) -> Option<Instant> {
        self.due.notice(self.published_at)
    }

    /// Shows readers what is new; what happens all the time now and then.
    fn publish(&mut self, now: Instant) {
        let at_once = match self.news {
            None => return,
            Some(at_once) => at_once,
        };
        if !at_once && now.since(self.published_at) < REFRESH {
            return;
        }
        self.news = None;
        self.published_at = now;
        let all = self.sessions.iter();
        let snapshots: Snapshots = Arc::new(all.map(|it| it.snapshot(now, &self.pace)).collect());
        self.shared.snapshot.store(snapshots);
        if at_once {
            let all = self.sessions.iter();
            let levels: BTreeMap<_, _> = all.map(|it| (it.spec.name.clone(), it.level())).collect();
            self.shared.levels.send_if_modified(|before: &mut Levels| {
                let changed = **before != levels;
                if changed {
                    *before = Arc::new(levels);
                }
                changed
            });
        }
    }

    fn is_over(&mut self, now: Instant) -> bool {
        let is_over = |deadline: Instant| self.leaving.is_empty() || deadline <= now;
        if self
            .ends
            .as_ref()
            .is_none_or(|(deadline, _)| !is_over(*deadline))
        {
            return false;
        }
        for done in self
            .ends
            .take()
            .into_iter()
            .flat_map(|(_, waiting)| waiting)
        {
            // Whoever asked may be gone.
            let _ = done.send(());
        }
        true
    }
}

/// A number nobody else has: the keys of the standard library's hasher are random, and each call
/// has new ones.
fn seed() -> u64 {
    RandomState::new().hash_one("bfd")
}

const BELL: u64 = 0;
const SOCKETS: u64 = 1;

/// Longer than any packet with authentication; what is longer is cut, and then too short.
const BUFFER: usize = 256;
/// Packets of one socket in one go.
const AT_ONCE: usize = 256;
const RETRY: Duration = Duration::from_secs(1);
/// How old counters may be while packets come.
const REFRESH: Duration = Duration::from_millis(900);
