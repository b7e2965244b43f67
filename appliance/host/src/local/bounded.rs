//! Connections of the control socket, bounded: so many at a time, and none for longer than it
//! has something to say. Whoever may open the socket may still not take the role's memory or
//! its descriptors.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream, unix},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// A listener with a limited number of places. Whoever finds none waits in the kernel's queue.
#[derive(Debug)]
pub(super) struct Bounded {
    listener: UnixListener,
    places: Arc<Semaphore>,
    idle: Duration,
}

impl Bounded {
    /// At most `places` connections, each closed when nothing moves on it for `idle`.
    pub(super) fn new(listener: UnixListener, places: usize, idle: Duration) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(places)),
            idle,
        }
    }
}

impl Listener for Bounded {
    type Io = Held;
    type Addr = unix::SocketAddr;

    async fn accept(&mut self) -> (Held, unix::SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        // Of the listener's own trait: it logs what fails and waits before it tries again.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let held = Held {
            stream,
            idle: self.idle,
            end: Box::pin(sleep(self.idle)),
            _place: place,
        };
        (held, address)
    }

    fn local_addr(&self) -> io::Result<unix::SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection and its place.
#[derive(Debug)]
pub(super) struct Held {
    stream: UnixStream,
    idle: Duration,
    end: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// The connection itself.
    pub(super) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// What the stream said; an error once it has said nothing for too long.
    fn or_end<T>(
        &mut self,
        context: &mut Context<'_>,
        said: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if said.is_ready() {
            self.end.as_mut().reset(Instant::now() + self.idle);
            return said;
        }
        ready!(self.end.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = pin!(&mut self.stream).poll_read(context, buffer);
        self.or_end(context, read)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write(context, bytes);
        self.or_end(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(context)
    }
}
