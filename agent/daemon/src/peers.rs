//! Links to the other hosts of this host's VIPs, where they are configured.
//!
//! ```text
//!  Backup ── calls the source of the Active's adverts ──► Active
//!    │ the link breaks without a word: its process died       │ `vip move NAME HOST`: be the next
//!    ▼                                                        ▼
//!  speaker: one more advert is waited for               the called asks its caller, then says goodbye
//! ```
//!
//! A link is an aid: whatever is said or not said here, adverts decide.

mod call;
mod listen;
mod session;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, SystemTime},
};

use kedge_control::local::PeerLink;
use kedge_core::{Code, Fix, Problem, vip::Vrid};
use kedge_host::{Root, peer::Bond, wall};
use kedge_vip_speaker::auth::Key;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use tracing::{debug, info, warn};

use self::session::Say;
pub(crate) use self::session::{End, Said};
use crate::{config::PeerLinkConfig, secrets};

/// The links of this host.
#[derive(Debug)]
pub(crate) struct Peers {
    running: Option<Running>,
    problem: Option<Problem>,
    links: BTreeMap<u64, Link>,
    tell: mpsc::Sender<PeerEvent>,
    events: mpsc::Receiver<PeerEvent>,
}

/// What runs while links are configured.
#[derive(Debug)]
struct Running {
    port: u16,
    key: Key,
    own: watch::Sender<Own>,
    listener: JoinHandle<()>,
    calls: BTreeMap<Remote, Call>,
}

/// What this host says of itself, and how it proves itself.
#[derive(Clone, Debug)]
struct Own {
    bond: Bond,
    host: String,
}

/// The link that is wanted to one Active.
#[derive(Debug)]
struct Call {
    task: JoinHandle<()>,
    /// Why there is none.
    because: String,
    since: SystemTime,
}

/// A link that is up.
#[derive(Debug)]
struct Link {
    remote: Remote,
    /// Whether this host called.
    outbound: bool,
    /// The other host's name, once it said so.
    host: Option<String>,
    since: SystemTime,
    say: mpsc::Sender<Say>,
}

/// Another host, on the link where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Remote {
    /// The interface's index; 0 where only the address is known.
    pub ifindex: u32,
    /// Its address.
    pub address: IpAddr,
}

/// What happens on links.
#[derive(Debug)]
pub(crate) struct PeerEvent {
    link: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Up {
        remote: Remote,
        outbound: bool,
        say: mpsc::Sender<Say>,
    },
    Said(Said),
    Down(End),
    /// No link to that host came about.
    Failed {
        remote: Remote,
        error: io::Error,
    },
}

/// What the agent has to do about it.
#[derive(Debug)]
pub(crate) enum Matter {
    /// The process of the Active at that address ended.
    Gone(Remote),
    /// The Active at that address asks this host to be the next.
    Asked {
        remote: Remote,
        vrid: Vrid,
        ipv6: bool,
        answer: Answer,
    },
}

/// Answers a question.
#[derive(Debug)]
pub(crate) struct Answer {
    question: u32,
    say: mpsc::Sender<Say>,
}

impl Answer {
    /// Says yes, or why not.
    pub fn give(self, refused: Option<String>) {
        let question = self.question;
        // A link that is gone needs no answer.
        let _ = self.say.try_send(Say::Answer { question, refused });
    }
}

impl Peers {
    pub fn new() -> Self {
        let (tell, events) = mpsc::channel(EVENTS);
        Self {
            running: None,
            problem: None,
            links: BTreeMap::new(),
            tell,
            events,
        }
    }

    /// Makes links as `config` says from here on. What did not change goes on.
    pub fn configure(&mut self, config: Option<&PeerLinkConfig>, host: &str, root: &Root) {
        let before = self.problem.take();
        let outcome = match config {
            Some(config) => self.reconfigure(config, host, root),
            None => {
                self.stop();
                Ok(())
            }
        };
        if let Err(problem) = outcome {
            if before.as_ref() != Some(&problem) {
                let (code, what) = (problem.code, &problem.what);
                warn!(KEDGE_CODE = %code, what, "no links to other hosts");
            }
            self.stop();
            self.problem = Some(problem);
        }
    }

