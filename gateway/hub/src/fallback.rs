//! Hosts whose UDP does not pass: they call over TLS, and for the tunnel each call is a place like any
//! other (docs/adr/0036).
//!
//! Who calls shows the certificate of its enrolment; that opens a stream for datagrams and nothing else.
//! Whose they are, the tunnel's own handshake says.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kedge_control::identity::SpiffeId;
use kedge_core::{Code, Fix, Problem, with_causes};
use kedge_host::enrol::{Client, Passage};
use kedge_net::stream::{carry_datagrams, listen};
use kedge_tunnel_device::{Handle, backend::Backend};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::{AbortHandle, JoinHandle},
    time::{sleep, timeout},
};
use tracing::{debug, info};

/// The listener for hosts that call over TLS.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    listening: Option<Listening>,
    problem: Option<Problem>,
}

#[derive(Debug)]
struct Listening {
    port: u16,
    opening: u64,
    member: watch::Sender<Option<Client>>,
    task: JoinHandle<()>,
    calls: Arc<Mutex<Calls>>,
}

/// The calls there are.
#[derive(Debug, Default)]
struct Calls {
    /// Each with where it comes from, and the place that stands for it.
    open: BTreeMap<u64, (SpiffeId, SocketAddr, SocketAddr, AbortHandle)>,
    next: u64,
    /// Handshakes that are under way, by source.
    knocking: BTreeMap<IpAddr, u32>,
}

impl Fallback {
    /// Listens on `port`, for the device of that opening, showing what `member` has to show; or not.
    pub fn tend(
        &mut self,
        port: Option<u16>,
        device: Option<&dyn Backend>,
        opening: u64,
        member: Option<&Client>,
    ) {
        self.problem = None;
        let Some((port, device)) = port.zip(device) else {
            self.listening = None;
            return;
        };
        if member.is_none_or(|member| member.member().is_none()) {
            self.problem = Some(unlisted(
                port,
                "there is no certificate of a manager to show".to_owned(),
                Fix::text("enrol this gateway").command("kedge config view --origins  # manager"),
            ));
        }
        if let Some(listening) = &self.listening
            && (listening.port, listening.opening) == (port, opening)
        {
            listening.member.send_replace(member.cloned());
            return;
        }
        self.listening = None;
        match Listening::start(port, opening, device.handle(), member) {
            Ok(listening) => {
                info!(port, because = "configured", "hosts may call over TLS");
                self.listening = Some(listening);
            }
            Err(error) => {
                let who = Fix::text("see who has the port")
                    .command(format!("ss -ltnp 'sport = :{port}'"));
                self.problem = Some(unlisted(port, error.to_string(), who));
            }
        }
    }

    /// Where the call comes from that a place stands for.
    pub fn caller(&self, place: SocketAddr) -> Option<SocketAddr> {
        let listening = self.listening.as_ref()?;
        let calls = hold(&listening.calls);
        let mut all = calls.open.values();
        all.find_map(|(_, from, at, _)| (*at == place).then_some(*from))
    }

    /// What is wrong.
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }
}

impl Listening {
    fn start(port: u16, opening: u64, handle: Handle, member: Option<&Client>) -> io::Result<Self> {
        let listener = TcpListener::from_std(listen(port)?)?;
        let calls = Arc::<Mutex<Calls>>::default();
        let (member, shown) = watch::channel(member.cloned());
        let task = tokio::spawn(answer(listener, handle, shown, Arc::clone(&calls)));
        Ok(Self {
            port,
            opening,
            member,
            task,
            calls,
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        for (.., call) in hold(&self.calls).open.values() {
            call.abort();
        }
    }
}

impl Calls {
    /// Whether a source may knock: not with too many hands at once.
    fn knock(&mut self, from: IpAddr) -> bool {
        let hands = self.knocking.entry(from).or_default();
        let may = *hands < HANDS;
        *hands += u32::from(may);
        may
    }

    fn knocked(&mut self, from: IpAddr) {
        if let Some(hands) = self.knocking.get_mut(&from) {
            *hands = hands.saturating_sub(1);
            if *hands == 0 {
                self.knocking.remove(&from);
            }
        }
    }

    /// Takes a call. A host that calls again has lost its call of before, as far as it knows: of one host
    /// the newest few stay.
    fn take(
        &mut self,
        host: SpiffeId,
        from: SocketAddr,
        place: SocketAddr,
        call: AbortHandle,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        let of_host = self.open.iter().filter(|(_, (it, ..))| *it == host);
        let of_host: Vec<u64> = of_host.map(|(number, _)| *number).collect();
        for number in of_host.iter().rev().skip(PER_HOST - 1) {
            if let Some((.., old)) = self.open.remove(number) {
                old.abort();
            }
        }
        self.open.insert(number, (host, from, place, call));
        number
    }
}

async fn answer(
    listener: TcpListener,
    handle: Handle,
    shown: watch::Receiver<Option<Client>>,
    calls: Arc<Mutex<Calls>>,
) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, say: some are given back.
                debug!(%error, "a call over TLS was not taken");
                sleep(AGAIN).await;
                continue;
            }
        };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        // Without a certificate to show nobody is kept waiting.
        let Some(member) = shown.borrow().clone() else {
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            debug!(%from, "a call over TLS was refused: there are too many");
            continue;
        };
        if !hold(&calls).knock(from.ip()) {
            debug!(%from, "a call over TLS was refused: too many of that source at once");
            continue;
        }
        let (handle, calls) = (handle.clone(), Arc::clone(&calls));
        tokio::spawn(async move {
            let host = greet(stream, &member).await;
            hold(&calls).knocked(from.ip());
            match host {
                Ok((host, passage)) => serve(host, passage, from, &handle, &calls).await,
                Err(error) => debug!(%from, error, "a call over TLS came to nothing"),
            }
            drop(place);
        });
    }
}

