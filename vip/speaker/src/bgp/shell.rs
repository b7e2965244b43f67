//! The one thread: what is wanted, what connections report, and deadlines.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use kedge_core::{Instant, bfd::Liveness};
use kedge_vip_proto::bgp::Farewell;
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::{
    BgpEvent, Leave, Shown, Wanted,
    connection::{GOODBYE, Parting, Present, Report},
    doors::Doors,
    neighbour::{Means, Neighbour, now},
};

pub(super) struct Shell {
    wanted: watch::Receiver<Wanted>,
    shown: Arc<Shown>,
    tell: mpsc::Sender<BgpEvent>,
    report: mpsc::Sender<Report>,
    reports: mpsc::Receiver<Report>,
    present: Present,
    parting: Parting,
    doors: Doors,
    neighbours: Vec<Neighbour>,
    /// Those that are left: nobody sees them any more.
    leaving: Vec<Neighbour>,
    numbers: u64,
    /// Whether readers should see something at once, or counters when there is time.
    news: Option<bool>,
    published_at: Instant,
    ends: Option<(Instant, Leave)>,
}

impl Shell {
    pub(super) fn new(
        port: u16,
        wanted: watch::Receiver<Wanted>,
        shown: Arc<Shown>,
        tell: mpsc::Sender<BgpEvent>,
    ) -> Self {
        let (report, reports) = mpsc::channel(REPORTS);
        let (present, parting) = Present::new();
        Self {
            wanted,
            shown,
            tell,
            report,
            reports,
            present,
            parting,
            doors: Doors::new(port),
            neighbours: Vec::new(),
            leaving: Vec::new(),
            numbers: 0,
            news: None,
            published_at: Instant::ZERO,
            ends: None,
        }
    }