    /// Ends all of it: each link says goodbye.
    fn stop(&mut self) {
        self.running = None;
        self.links.clear();
    }

    fn reconfigure(
        &mut self,
        config: &PeerLinkConfig,
        host: &str,
        root: &Root,
    ) -> Result<(), Problem> {
        let key = secrets::key(&root.locate(&config.key_file))?;
        let failed = |error: io::Error| unlinked(config.port, &error);
        let of_port = |running: &&mut Running| running.port == config.port;
        if let Some(running) = self.running.as_mut().filter(of_port) {
            if running.key == key && running.own.borrow().host == host {
                return Ok(());
            }
            let bond = Bond::new(key.expose()).map_err(failed)?;
            let host = host.to_owned();
            running.key = key;
            running.own.send_replace(Own { bond, host });
            running.calls.clear();
            self.links.clear();
            return Ok(());
        }
        self.stop();
        let bond = Bond::new(key.expose()).map_err(failed)?;
        let listener = kedge_net::on_link::listen(config.port).map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let host = host.to_owned();
        let (own, as_whom) = watch::channel(Own { bond, host });
        self.running = Some(Running {
            port: config.port,
            key,
            own,
            listener: tokio::spawn(listen::answer(listener, as_whom, self.tell.clone())),
            calls: BTreeMap::new(),
        });
        Ok(())
    }

    /// Has links to these Actives, each from an address of this host, and to no other.
    pub fn call(&mut self, wanted: &BTreeMap<Remote, IpAddr>) {
        let Some(running) = &mut self.running else {
            return;
        };
        let is_wanted = |remote: &Remote| wanted.contains_key(remote);
        running.calls.retain(|remote, _| is_wanted(remote));
        let links = &mut self.links;
        links.retain(|_, link| !link.outbound || is_wanted(&link.remote));
        for (remote, from) in wanted {
            if running.calls.contains_key(remote) {
                continue;
            }
            let calling = call::keep_calling(call::Caller {
                remote: *remote,
                from: *from,
                port: running.port,
                own: running.own.borrow().clone(),
                tell: self.tell.clone(),
            });
            let call = Call {
                task: tokio::spawn(calling),
                because: "it was not reached yet".to_owned(),
                since: SystemTime::now(),
            };
            running.calls.insert(*remote, call);
        }
    }

    /// What happens next. Loses nothing when it is cancelled.
    pub async fn next(&mut self) -> Option<PeerEvent> {
        self.events.recv().await
    }

    /// Takes it in; what is left to do is the agent's.
    pub fn take(&mut self, event: PeerEvent) -> Option<Matter> {
        let PeerEvent { link: id, what } = event;
        match what {
            What::Up {
                remote,
                outbound,
                say,
            } => {
                // One that came about while links were given up is dropped, and ends.
                self.running.as_ref()?;
                let link = Link {
                    remote,
                    outbound,
                    host: None,
                    since: SystemTime::now(),
                    say,
                };
                self.links.insert(id, link);
                None
            }
            What::Said(Said::Hello(host)) => {
                let link = self.links.get_mut(&id)?;
                let host: String = host.escape_debug().take(LONGEST_NAME).collect();
                info!(host, peer = %link.remote.address, "linked");
                link.host = Some(host);
                None
            }
            What::Said(Said::Succeed {
                question,
                vrid,
                ipv6,
            }) => {
                let link = self.links.get(&id)?;
                let say = link.say.clone();
                let answer = Answer { question, say };
                if !link.outbound {
                    answer.give(Some("only the Active may ask".to_owned()));
                    return None;
                }
                Some(Matter::Asked {
                    remote: link.remote,
                    vrid,
                    ipv6,
                    answer,
                })
            }
            What::Down(end) => {
                let link = self.links.remove(&id)?;
                let End { broke, because } = end;
                info!(peer = %link.remote.address, because, "a link to another host ended");
                if link.outbound {
                    self.failed(link.remote, because);
                }
                (broke && link.outbound).then_some(Matter::Gone(link.remote))
            }
            What::Failed { remote, error } => {
                debug!(peer = %remote.address, %error, "no link to another host");
                self.failed(remote, error.to_string());
                None
            }
        }
    }

