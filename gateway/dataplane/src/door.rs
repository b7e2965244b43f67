//! One address and port that several frontends share: each client says by TLS whom it wants, and is
//! handed over with every byte it has said.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kedge_control::{balance::Listener, frontend::ClientIp};
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tracing::debug;

use crate::{
    connection::{Client, reset},
    hello::{Heard, Hello},
    listener::{Limits, Shared, run, run_behind},
    means::Means,
    pool::Hosts,
    proxied::met,
};

/// The frontends behind one door.
#[derive(Debug)]
pub(crate) struct Door {
    shared: Arc<Shared>,
    names: Arc<Names>,
    behind: BTreeMap<String, Behind>,
    /// Those that were there before, while it is told who is.
    before: BTreeMap<String, Behind>,
    named: HashMap<String, mpsc::Sender<Client>>,
}

/// Who is called what, as clients find it.
type Names = Mutex<HashMap<String, mpsc::Sender<Client>>>;

#[derive(Debug)]
struct Behind {
    shared: Arc<Shared>,
    clients: mpsc::Sender<Client>,
    stop: watch::Sender<Option<Duration>>,
}

impl Door {
    /// A door that listens until `stop` says so; nobody is behind it.
    pub fn open(
        at: SocketAddr,
        (limits, means): (Limits, &Arc<Means>),
        stop: watch::Receiver<Option<Duration>>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let shared = Shared::new(format!("tls/{at}"), at, limits, Arc::clone(means));
        let (shared, names) = (Arc::new(shared), Arc::<Names>::default());
        let door = (Arc::clone(&shared), Arc::clone(&names));
        tasks.spawn(run(Arc::clone(&shared), stop, move |client| {
            greet(client, Arc::clone(&door.0), Arc::clone(&door.1))
        }));
        Self {
            shared,
            names,
            behind: BTreeMap::new(),
            before: BTreeMap::new(),
            named: HashMap::new(),
        }
    }

    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The frontends behind it.
    pub fn behind(&self) -> impl Iterator<Item = &Arc<Shared>> {
        self.behind.values().map(|one| &one.shared)
    }

    /// Whether a frontend is behind it.
    pub fn has(&self, frontend: &str) -> bool {
        self.behind.contains_key(frontend)
    }

    /// It will be told anew who is behind it.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.behind);
        self.named.clear();
    }

    /// Somebody is. Whoever was there before keeps every connection. What the first one is called
    /// nobody else is.
    pub fn put(
        &mut self,
        (names, told): (Vec<String>, ClientIp),
        listener: Listener,
        hosts: &Hosts,
        tasks: &mut JoinSet<()>,
    ) {
        let one = self.before.remove(&listener.name).unwrap_or_else(|| {
            let (stop, stopped) = watch::channel(None);
            let (clients, come) = mpsc::channel(WAITING);
            let shared = Arc::new(Shared::behind(&self.shared, listener.name.clone()));
            tasks.spawn(run_behind(Arc::clone(&shared), come, stopped));
            Behind {
                shared,
                clients,
                stop,
            }
        });
        one.shared.told.set(told);
        one.shared.pool().set(listener.members, hosts);
        for name in names {
            self.named
                .entry(name)
                .or_insert_with(|| one.clients.clone());
        }
        self.behind.insert(listener.name, one);
    }

    /// Everybody is there; those that are gone end their connections within `drain`.
    pub fn finish(&mut self, drain: Duration) {
        let named = std::mem::take(&mut self.named);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = named;
        for gone in std::mem::take(&mut self.before).into_values() {
            gone.stop.send_replace(Some(drain));
        }
    }

    /// Everybody ends within `drain`.
    pub fn stop(&self, drain: Duration) {
        for one in self.behind.values() {
            one.stop.send_replace(Some(drain));
        }
    }
}

/// Hears whom a client wants, and hands it over.
async fn greet(client: Client, door: Arc<Shared>, names: Arc<Names>) {
    let Some(client) = met(client, &door).await else {
        return;
    };
    let Client {
        mut socket,
        said,
        proxied,
    } = client;
    let heard = timeout(door.limits.hello, hear(&socket, &said)).await;
    let handed = |socket, said| Client {
        socket,
        said,
        proxied,
    };
    let why = match heard {
        Ok(Ok((Heard::Name(name), said))) => match called(&names, &name) {
            Some(clients) => match clients.send(handed(socket, said)).await {
                Ok(()) => return,
                // Whoever was called so has just gone.
                Err(back) => {
                    socket = back.0.socket;
                    format!("{name} has just gone")
                }
            },
            None => format!("{name} is nobody here"),
        },
        Ok(Ok((Heard::Refused(refused), _))) => refused.to_string(),
        Ok(Ok((Heard::NeedMore, _))) => "it left before".to_owned(),
        Ok(Err(error)) => {
            let error = &error as &dyn Error;
            debug!(listener = door.name(), error, "client broken");
            "it is broken".to_owned()
        }
        Err(_) => "its hello takes too long".to_owned(),
    };
    debug!(listener = door.name(), why, "a client named nobody");
    door.counters.unnamed.add();
    reset(&socket);
}

fn called(names: &Names, name: &str) -> Option<mpsc::Sender<Client>> {
    let names = names.lock().unwrap_or_else(PoisonError::into_inner);
    names.get(name).cloned()
}

/// What a client says first, of which `said` was read already; [`Heard::NeedMore`] where it ends before
/// it has.
async fn hear(socket: &TcpStream, said: &[u8]) -> io::Result<(Heard, Vec<u8>)> {
    let mut hello = Hello::new();
    match hello.take(said) {
        Heard::NeedMore => {}
        heard => return Ok((heard, hello.into_bytes())),
    }
    loop {
        socket.readable().await?;
        // The room is not kept by whoever waits.
        let mut room = [0; CHUNK];
        let most = hello.room().min(CHUNK);
        let length = match socket.try_read(room.get_mut(..most).unwrap_or_default()) {
            Ok(0) => return Ok((Heard::NeedMore, hello.into_bytes())),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        match hello.take(room.get(..length).unwrap_or_default()) {
            Heard::NeedMore => {}
            heard => return Ok((heard, hello.into_bytes())),
        }
    }
}

/// Clients that may wait for their frontend to take them.
const WAITING: usize = 64;
/// Bytes of a hello that are read at once.
const CHUNK: usize = 4096;
