//! Connections to an endpoint, carried to hosts of the site.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kedge_net::{detour, splice};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::debug;

use super::Event;

/// Whom connections are led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Targets {
    /// Those that answered last.
    pub answering: Vec<IpAddr>,
    /// The others: what is known of them is two seconds old.
    pub silent: Vec<IpAddr>,
}

/// Listens at an endpoint until it is dropped, with all that it carries.
#[derive(Debug)]
pub(super) struct Relay {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
    open: Arc<AtomicUsize>,
}

impl Targets {
    /// Those to try for the connection of that number, in this order: who answers, in turn.
    fn order(&self, number: usize) -> Vec<IpAddr> {
        let count = self.answering.len().max(1);
        let (first, last) = (number % count, self.answering.len());
        let turned = (first..last).chain(0..first.min(last));
        let answering = turned.filter_map(|at| self.answering.get(at));
        let all = answering.chain(&self.silent).take(TRIES);
        all.copied().collect()
    }
}

impl Relay {
    /// Begins to listen at these places, each of which leads to a port of the targets.
    ///
    /// # Errors
    ///
    /// The place that somebody else listens at, and the kernel's answer.
    pub fn start(
        (name, places): (&str, &[(SocketAddr, u16)]),
        targets: &watch::Receiver<Targets>,
        tell: &mpsc::Sender<Event>,
    ) -> Result<Self, (SocketAddr, io::Error)> {
        let listen = |place: SocketAddr| TcpListener::from_std(detour::listen(place)?);
        let mut listeners = Vec::new();
        for (place, port) in places {
            let listener = listen(*place).map_err(|error| (*place, error))?;
            listeners.push((listener, *port, detour::keeps(*place)));
        }
        let (stop, stopped) = watch::channel(false);
        let open = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for (listener, port, keeps) in listeners {
            let to = (targets.clone(), port);
            let counted = Arc::clone(&open);
            let (stopped, tell) = (stopped.clone(), tell.clone());
            let name = name.to_owned();
            tasks.spawn(async move {
                serve(listener, to, counted, (stopped, keeps)).await;
                // The agent has ended.
                let _ = tell.send(Event::Drained(name)).await;
            });
        }
        Ok(Self { tasks, stop, open })
    }

    /// Takes nobody any more; what runs has a while to end.
    pub fn drain(&self) {
        self.stop.send_replace(true);
    }

    /// Whether nothing runs any more, of what was told to end.
    pub fn is_over(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.is_empty() || *self.stop.borrow() && self.open() == 0
    }

    /// Connections that run.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

async fn serve(
    listener: TcpListener,
    (targets, port): (watch::Receiver<Targets>, u16),
    open: Arc<AtomicUsize>,
    (mut stop, keeps): (watch::Receiver<bool>, bool),
) {
    let (end, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut number = 0_usize;
    loop {
        tokio::select! {
            () = told(&mut stop) => break,
            Some(_) = connections.join_next() => {}
            came = listener.accept() => match came {
                Ok((client, _)) if connections.len() < MOST => {
                    number = number.wrapping_add(1);
                    let order = targets.borrow().order(number);
                    let seat = Seat::take(&open);
                    connections.spawn(carry(client, (order, port), seat, ended.clone()));
                }
                // Full: closed at once.
                Ok(_) => {}
                Err(error) => {
                    debug!(error = &error as &dyn std::error::Error, "accept failed");
                    sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    if !keeps || timeout(DRAIN, all(&mut connections)).await.is_err() {
        end.send_replace(true);
        let _ = timeout(PAUSE, all(&mut connections)).await;
    }
}

/// Returns when it is said, or nobody is left to say it.
async fn told(word: &mut watch::Receiver<bool>) {
    let _ = word.wait_for(|word| *word).await.map(drop);
}

async fn all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// A connection that counts.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn carry(
    mut client: TcpStream,
    (order, port): (Vec<IpAddr>, u16),
    _seat: Seat,
    mut end: watch::Receiver<bool>,
) {
    let Some(mut server) = reach(order, port).await else {
        reset(&client);
        return;
    };
    for socket in [&client, &server] {
        // Without them it ends as TCP sees fit.
        let _ = splice::prepare(socket, SILENCE);
    }
    let carried = tokio::select! {
        carried = copy_bidirectional(&mut client, &mut server) => carried.map(drop),
        () = told(&mut end) => Err(io::ErrorKind::ConnectionAborted.into()),
    };
    if carried.is_err() {
        reset(&client);
        reset(&server);
    }
}

async fn reach(order: Vec<IpAddr>, port: u16) -> Option<TcpStream> {
    for address in order {
        let connect = TcpStream::connect(SocketAddr::new(address, port));
        if let Ok(Ok(stream)) = timeout(CONNECT, connect).await {
            return Some(stream);
        }
    }
    None
}

/// The close that follows is heard of at once.
fn reset(socket: &TcpStream) {
    // A socket that takes no option is closed in the ordinary way.
    let _ = socket.set_zero_linger();
}

/// Hosts that one client is led to before it is turned away.
const TRIES: usize = 3;
/// Connections at one place.
const MOST: usize = 1_024;
/// How long a connect to a host of the LAN may take.
const CONNECT: Duration = Duration::from_secs(1);
/// After how much silence of a peer a connection ends.
const SILENCE: Duration = Duration::from_secs(20);
/// How long what runs may go on while new connections go by the gateway again: a request does not take longer,
/// and a watch is begun again.
const DRAIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_tried_in_turn_and_the_others_behind() {
        let addresses = |text: &str| -> Vec<IpAddr> {
            let all = text.split_whitespace();
            all.map(|it| it.parse().unwrap()).collect()
        };
        for (answering, silent, number, wanted) in [
            ("", "", 0, ""),
            ("", "10.0.0.1 10.0.0.2", 3, "10.0.0.1 10.0.0.2"),
            ("10.0.0.1", "", 5, "10.0.0.1"),
            (
                "10.0.0.1 10.0.0.2",
                "10.0.0.3",
                0,
                "10.0.0.1 10.0.0.2 10.0.0.3",
            ),
            (
                "10.0.0.1 10.0.0.2",
                "10.0.0.3",
                1,
                "10.0.0.2 10.0.0.1 10.0.0.3",
            ),
            (
                "10.0.0.1 10.0.0.2",
                "10.0.0.3 10.0.0.4",
                2,
                "10.0.0.1 10.0.0.2 10.0.0.3",
            ),
            (
                "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4",
                "",
                6,
                "10.0.0.3 10.0.0.4 10.0.0.1",
            ),
        ] {
            let targets = Targets {
                answering: addresses(answering),
                silent: addresses(silent),
            };
            assert_eq!(
                targets.order(number),
                addresses(wanted),
                "{answering} {number}"
            );
        }
    }
}
