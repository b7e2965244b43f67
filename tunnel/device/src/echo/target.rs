//! Asking what lies behind a peer, through that peer and no other.

use std::{net::IpAddr, sync::Arc, time::Duration};

use kedge_core::Machine as _;
use kedge_net::{clock, icmp::IcmpReceiver};
use kedge_tunnel_proto::echo::{Config, Input, Output, Ping, Prober, Report};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};
use tracing::{debug, info, trace};

use super::{EchoError, socket_failed};
use crate::{Handle, seed::seed};

/// Asks an address by ICMP echo through one peer until dropped.
#[derive(Debug)]
pub struct Target {
    task: JoinHandle<()>,
    report: watch::Receiver<Report>,
}

/// What is asked, and which way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The peer it is asked through.
    pub peer: String,
    /// The source, an address of this host in the tunnel.
    pub local: IpAddr,
    /// What is asked, of the same family.
    pub target: IpAddr,
    /// The time between two questions, and how long each may take: three in a row count.
    pub interval: Duration,
}

impl Target {
    /// Asks; `changed` hears when it begins or ceases to answer.
    ///
    /// # Errors
    ///
    /// The source is not on this host, or there is no privilege.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(handle: Handle, asked: Asked, changed: Arc<Notify>) -> Result<Self, EchoError> {
        let address = asked.local;
        let refused = |source| EchoError {
            address,
            port: 0,
            source,
        };
        let socket = IcmpReceiver::open(address).map_err(refused)?;
        let config = Config {
            interval: asked.interval,
            timeout: asked.interval,
            ..Config::default()
        };
        let session = seed();
        let [high, low, ..] = session.to_be_bytes();
        let ping = Ping {
            from: asked.local,
            to: asked.target,
            identifier: u16::from_be_bytes([high, low]),
        };
        let prober = Prober::new(config, session, clock::now());
        let (published, report) = watch::channel(prober.report());
        let shell = Shell {
            handle,
            asked,
            ping,
            socket,
            prober,
            published,
            changed,
        };
        Ok(Self {
            task: tokio::spawn(shell.run()),
            report,
        })
    }

    /// What is known about it.
    #[must_use]
    pub fn report(&self) -> Report {
        *self.report.borrow()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Shell {
    handle: Handle,
    asked: Asked,
    ping: Ping,
    socket: IcmpReceiver,
    prober: Prober,
    published: watch::Sender<Report>,
    changed: Arc<Notify>,
}

impl Shell {
    async fn run(mut self) {
        let mut buffer = [0; BUFFER];
        loop {
            self.execute();
            let now = clock::now();
            let due = self.prober.poll_timeout();
            let wait = due.map_or(Duration::MAX, |at| at.since(now));
            tokio::select! {
                received = self.socket.receive(&mut buffer) => match received {
                    Ok((from, message)) if from == self.ping.to => {
                        let answer = self.ping.answer(message).map(Input::Received);
                        let taken = answer.map(|it| self.prober.handle_input(clock::now(), it));
                        if let Some(Err(reject)) = taken {
                            trace!(target = %self.asked.target, %reject, "answer ignored");
                        }
                    }
                    Ok(_) => {}
                    Err(err) => {
                        socket_failed(&err);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                },
                () = tokio::time::sleep(wait) => {}
            }
            self.prober.handle_timeout(clock::now());
        }
    }

    fn execute(&mut self) {
        let Asked { peer, target, .. } = &self.asked;
        let mut turned = false;
        while let Some(output) = self.prober.poll_output() {
            match output {
                Output::Send(message) => {
                    let sent = self.ping.request(&message);
                    if !sent.is_ok_and(|packet| self.handle.send_through(peer, &packet)) {
                        debug!(peer, %target, "question not sent; counts as a miss");
                    }
                }
                // What is behind the peer says nothing of its session.
                Output::ForceHandshake => {}
                Output::Up { rtt } => {
                    turned = true;
                    let rtt_ms = (rtt.as_secs_f64() * 1e6).round() / 1e3;
                    info!(peer, %target, rtt_ms, because = "answered", "target reached");
                }
                Output::Down => {
                    turned = true;
                    info!(peer, %target, because = "unanswered", "target not reached");
                }
            }
        }
        let new = self.prober.report();
        self.published
            .send_if_modified(|report| std::mem::replace(report, new) != new);
        if turned {
            self.changed.notify_one();
        }
    }
}

/// Longer than any answer of ours with its header; what is longer is cut.
const BUFFER: usize = 256;
