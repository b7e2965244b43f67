//! A link whose router is the neighbour: what is said and heard there, and the socket for it.

use std::{net::Ipv6Addr, sync::Arc, time::Duration};

use kedge_core::{Coded as _, Instant, Machine as _, Problem};
use kedge_net::router::{RouterError, RouterSocket};
use kedge_vip_proto::{
    routers::{Input, Link, Output},
    wire::nd::{
        ALL_NODES,
        router::{ALL_ROUTERS, LEN, Message},
    },
};
use tokio::{sync::mpsc, task::AbortHandle};

use super::connection::Report;

/// The link of one neighbour.
#[derive(Debug)]
pub(super) struct OnLink {
    interface: String,
    machine: Link,
    open: Option<Open>,
    trouble: Option<RouterError>,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    socket: Arc<RouterSocket>,
    number: u64,
    task: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OnLink {
    /// The link behind an interface; it is opened as soon as that is due, which is at once.
    pub(super) const fn new(now: Instant, interface: String, seed: u64) -> Self {
        Self {
            interface,
            machine: Link::new(seed),
            open: None,
            trouble: None,
            retry_at: Some(now),
        }
    }

    /// The router that is there.
    pub(super) const fn found(&self) -> Option<Ipv6Addr> {
        self.machine.found()
    }

    /// Another one that is there at `now` as well.
    pub(super) fn other(&self, now: Instant) -> Option<Ipv6Addr> {
        self.machine.other(now)
    }

    /// Whether what was reported under that number was heard here.
    pub(super) fn hears(&self, number: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.number == number)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let both = [self.retry_at, self.machine.poll_timeout()];
        both.into_iter().flatten().min()
    }

    /// Does what is due; `number` is what reports are to bear if a socket is opened.
    pub(super) fn timeout(&mut self, now: Instant, number: u64, reports: &mpsc::Sender<Report>) {
        self.machine.handle_timeout(now);
        let is_due = self.retry_at.is_some_and(|at| at <= now);
        if is_due || self.is_another() {
            self.reopen(now, number, reports);
        }
        // Nobody is found without anything heard.
        self.drain(now);
    }

    /// Takes what was heard; whether the neighbour has another address from here on.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        from: Ipv6Addr,
        message: Message,
        in_use: bool,
    ) -> bool {
        let input = Input::Heard {
            from,
            message,
            in_use,
        };
        // Whatever came before the socket was closed is of a link that may be another one now.
        let _ = self.machine.handle_input(now, input);
        self.drain(now)
    }

    /// Why nobody can be found.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.trouble.as_ref().map(|error| {
            error
                .problem()
                .consequence("the router there is not found, and does not find this host")
        })
    }

    /// Whether an interface of that name is another one than that of the socket.
    fn is_another(&self) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| !open.socket.is_on(&self.interface))
    }

    fn reopen(&mut self, now: Instant, number: u64, reports: &mpsc::Sender<Report>) {
        self.close(now);
        match RouterSocket::open(&self.interface) {
            Ok(socket) => {
                let socket = Arc::new(socket);
                let task = tokio::spawn(listen(number, Arc::clone(&socket), reports.clone()));
                self.open = Some(Open {
                    socket,
                    number,
                    task: task.abort_handle(),
                });
                self.trouble = None;
                let opened = self.machine.handle_input(now, Input::Open(true));
                debug_assert!(opened.is_ok(), "opening is always taken");
            }
            Err(error) => {
                self.trouble = Some(error);
                self.retry_at = Some(now + RETRY);
            }
        }
    }

    fn close(&mut self, now: Instant) {
        self.retry_at = None;
        if self.open.take().is_some() {
            // Closing is always taken.
            let _ = self.machine.handle_input(now, Input::Open(false));
        }
    }

    /// Says what is to be said; whether somebody was found.
    fn drain(&mut self, now: Instant) -> bool {
        let mut found = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Found(_) => found = true,
                Output::Send(message) => self.send(now, message),
            }
        }
        found
    }

    fn send(&mut self, now: Instant, message: Message) {
        let Some(open) = &self.open else { return };
        let to = match message {
            Message::Solicitation => ALL_ROUTERS,
            Message::Advertisement { .. } => ALL_NODES,
        };
        let mut buffer = [0; LEN];
        // Without its hardware address, which the neighbour asks for as for everybody's.
        let length = message.emit(None, &mut buffer);
        let bytes = buffer.get(..length).unwrap_or_default();
        if let Err(source) = open.socket.send(to, bytes) {
            // The link is down, or has no address yet: it begins anew when that is over.
            self.close(now);
            self.retry_at = Some(now + RETRY);
            self.trouble = Some(RouterError::Unsaid {
                interface: self.interface.clone(),
                source,
            });
        }
    }
}

async fn listen(number: u64, socket: Arc<RouterSocket>, reports: mpsc::Sender<Report>) {
    let mut buffer = [0; BUFFER];
    loop {
        let Ok(heard) = socket.receive(&mut buffer).await else {
            // It went down; what is said next finds out.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let message = Message::parse(heard.from, heard.hop_limit, heard.bytes);
        let Ok(message) = message else { continue };
        let report = Report::Router(number, heard.from, message);
        if reports.send(report).await.is_err() {
            return;
        }
    }
}

const RETRY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);
/// As long as a packet may be on most links.
const BUFFER: usize = 1500;
