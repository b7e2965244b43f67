//! One task that asks all peers of a device what their ways carry.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kedge_core::{Instant, Machine as _};
use kedge_net::clock;
use kedge_tunnel_proto::{
    echo::{LENGTH, Message, PORT},
    pmtu::{Config, Discovery, Input, Output, Question, Report},
};
use tokio::{
    net::UdpSocket,
    sync::{Notify, mpsc, watch},
    task::{AbortHandle, JoinSet},
};
use tracing::{debug, trace};

use crate::{
    Handle,
    echo::{bind, socket_failed},
    seed::seed,
};

/// What is to be known of a peer, and what of it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) ends: (IpAddr, IpAddr),
    /// Another one is another way.
    pub(super) endpoint: SocketAddr,
    pub(super) most: u16,
    pub(super) start: u16,
    /// How often its way began another way: what was known of it says nothing then.
    pub(super) turns: u64,
    /// Bytes sent to it so far.
    pub(super) sent: u64,
}

/// The task, as long as it is wanted.
#[derive(Debug)]
pub(super) struct Finder {
    /// Dropping it ends the tasks.
    tasks: JoinSet<()>,
    /// The network namespace of the sockets, where it is not this thread's.
    within: Option<PathBuf>,
    /// A socket for each address of this end that asks.
    listening: BTreeMap<IpAddr, (SocketAddr, AbortHandle)>,
    answers: mpsc::Sender<Answer>,
    told: watch::Sender<Vec<(Told, SocketAddr)>>,
    reports: Arc<Reports>,
}

/// What is known of those that are asked.
#[derive(Debug)]
struct Reports {
    all: Mutex<BTreeMap<String, Report>>,
    /// Whether something that data has to keep to is known since they were looked at.
    news: AtomicBool,
    tell: Arc<Notify>,
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Report>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, name: &str, report: Report) {
        let before = self.lock().insert(name.to_owned(), report);
        let known = |it: Report| (it.mtu, it.standing, it.most, it.settled);
        let same = before.map(known) == Some(known(report));
        // The steps of a search to more are kept to when somebody comes by.
        let less = before.is_some_and(|before| report.mtu < before.mtu);
        if !same && (report.settled || less) {
            self.news.store(true, Ordering::Relaxed);
            self.tell.notify_one();
        }
    }
}

/// Who answered, and what.
type Answer = (IpAddr, Message);

impl Finder {
    /// Asks nobody yet.
    pub(super) fn start(
        handle: Handle,
        config: Config,
        tell: Arc<Notify>,
        within: Option<PathBuf>,
    ) -> Self {
        let (answers, answered) = mpsc::channel(ANSWERS);
        let (told, heard) = watch::channel(Vec::new());
        let reports = Arc::new(Reports {
            all: Mutex::default(),
            news: AtomicBool::new(false),
            tell,
        });
        let task = Task {
            handle,
            config,
            answered,
            told: heard,
            reports: Arc::clone(&reports),
            asked: BTreeMap::new(),
            by_address: BTreeMap::new(),
            due: BTreeSet::new(),
            waiting: VecDeque::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run());
        Self {
            tasks,
            within,
            listening: BTreeMap::new(),
            answers,
            told,
            reports,
        }
    }

    /// Asks exactly these peers.
    pub(super) fn tell(&mut self, told: Vec<Told>) {
        let locals: BTreeSet<IpAddr> = told.iter().map(|told| told.ends.0).collect();
        self.listening.retain(|local, (_, task)| {
            let stays = locals.contains(local);
            if !stays {
                task.abort();
            }
            stays
        });
        for local in locals {
            if !self.listening.contains_key(&local) {
                self.listen(local);
            }
        }
        let told = told.into_iter().filter_map(|told| {
            let (from, _) = self.listening.get(&told.ends.0)?;
            Some((told, *from))
        });
        self.told.send_replace(told.collect());
    }

    /// What is known of a peer that is asked.
    pub(super) fn report(&self, name: &str) -> Option<Report> {
        self.reports.lock().get(name).copied()
    }

    /// Whether more is known than when it was [looked at](Self::look).
    pub(super) fn has_news(&self) -> bool {
        self.reports.news.load(Ordering::Relaxed)
    }

    /// Somebody looks at what is known.
    pub(super) fn look(&self) {
        self.reports.news.store(false, Ordering::Relaxed);
    }

    fn listen(&mut self, local: IpAddr) {
        let opened = bind(self.within.as_deref(), local, 0).and_then(|socket| {
            let at = socket.local_addr();
            at.map(|at| (socket, at))
                .map_err(|source| crate::echo::EchoError {
                    address: local,
                    port: 0,
                    source,
                })
        });
        match opened {
            Ok((socket, at)) => {
                let task = self.tasks.spawn(hear(socket, self.answers.clone()));
                self.listening.insert(local, (at, task));
            }
            Err(err) => {
                let error = &err as &dyn std::error::Error;
                debug!(error, "what ways carry is asked later");
            }
        }
    }
}

