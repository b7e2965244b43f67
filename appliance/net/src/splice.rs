//! Moving bytes between sockets without copying them through user space.
//!
//! `splice(2)` moves pages between a socket and a pipe, so a proxied byte goes socket → pipe →
//! socket inside the kernel. Nothing here waits: the caller knows when a socket is ready.

use std::{
    io,
    net::Shutdown,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::{SockRef, TcpKeepalive};

use crate::sys::packet::set_option;

/// What a pipe holds when its pages are full, and so the most that one [`Pipe::fill`] takes.
pub const CHUNK: usize = 64 * 1024;
/// The same of a pipe that has [grown](Pipe::grow): the most that everybody may have
/// (`/proc/sys/fs/pipe-max-size`).
pub const LARGE: usize = 1024 * 1024;

/// A pipe as the resting place of bytes on their way from one socket to another.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    room: usize,
    held: usize,
}

impl Pipe {
    /// Opens a pipe.
    ///
    /// # Errors
    ///
    /// The process or the system has no descriptors left.
    pub fn open() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self {
            reader,
            writer,
            room: CHUNK,
            held: 0,
        })
    }

    /// Makes it one of [`LARGE`] bytes. Whether the kernel did: a user has so many pages in pipes alone.
    pub fn grow(&mut self) -> bool {
        let grown = fcntl_setpipe_size(&self.writer, LARGE).is_ok();
        if grown {
            self.room = LARGE;
        }
        grown
    }

    /// Whether it has grown.
    #[must_use]
    pub const fn is_large(&self) -> bool {
        self.room == LARGE
    }

    /// How many bytes rest in the pipe.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Moves what `from` has, and the pipe has room for, into the pipe; zero is the end of the
    /// stream.
    ///
    /// Fill only an empty pipe: then `WouldBlock` means that the socket has nothing, and not that
    /// the pipe has no page left.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there, otherwise the socket's error.
    pub fn fill(&mut self, from: &impl AsFd) -> io::Result<usize> {
        let moved = uninterrupted(|| move_bytes(from, &self.writer, self.room))?;
        self.held = self.held.saturating_add(moved);
        Ok(moved)
    }

    /// Moves what rests in the pipe into `into`, as far as it takes it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when the socket takes nothing, otherwise the socket's error.
    pub fn drain(&mut self, into: &impl AsFd) -> io::Result<usize> {
        let moved = uninterrupted(|| move_bytes(&self.reader, into, self.held))?;
        self.held = self.held.saturating_sub(moved);
        Ok(moved)
    }
}

/// Says that no more bytes will follow, while the other direction stays open.
///
/// # Errors
///
/// The connection is gone.
pub fn finish(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).shutdown(Shutdown::Write)
}

/// Has the kernel tell of what a TCP connection brings once so many bytes are there, its end or an error always
/// (`SO_RCVLOWAT`). What is there already is told at once if it is enough.
///
/// # Errors
///
/// The connection is gone.
pub fn gather(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &bytes)
}

/// Makes a TCP socket one of a proxy: nothing waits in it to become more, and it ends when its peer was silent
/// for about `limit`: unacknowledged data by `TCP_USER_TIMEOUT`, an idle connection by keepalives. What a listener
/// accepts is as the listener is.
///
/// # Errors
///
/// The kernel refused an option.
pub fn prepare(socket: &impl AsFd, limit: Duration) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    let step = (limit / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new()
        .with_time(limit / 2)
        .with_interval(step)
        .with_retries(2);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(limit))
}

fn move_bytes(from: &impl AsFd, into: &impl AsFd, most: usize) -> rustix::io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    splice(from, None, into, None, most, flags)
}

fn uninterrupted(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
    };

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    #[test]
    fn bytes_cross_in_order_and_the_end_of_a_stream_is_zero() {
        let (mut client, server) = pair();
        let (mut sink, out) = pair();
        let mut pipe = Pipe::open().unwrap();
        assert_eq!(
            pipe.fill(&server).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        client.write_all(b"across the pipe").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut moved = 0;
        while moved < 15 {
            match pipe.fill(&server) {
                Ok(count) => moved += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert_eq!(pipe.held(), 15);
        assert_eq!(pipe.drain(&out).unwrap(), 15);
        assert_eq!(pipe.held(), 0);
        assert_eq!(pipe.fill(&server).unwrap(), 0);
        drop(out);
        let mut text = String::new();
        sink.read_to_string(&mut text).unwrap();
        assert_eq!(text, "across the pipe");
    }

    #[test]
    fn what_a_prepared_listener_accepts_is_prepared() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        prepare(&listener, Duration::from_secs(20)).unwrap();
        let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let far = SockRef::from(&far);
        assert!(far.tcp_nodelay().unwrap() && far.keepalive().unwrap());
        assert_eq!(far.tcp_keepalive_time().unwrap(), Duration::from_secs(10));
        assert_eq!(
            far.tcp_keepalive_interval().unwrap(),
            Duration::from_secs(5)
        );
        assert_eq!(far.tcp_keepalive_retries().unwrap(), 2);
        assert_eq!(
            far.tcp_user_timeout().unwrap(),
            Some(Duration::from_secs(20))
        );
    }

    #[test]
    fn a_large_pipe_takes_more_at_once() {
        let (mut client, server) = pair();
        client.set_nonblocking(true).unwrap();
        while client.write(&[7; CHUNK]).is_ok() {}
        let mut pipe = Pipe::open().unwrap();
        assert!(!pipe.is_large());
        assert!(pipe.grow() && pipe.is_large());
        assert!(pipe.fill(&server).unwrap() > CHUNK);
    }

    #[test]
    fn a_socket_that_takes_nothing_leaves_the_bytes_in_the_pipe() {
        let (mut client, server) = pair();
        let (_sink, out) = pair();
        let mut pipe = Pipe::open().unwrap();
        client.set_nonblocking(true).unwrap();
        let chunk = vec![7_u8; CHUNK];
        let stuck = (0..10_000).any(|_| {
            let _ = client.write(&chunk);
            if pipe.held() == 0 {
                let _ = pipe.fill(&server);
            }
            matches!(pipe.drain(&out), Err(error) if error.kind() == ErrorKind::WouldBlock)
                && pipe.held() > 0
        });
        assert!(stuck, "a peer that never reads must stop the flow");
    }
}