    fn failed(&mut self, remote: Remote, because: String) {
        let calls = self.running.as_mut().map(|running| &mut running.calls);
        if let Some(call) = calls.and_then(|calls| calls.get_mut(&remote)) {
            call.because = because;
            call.since = SystemTime::now();
        }
    }

    /// Whether they are configured and cannot be had: that is worth another try.
    pub const fn have_failed(&self) -> bool {
        self.problem.is_some()
    }

    /// Whether any are configured.
    pub const fn are_wanted(&self) -> bool {
        self.running.is_some() || self.problem.is_some()
    }

    /// The address of the host of that name or address, if it is linked.
    pub fn find(&self, host: &str) -> Option<IpAddr> {
        let address = host.parse::<IpAddr>().ok();
        let is_it = |link: &&Link| {
            link.host.as_deref() == Some(host) || address == Some(link.remote.address)
        };
        self.links
            .values()
            .find(is_it)
            .map(|link| link.remote.address)
    }

    /// Asks the host at that address to be the next for a VIP; the answer comes.
    pub fn ask(
        &self,
        address: IpAddr,
        vrid: Vrid,
        ipv6: bool,
    ) -> oneshot::Receiver<Result<(), String>> {
        let (done, answer) = oneshot::channel();
        let mut to = self.links.values().filter(|link| !link.outbound);
        if let Some(link) = to.find(|link| link.remote.address == address) {
            // Dropped with the link, which answers as well.
            let _ = link.say.try_send(Say::Succeed { vrid, ipv6, done });
        }
        answer
    }

    /// What is wrong.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.problem.iter().cloned()
    }

    /// The links, and those that are wanted and missing.
    pub fn status(&self) -> Vec<PeerLink> {
        let up = self.links.values().map(|link| PeerLink {
            host: link.host.clone(),
            address: link.remote.address,
            called: link.outbound,
            up: true,
            since: wall::rfc3339(link.since),
            because: String::new(),
        });
        let is_up = |remote: &Remote| {
            let mut up = self.links.values();
            up.any(|link| link.outbound && link.remote == *remote)
        };
        let calls = self.running.iter().flat_map(|running| &running.calls);
        let missing = calls.filter(|(remote, _)| !is_up(remote));
        let missing = missing.map(|(remote, call)| PeerLink {
            host: None,
            address: remote.address,
            called: true,
            up: false,
            since: wall::rfc3339(call.since),
            because: call.because.clone(),
        });
        let mut all: Vec<_> = up.chain(missing).collect();
        all.sort_by_key(|link| (link.address, !link.called));
        all
    }

    /// Says on every link that this host's process ends in order.
    pub fn say_farewell(&mut self, because: &str) {
        self.running = None;
        // Dropped senders would say it too, but nobody could wait for that.
        for link in self.links.values() {
            let _ = link.say.try_send(Say::Close(because.to_owned()));
        }
    }

    /// Waits until the farewell has been taken, briefly.
    pub async fn closed(mut self) {
        let all_closed = async {
            while !self.links.is_empty() {
                match self.events.recv().await {
                    Some(PeerEvent {
                        link,
                        what: What::Down(_),
                    }) => {
                        self.links.remove(&link);
                    }
                    Some(_) => {}
                    None => return,
                }
            }
        };
        if timeout(FAREWELL, all_closed).await.is_err() {
            debug!("a link took no farewell");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn unlinked(port: u16, error: &io::Error) -> Problem {
    Problem::warning(
        Code::VipPeerLink,
        format!("this host has no links to the other hosts of its VIPs (TCP port {port})"),
    )
    .evidence(error.to_string())
    .consequence(
        "VIPs are held and taken over as without them; `kedge vip move` cannot name another host",
    )
    .fix(Fix::text("see who has the port").command(format!("ss -ltnp 'sport = :{port}'")))
}

const EVENTS: usize = 64;
const LONGEST_NAME: usize = 80;
/// How long the farewell on all links may take.
const FAREWELL: Duration = Duration::from_millis(200);

/// Where a host listens.
const fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}