    pub(super) async fn run(mut self) {
        self.wanted.mark_changed();
        loop {
            let pause = self.deadline().map(|due| due.since(now()));
            tokio::select! {
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let wanted = self.wanted.borrow_and_update().clone();
                    self.obey(now(), wanted);
                }
                Some(report) = self.reports.recv() => self.take(now(), report),
                () = sleep(pause.unwrap_or(LONG)), if pause.is_some() => {}
            }
            self.timeouts(now());
            self.publish(now());
            if let Some((deadline, leave)) = self.is_over(now()) {
                return self.part(deadline, &leave).await;
            }
        }
    }

    /// The last word: whoever asked is told as soon as the kernel has all that was said, and every connection
    /// stays until the other side has closed it as well. Both are bounded.
    async fn part(self, deadline: Instant, leave: &Leave) {
        let Self {
            mut reports,
            mut parting,
            neighbours,
            leaving,
            present,
            doors,
            report,
            ..
        } = self;
        drop((neighbours, leaving, doors, present, report));
        // A task that reports something meanwhile is not to wait for it to be taken.
        let unheard = async { while reports.recv().await.is_some() {} };
        let part = async {
            // Who takes nothing is not waited for, by those who have other things to hand over.
            let _ = timeout(deadline.since(now()), parting.is_said()).await;
            leave.is_done();
            let _ = timeout(GOODBYE, parting.is_closed()).await;
        };
        tokio::select! {
            () = part => {}
            // Nobody is there any more to report anything.
            () = unheard => leave.is_done(),
        }
    }

    /// Brings the neighbours to what is wanted.
    fn obey(&mut self, now: Instant, wanted: Wanted) {
        self.news = Some(true);
        if let Some(leave) = wanted.leave {
            if self.ends.is_none() {
                let farewell = Farewell::Shutdown(leave.text.clone());
                let all = std::mem::take(&mut self.neighbours);
                self.leave(now, all, &farewell);
                self.ends = Some((now + leave.timeout, leave));
            }
            return;
        }
        let stays = |it: &Neighbour| {
            wanted
                .neighbours
                .iter()
                .any(|spec| spec.is_same_way(&it.spec))
        };
        let gone = self.neighbours.extract_if(.., |it| !stays(it));
        let gone: Vec<Neighbour> = gone.collect();
        self.leave(now, gone, &Farewell::Deconfigured);
        for spec in wanted.neighbours.iter() {
            let liveness = wanted.liveness.get(&spec.name).copied();
            let liveness = liveness.unwrap_or(Liveness::Unknown);
            let mut events = Vec::new();
            let mut means = Means {
                reports: &self.report,
                present: &self.present,
                numbers: &mut self.numbers,
                events: &mut events,
            };
            match self
                .neighbours
                .iter_mut()
                .find(|it| spec.is_same_way(&it.spec))
            {
                Some(known) => known.adjust(now, spec, &wanted.offers, liveness, &mut means),
                None => {
                    let offers = Arc::clone(&wanted.offers);
                    let mut one = Neighbour::new(now, spec.clone(), offers, seed(), &mut means);
                    one.adjust(now, spec, &wanted.offers, liveness, &mut means);
                    self.neighbours.push(one);
                }
            }
            self.pass_on(events);
        }
        self.neighbours
            .sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        self.fit_doors(now);
    }

    /// Has doors be as neighbours and what is known of them need it.
    fn fit_doors(&mut self, now: Instant) {
        let all = self.neighbours.iter();
        let specs: Vec<_> = all.map(|it| (&it.spec, it.peer())).collect();
        self.doors.fit(now, &specs, &self.report);
    }

    fn leave(&mut self, now: Instant, gone: Vec<Neighbour>, farewell: &Farewell) {
        for mut neighbour in gone {
            self.with(|means| neighbour.leave(now, farewell.clone(), means));
            if !neighbour.has_ended() {
                self.leaving.push(neighbour);
            }
        }
    }

    /// Does something to a neighbour that is in neither list.
    fn with(&mut self, act: impl FnOnce(&mut Means<'_>)) {
        let mut events = Vec::new();
        act(&mut Means {
            reports: &self.report,
            present: &self.present,
            numbers: &mut self.numbers,
            events: &mut events,
        });
        self.pass_on(events);
    }

    /// Does something to every neighbour that `meant` is true of.
    fn each(
        &mut self,
        meant: impl Fn(&Neighbour) -> bool,
        mut act: impl FnMut(&mut Neighbour, &mut Means<'_>),
    ) {
        let mut events = Vec::new();
        let mut means = Means {
            reports: &self.report,
            present: &self.present,
            numbers: &mut self.numbers,
            events: &mut events,
        };
        let all = self.neighbours.iter_mut().chain(&mut self.leaving);
        for neighbour in all.filter(|it| meant(it)) {
            act(neighbour, &mut means);
        }
        self.leaving.retain(|it| !it.has_ended());
        self.pass_on(events);
    }

    fn take(&mut self, now: Instant, report: Report) {
        self.news.get_or_insert(false);
        match report {
            Report::Called(stream, from) => {
                let mut stream: Option<TcpStream> = Some(stream);
                // A stranger's is closed as it is dropped, and nothing of it is read.
                let open = self.neighbours.iter().chain(&self.leaving).any(|it| {
                    it.is_from(&from) && self.doors.guard(&it.spec, from.ip().to_canonical())
                });
                let meant = |it: &Neighbour| open && it.is_from(&from);
                self.each(meant, |neighbour, means| {
                    if let Some(stream) = stream.take() {
                        neighbour.called(now, stream, means);
                    }
                });
            }
            Report::Dialed(number, outcome) => {
                let mut outcome = Some(outcome);
                self.each(
                    |it| it.calls(number),
                    |neighbour, means| {
                        if let Some(outcome) = outcome.take() {
                            neighbour.dialed(now, number, outcome, means);
                        }
                    },
                );
            }
            Report::Bytes(number, bytes) => self.of(number, |neighbour, side, means| {
                neighbour.bytes(now, side, &bytes, means);
            }),
            Report::Written(number, is_all) => self.of(number, |neighbour, side, means| {
                neighbour.written(now, side, is_all, means);
            }),
            Report::Router(number, from, message) => {
                let mut is_found = false;
                self.each(
                    |it| it.hears(number),
                    |neighbour, means| is_found |= neighbour.hear(now, from, message, means),
                );
                if is_found {
                    self.news = Some(true);
                    self.fit_doors(now);
                }
            }
            Report::Gone(number) => {
                self.of(number, |neighbour, side, means| {
                    neighbour.gone(now, side, means)
                });
            }
        }
    }

    /// Does something with the connection of that number, if it is there still.
    fn of(
        &mut self,
        number: u64,
        mut act: impl FnMut(&mut Neighbour, kedge_vip_proto::bgp::Side, &mut Means<'_>),
    ) {
        self.each(
            |it| it.side(number).is_some(),
            |neighbour, means| {
                if let Some(side) = neighbour.side(number) {
                    act(neighbour, side, means);
                }
            },
        );
    }

    fn timeouts(&mut self, now: Instant) {
        self.each(
            |it| it.deadline().is_some_and(|due| due <= now),
            |neighbour, means| neighbour.timeout(now, means),
        );
        if self.doors.retry_at.is_some_and(|due| due <= now) {
            self.fit_doors(now);
            self.news = Some(true);
        }
    }

    fn pass_on(&mut self, events: Vec<BgpEvent>) {
        for event in events {
            self.news = Some(true);
            // A reader that does not keep up sees the last state.
            let _ = self.tell.try_send(event);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let all = self.neighbours.iter().chain(&self.leaving);
        let all = all.filter_map(Neighbour::deadline);
        let ends = self.ends.as_ref().map(|(deadline, _)| *deadline);
        let shows = self.news.map(|_| self.published_at + REFRESH);
        all.chain([ends, shows, self.doors.retry_at].into_iter().flatten())
            .min()
    }

    /// Shows readers what is new; what happens all the time now and then.
    fn publish(&mut self, now: Instant) {
        let Some(at_once) = self.news else { return };
        if !at_once && now.since(self.published_at) < REFRESH {
            return;
        }
        let is_unsettled = self.neighbours.iter().any(Neighbour::is_unsettled);
        // Whether something is wrong may be a question of time alone.
        self.news = is_unsettled.then_some(false);
        self.published_at = now;
        let all = self.neighbours.iter().map(|it| it.snapshot(now));
        self.shown.neighbours.store(Arc::new(all.collect()));
        let found = self.neighbours.iter().filter(|it| it.spec.peer.is_none());
        let found = found.filter_map(|it| Some((it.spec.name.clone(), it.peer()?)));
        let found: BTreeMap<_, _> = found.collect();
        self.shown.found.send_if_modified(|before| {
            let is_new = *before != found;
            *before = found;
            is_new
        });
        self.shown.problems.store(Arc::new(self.doors.problems()));
    }

    /// Whether nothing is left to be done but to part, and until when.
    fn is_over(&mut self, now: Instant) -> Option<(Instant, Leave)> {
        let (deadline, _) = self.ends.as_ref()?;
        let is_over = self.leaving.is_empty() || *deadline <= now;
        self.ends.take_if(|_| is_over)
    }
}

/// A number nobody else has: the keys of the standard library's hasher are random, and each call
/// has new ones.
fn seed() -> u64 {
    RandomState::new().hash_one("bgp")
}

/// Reports that wait; more than that, and connections are not read.
const REPORTS: usize = 256;
/// How old counters may be while messages come.
const REFRESH: Duration = Duration::from_millis(900);
const LONG: Duration = Duration::from_secs(3_600);
