//! The asking side.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use kedge_core::Machine as _;
use kedge_net::clock;
use kedge_tunnel_proto::echo::{Claim, Config, Input, Message, Output, PORT, Prober, Report};
use tokio::{
    net::UdpSocket,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tracing::{debug, info, trace, warn};

use super::{EchoError, bind, socket_failed};
use crate::{Handle, seed::seed};

/// Asks one peer through the tunnel, and forces a handshake when the session is dead, until
/// dropped.
#[derive(Debug)]
pub struct Client {
    task: JoinHandle<()>,
    report: watch::Receiver<Report>,
    ask: mpsc::Sender<()>,
    claim: watch::Sender<Option<Claim>>,
}

impl Client {
    /// Asks `remote`, the overlay address of the peer called `peer`, from the overlay address
    /// `local`.
    ///
    /// # Errors
    ///
    /// `local` is not on this host.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(
        handle: Handle,
        peer: impl Into<String>,
        local: IpAddr,
        remote: IpAddr,
        config: Config,
    ) -> Result<Self, EchoError> {
        let socket = bind(None, local, 0)?;
        let prober = Prober::new(config, seed(), clock::now());
        let (published, report) = watch::channel(prober.report());
        let (ask, asked) = mpsc::channel(1);
        let (claim, claimed) = watch::channel(None);
        let remote = SocketAddr::new(remote, PORT);
        let shell = Shell {
            handle,
            peer: peer.into(),
            socket,
            remote,
            prober,
            published,
            asked,
            claimed,
        };
        Ok(Self {
            task: tokio::spawn(shell.run()),
            report,
            ask,
            claim,
        })
    }

    /// What is known about the peer.
    #[must_use]
    pub fn report(&self) -> Report {
        *self.report.borrow()
    }

    /// Follows what is known about the peer; changes with every answer and miss.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Report> {
        self.report.clone()
    }

    /// Says with each question through which gateway this host sends, from here on and at once.
    pub fn claim(&self, claim: Option<Claim>) {
        let news = self.claim.send_if_modified(|known| {
            let news = *known != claim;
            *known = claim;
            news
        });
        if news {
            self.ask();
        }
    }

    /// Asks at once, because the path may have changed.
    pub fn ask(&self) {
        // A full queue holds the same wish already.
        let _ = self.ask.try_send(());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Shell {
    handle: Handle,
    peer: String,
    socket: UdpSocket,
    remote: SocketAddr,
    prober: Prober,
    published: watch::Sender<Report>,
    asked: mpsc::Receiver<()>,
    claimed: watch::Receiver<Option<Claim>>,
}

impl Shell {
    async fn run(mut self) {
        let mut buffer = [0; 64];
        loop {
            self.execute();
            let now = clock::now();
            let wait = self
                .prober
                .poll_timeout()
                .map_or(Duration::MAX, |at| at.since(now));
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => self.received(buffer.get(..length), from),
                    Err(err) => {
                        socket_failed(&err);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                },
                asked = self.asked.recv() => match asked {
                    // `Ask` is never refused.
                    Some(()) => drop(self.prober.handle_input(clock::now(), Input::Ask)),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            self.prober.handle_timeout(clock::now());
        }
    }

    fn received(&mut self, bytes: Option<&[u8]>, from: SocketAddr) {
        if from != self.remote {
            debug!(peer = self.peer, %from, "echo from elsewhere ignored");
            return;
        }
        let Some(Ok(message)) = bytes.map(Message::parse) else {
            return;
        };
        if let Err(reject) = self
            .prober
            .handle_input(clock::now(), Input::Received(message))
        {
            debug!(peer = self.peer, %reject, "echo ignored");
        }
    }

    fn execute(&mut self) {
        while let Some(output) = self.prober.poll_output() {
            match output {
                Output::Send(message) => {
                    let mut question = message.emit().to_vec();
                    question.extend(self.claimed.borrow().iter().flat_map(Claim::emit));
                    if let Err(err) = self.socket.try_send_to(&question, self.remote) {
                        let error = &err as &dyn std::error::Error;
                        trace!(peer = self.peer, error, "probe not sent; counts as a miss");
                    }
                }
                Output::ForceHandshake => {
                    if let Err(err) = self.handle.rehandshake(&self.peer) {
                        let error = &err as &dyn std::error::Error;
                        debug!(peer = self.peer, error, "no handshake could be forced");
                    }
                }
                Output::Up { rtt } => {
                    let rtt_ms = (rtt.as_secs_f64() * 1e6).round() / 1e3;
                    info!(
                        peer = self.peer,
                        rtt_ms,
                        because = "echo answered",
                        "tunnel up"
                    );
                }
                Output::Down => {
                    let misses = self.prober.report().misses;
                    warn!(
                        peer = self.peer,
                        misses,
                        because = "echo unanswered",
                        "tunnel down"
                    );
                }
            }
        }
        self.published.send_if_modified(|report| {
            let new = self.prober.report();
            std::mem::replace(report, new) != new
        });
    }
}
