//! A way to an API server that can be slow, be cut, and be closed.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// A relay on loopback; it ends when dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    /// How long every piece of an answer is held back, in milliseconds.
    delay: AtomicU64,
    /// Grows with every cut; odd while nobody is let through.
    cuts: watch::Sender<u64>,
}

impl Relay {
    /// Starts a relay.
    ///
    /// # Panics
    ///
    /// When it cannot listen.
    pub async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            delay: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            let mut running = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                running.spawn(pass(client, to, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            state,
            task,
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds every piece of an answer back for that long.
    pub fn slow(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap();
        self.state.delay.store(millis, Ordering::Relaxed);
    }

    /// Cuts every connection; new ones are let through.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 2);
    }

    /// Cuts every connection and lets nobody through.
    pub fn close(&self) {
        self.state.cuts.send_modify(|cuts| *cuts |= 1);
    }

    /// Lets everybody through again.
    pub fn open(&self) {
        self.state.cuts.send_modify(|cuts| *cuts = (*cuts | 1) + 1);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: TcpStream, to: SocketAddr, state: Arc<State>) {
    let mut cuts = state.cuts.subscribe();
    let begun = *cuts.borrow_and_update();
    if begun % 2 == 1 {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let none = AtomicU64::new(0);
    tokio::select! {
        () = copy(from_client, to_server, &none) => {}
        () = copy(from_server, to_client, &state.delay) => {}
        _ = cuts.changed() => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: &AtomicU64,
) {
    let mut piece = vec![0; 16 << 10];
    while let Ok(length) = from.read(&mut piece).await {
        if length == 0 {
            return;
        }
        let delay = delay.load(Ordering::Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
