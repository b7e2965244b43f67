//! Serving a plain device until it ends.

use std::{io, sync::Arc};

use kedge_core::{Coded, Problem};
use kedge_net::{
    monitor::{MonitorError, Watch},
    presence::Presence,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Semaphore,
};
use tracing::{debug, warn};

use super::{Plain, Socket, Tool, connection::converse};

/// Why a device ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Somebody deleted its interface.
    InterfaceDeleted,
    /// Somebody deleted its socket.
    SocketDeleted,
    /// A signal asked for it.
    Signal,
}

/// A device cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The link cannot be watched.
    #[error("the link cannot be watched")]
    Link(#[from] MonitorError),
    /// The runtime or the kernel has no more descriptors.
    #[error("the device cannot be served")]
    Io(#[from] io::Error),
}

/// The signals that end a device. From here on they do nothing else to the process.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes them, on the current runtime: before anything is made that has to be taken back.
    ///
    /// # Errors
    ///
    /// The kernel's answer; it has no reason to give one.
    pub fn take() -> Result<Self, ServeError> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn came(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves a device on the current runtime until it ends. `ready` is called as soon as tools can
/// configure it.
///
/// # Errors
///
/// The process has no descriptors left, or netlink is denied to it.
pub async fn serve(
    device: Plain,
    socket: &Socket,
    mut signals: Signals,
    ready: impl FnOnce() -> io::Result<()>,
) -> Result<End, ServeError> {
    let device = Arc::new(device);
    let mut link = Watch::open()?;
    let deletion = Presence::watch(socket.path())?;
    let listener = socket.listener()?;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    follow(&device, &link);
    ready()?;
    loop {
        tokio::select! {
            () = device.ended() => return Ok(End::InterfaceDeleted),
            () = signals.came() => return Ok(End::Signal),
            stirred = deletion.stirred() => {
                stirred?;
                if !socket.is_there() {
                    return Ok(End::SocketDeleted);
                }
            }
            changes = link.changed() => {
                match changes {
                    Ok(_) => follow(&device, &link),
                    Err(err) => warn!(error = &err as &dyn std::error::Error, "the link is not seen"),
                }
            }
            accepted = listener.accept() => {
                match accepted {
                    Ok((stream, _)) => {
                        let device = Arc::clone(&device);
                        // Whoever finds no place is hung up on.
                        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                            tokio::spawn(async move {
                                let _place = place;
                                answer(stream, device).await;
                            });
                        }
                    }
                    Err(err) => warn!(error = &err as &dyn std::error::Error, "no tool is let in"),
                }
            }
        }
    }
}

async fn answer<T: Tool>(stream: tokio::net::UnixStream, tool: Arc<T>) {
    if let Err(err) = converse(stream, tool).await {
        debug!(error = &err as &dyn std::error::Error, "a tool hung up");
    }
}

/// Tells the device how its link is. One that was moved to another namespace is not seen any more,
/// and goes on with the sockets it has here.
fn follow(device: &Plain, link: &Watch) {
    if let Some(link) = link.monitor().link(device.index()) {
        device.follow(link.up, link.mtu);
    } else {
        device.follow_unseen();
    }
}

impl Coded for ServeError {
    fn problem(&self) -> Problem {
        match self {
            Self::Link(error) => error.problem(),
            Self::Io(error) => Problem::new(kedge_core::Code::SysUnexpected, self.to_string())
                .evidence(error.to_string())
                .consequence("the device is gone"),
        }
    }
}

/// Tools that may be connected at once.
const CONNECTIONS: usize = 64;