/// Has whoever calls prove what it is, in time.
async fn greet(stream: TcpStream, member: &Client) -> Result<(SpiffeId, Passage), String> {
    carry_datagrams(&stream, UNACKNOWLEDGED).map_err(|error| error.to_string())?;
    match timeout(PATIENCE, member.answer_host(stream)).await {
        Ok(Ok(host)) => Ok(host),
        Ok(Err(error)) => Err(with_causes(&error)),
        Err(_) => Err("it did not prove itself in time".to_owned()),
    }
}

/// Carries a host's datagrams until its call ends.
async fn serve(
    host: SpiffeId,
    passage: Passage,
    from: SocketAddr,
    handle: &Handle,
    calls: &Arc<Mutex<Calls>>,
) {
    let Some(lane) = handle.lane() else { return };
    let place = lane.place();
    info!(%from, host = host.uid, %place, "a host calls over TLS");
    let call = tokio::spawn(async move { lane.carry(passage).await });
    let number = hold(calls).take(host.clone(), from, place, call.abort_handle());
    let because = match call.await {
        Ok(ended) => with_causes(&ended),
        Err(_) => "the host called again, or nobody may call any more".to_owned(),
    };
    hold(calls).open.remove(&number);
    info!(%from, host = host.uid, because, "a call over TLS ended");
}

fn unlisted(port: u16, why: String, fix: Fix) -> Problem {
    let what = format!("hosts cannot call over TLS (TCP port {port})");
    // It is tried each second; the status says the rest.
    debug!(KEDGE_CODE = %Code::TunNoTls, port, why, "no calls over TLS");
    Problem::warning(Code::TunNoTls, what)
        .object("tunnel.tls_port")
        .evidence(why)
        .consequence("hosts whose UDP does not pass do not reach this gateway")
        .fix(fix)
}

fn hold(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls that are answered at once, with those that prove themselves still.
const AT_ONCE: usize = 4_096;
/// Calls of one source that prove themselves at once. Many hosts may stand behind one address.
const HANDS: u32 = 64;
/// Calls of one host: while it calls again, the one before may carry something still.
const PER_HOST: usize = 2;
/// How long proving itself may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long what was sent may be unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn host(uid: &str) -> SpiffeId {
        format!("spiffe://kedge.local/ns/a/edgehost/{uid}")
            .parse()
            .unwrap()
    }

    #[test]
    fn a_source_knocks_with_so_many_hands_and_no_more() {
        let (mut calls, one, other) =
            (Calls::default(), [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for _ in 0..HANDS {
            assert!(calls.knock(one));
        }
        assert!(!calls.knock(one));
        assert!(calls.knock(other), "nobody pays for another");
        calls.knocked(one);
        assert!(calls.knock(one));
        for _ in 0..HANDS {
            calls.knocked(one);
        }
        calls.knocked(other);
        assert!(calls.knocking.is_empty(), "nothing is kept of who left");
    }

    #[tokio::test]
    async fn of_one_host_the_newest_calls_stay() {
        let (mut calls, from) = (Calls::default(), "10.0.0.1:1".parse().unwrap());
        let mut tasks = Vec::new();
        for uid in ["1", "2", "1", "1", "1"] {
            let task = tokio::spawn(std::future::pending::<()>());
            calls.take(host(uid), from, from, task.abort_handle());
            tasks.push(task);
        }
        let left: Vec<u64> = calls.open.keys().copied().collect();
        assert_eq!(left, [1, 3, 4]);
        for (number, task) in tasks.into_iter().enumerate() {
            if ![1, 3, 4].contains(&number) {
                assert!(task.await.unwrap_err().is_cancelled());
            }
        }
    }
}