async fn hear(socket: UdpSocket, answers: mpsc::Sender<Answer>) {
    let mut buffer = [0; LENGTH];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) if from.port() == PORT => {
                let message = buffer.get(..length).map(Message::parse);
                if let Some(Ok(message)) = message {
                    // A full queue: it counts as lost.
                    let _ = answers.try_send((from.ip(), message));
                }
            }
            Ok(_) => {}
            Err(err) => {
                socket_failed(&err);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

struct Task {
    handle: Handle,
    config: Config,
    answered: mpsc::Receiver<Answer>,
    told: watch::Receiver<Vec<(Told, SocketAddr)>>,
    reports: Arc<Reports>,
    asked: BTreeMap<String, Asked>,
    by_address: BTreeMap<IpAddr, String>,
    due: BTreeSet<(Instant, String)>,
    /// Questions that the worker has not taken yet.
    waiting: VecDeque<(String, Message, Option<u16>)>,
}

struct Asked {
    machine: Discovery,
    question: Question,
    endpoint: SocketAddr,
    most: u16,
    start: u16,
    turns: u64,
    due: Option<Instant>,
}

impl Task {
    async fn run(mut self) {
        loop {
            self.send();
            let wait = self.wait();
            tokio::select! {
                changed = self.told.changed() => match changed {
                    Ok(()) => self.take(),
                    Err(_) => return,
                },
                answer = self.answered.recv() => match answer {
                    Some((from, message)) => self.receive(from, message),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            self.tick();
        }
    }

    fn wait(&self) -> Duration {
        let due = self.due.first();
        let wait = due.map_or(Duration::MAX, |(at, _)| at.since(clock::now()));
        if self.waiting.is_empty() {
            wait
        } else {
            wait.min(BUSY)
        }
    }

    fn take(&mut self) {
        let now = clock::now();
        let told = self.told.borrow_and_update().clone();
        let stay: BTreeSet<&str> = told.iter().map(|(told, _)| told.name.as_str()).collect();
        let gone = self
            .asked
            .keys()
            .filter(|name| !stay.contains(name.as_str()));
        let gone: Vec<String> = gone.cloned().collect();
        for name in gone {
            self.forget(&name);
        }
        for (told, from) in told {
            let question = Question {
                from,
                to: SocketAddr::new(told.ends.1, PORT),
            };
            let asked = self.asked.entry(told.name.clone());
            let asked = asked.or_insert_with(|| Asked {
                machine: Discovery::new(self.config, seed()),
                question,
                endpoint: told.endpoint,
                most: 0,
                start: 0,
                turns: told.turns,
                due: None,
            });
            self.by_address.insert(told.ends.1, told.name.clone());
            let same = asked.question == question
                && asked.endpoint == told.endpoint
                && asked.turns == told.turns;
            if !same || (asked.most, asked.start) != (told.most, told.start) {
                asked.question = question;
                asked.endpoint = told.endpoint;
                asked.turns = told.turns;
                (asked.most, asked.start) = (told.most, told.start);
                let path = Input::Path {
                    most: told.most,
                    start: told.start,
                };
                // A way is never refused.
                let _ = asked.machine.handle_input(now, path);
            }
            let _ = asked.machine.handle_input(now, Input::Sent(told.sent));
            self.settle(&told.name);
        }
    }

    fn receive(&mut self, from: IpAddr, message: Message) {
        let Some(name) = self.by_address.get(&from).cloned() else {
            return;
        };
        let now = clock::now();
        if let Some(asked) = self.asked.get_mut(&name)
            && let Err(reject) = asked.machine.handle_input(now, Input::Received(message))
        {
            trace!(peer = name, %reject, "answer ignored");
        }
        self.settle(&name);
    }

    fn tick(&mut self) {
        let now = clock::now();
        while let Some((at, name)) = self.due.first().cloned()
            && at <= now
        {
            if let Some(asked) = self.asked.get_mut(&name) {
                asked.machine.handle_timeout(now);
            }
            self.due.remove(&(at, name.clone()));
            self.settle(&name);
        }
    }

    /// Takes what a machine wants, and what it knows.
    fn settle(&mut self, name: &str) {
        let Some(asked) = self.asked.get_mut(name) else {
            return;
        };
        while let Some(Output::Ask { message, size }) = asked.machine.poll_output() {
            self.waiting.push_back((name.to_owned(), message, size));
        }
        let due = asked.machine.poll_timeout();
        let before = std::mem::replace(&mut asked.due, due);
        if let Some(before) = before.filter(|_| before != due) {
            self.due.remove(&(before, name.to_owned()));
        }
        if let Some(due) = due {
            self.due.insert((due, name.to_owned()));
        }
        self.reports.put(name, asked.machine.report());
    }

    fn forget(&mut self, name: &str) {
        if let Some(asked) = self.asked.remove(name) {
            self.by_address.remove(&asked.question.to.ip());
            if let Some(due) = asked.due {
                self.due.remove(&(due, name.to_owned()));
            }
        }
        self.waiting.retain(|(peer, ..)| peer != name);
        self.reports.lock().remove(name);
    }

    /// Gives the worker what it takes.
    fn send(&mut self) {
        while let Some((name, message, size)) = self.waiting.pop_front() {
            let asked = self.asked.get(&name);
            let packet = asked.and_then(|asked| asked.question.packet(&message, size));
            if packet.is_some_and(|packet| !self.handle.send_whole(&name, &packet)) {
                // Its queue is full, or it does not know the peer yet.
                if self.waiting.len() < WAITING {
                    self.waiting.push_back((name, message, size));
                }
                return;
            }
        }
    }
}

/// Answers that may wait.
const ANSWERS: usize = 1024;
/// Questions that may wait; more count as lost.
const WAITING: usize = 16_384;
/// The worker takes commands each turn of its loop.
const BUSY: Duration = Duration::from_millis(2);
