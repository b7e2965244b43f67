//! Answering other hosts that call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kedge_host::peer::Stream;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, mpsc, watch},
    time::{sleep, timeout},
};
use tracing::debug;

use super::{Own, PeerEvent, Remote, What, session::talk};

/// Answers until it is dropped. The links it answered go on until the agent drops them.
pub(super) async fn answer(
    listener: TcpListener,
    own: watch::Receiver<Own>,
    tell: mpsc::Sender<PeerEvent>,
) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, say: some are given back.
                debug!(%error, "a call from another host was not taken");
                sleep(AGAIN).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            debug!(%from, "a call from another host was refused: there are too many");
            continue;
        };
        let (Own { bond, host }, tell) = (own.borrow().clone(), tell.clone());
        tokio::spawn(async move {
            let address = from.ip().to_canonical();
            let remote = Remote {
                ifindex: 0,
                address,
            };
            // One that cannot prove itself is not listened to for long.
            match timeout(PATIENCE, bond.accept(stream)).await {
                Ok(Ok(stream)) => serve(stream, remote, false, host, tell).await,
                Ok(Err(error)) => {
                    debug!(%address, %error, "a call from another host came to nothing")
                }
                Err(_) => debug!(%address, "a call from another host was not finished"),
            }
            drop(place);
        });
    }
}

/// Talks on a link until it ends, and tells the agent.
pub(super) async fn serve(
    stream: Stream,
    remote: Remote,
    outbound: bool,
    host: String,
    tell: mpsc::Sender<PeerEvent>,
) {
    let link = NUMBER.fetch_add(1, Ordering::Relaxed);
    let (say, wishes) = mpsc::channel(WISHES);
    let up = What::Up {
        remote,
        outbound,
        say,
    };
    if tell.send(PeerEvent { link, what: up }).await.is_err() {
        return;
    }
    let end = talk(stream, &host, wishes, |said| {
        let what = What::Said(said);
        // An agent that is so far behind has other worries; whoever asked gets no answer.
        let _ = tell.try_send(PeerEvent { link, what });
    });
    let what = What::Down(end.await);
    // The agent is leaving otherwise.
    let _ = tell.send(PeerEvent { link, what }).await;
}

/// Links have numbers, from 1.
static NUMBER: AtomicU64 = AtomicU64::new(1);
/// More hosts than one virtual router has.
const AT_ONCE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(100);
const WISHES: usize = 16;
