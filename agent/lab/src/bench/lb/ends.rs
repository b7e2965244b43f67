//! Back ends and clients in this process, on sockets of a node.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use super::place::MOMENT;
use crate::{error::LabError, lab::Lab};

/// A back end in this process. It ends when dropped.
pub(super) struct BackEnd(TcpListener);

impl BackEnd {
    /// Starts one that does so with each connection.
    pub(super) fn start(
        lab: &Lab,
        node: &str,
        at: SocketAddr,
        mut serve: impl FnMut(TcpStream) + Send + 'static,
    ) -> Result<Self, LabError> {
        let listener = listen(lab, node, at)?;
        let accepting = listener.try_clone().map_err(LabError::file("a socket"))?;
        thread::spawn(move || {
            // It ends when the socket is shut down.
            while let Ok((stream, _)) = accepting.accept() {
                serve(stream);
            }
        });
        Ok(Self(listener))
    }

    /// One that answers each connection with one byte and closes it.
    pub(super) fn answering(
        lab: &Lab,
        node: &str,
        at: SocketAddr,
        byte: u8,
    ) -> Result<Self, LabError> {
        Self::start(lab, node, at, move |mut stream| {
            // Who only looks whether somebody is here is gone already.
            let _ = stream.write_all(&[byte]);
        })
    }

    /// One that says back what it hears, for as long as somebody speaks.
    pub(super) fn echoing(lab: &Lab, node: &str, at: SocketAddr) -> Result<Self, LabError> {
        Self::start(lab, node, at, |mut stream| {
            thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
            });
        })
    }
}

impl Drop for BackEnd {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

/// Connections that stay open.
pub(super) struct Standing(Vec<TcpStream>);

impl Standing {
    /// Opens so many from a node to an [echoing](BackEnd::echoing) back end behind a proxy.
    pub(super) fn open(lab: &Lab, node: &str, at: SocketAddr, many: u32) -> Result<Self, LabError> {
        let open = move || -> io::Result<Vec<TcpStream>> {
            let one = |_| {
                let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                echo(&mut stream)?;
                Ok(stream)
            };
            (0..many).map(one).collect()
        };
        let streams = lab.worker(node)?.run(open)?;
        let streams = streams.map_err(LabError::file(format!("connections to {at}")))?;
        Ok(Self(streams))
    }

    /// How many of them no longer lead anywhere.
    pub(super) fn dropped(mut self) -> f64 {
        let dropped = self.0.iter_mut().filter_map(|stream| echo(stream).err());
        f64::from(u32::try_from(dropped.count()).unwrap_or(u32::MAX))
    }
}

fn echo(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"e")?;
    stream.read_exact(&mut [0])
}

/// A listening socket on a node.
fn listen(lab: &Lab, node: &str, at: SocketAddr) -> Result<TcpListener, LabError> {
    let bind = move || -> io::Result<TcpListener> {
        let listener = TcpListener::bind(at)?;
        // The standard library lets 128 wait.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(listener)
    };
    let bound = lab.worker(node)?.run(bind)?;
    bound.map_err(LabError::file(format!("{at} on {node}")))
}

/// What somebody answers there first, with a connection of its own.
pub(super) fn ask(at: SocketAddr, limit: Duration) -> io::Result<u8> {
    let mut stream = TcpStream::connect_timeout(&at, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    // What comes behind it is nobody's.
    let _ = stream.shutdown(Shutdown::Both);
    let [byte] = byte;
    Ok(byte)
}

/// What somebody answers there to a client on a node; in words why nobody does.
pub(super) fn asked(lab: &Lab, node: &str, at: SocketAddr) -> Result<u8, String> {
    let worker = lab.worker(node).map_err(|error| error.to_string())?;
    let asked = worker.run(move || ask(at, MOMENT));
    let asked = asked.map_err(|error| error.to_string())?;
    asked.map_err(|error| error.to_string())
}

/// Longer than TCP takes to say again what was lost while a gateway was away.
const PATIENCE: Duration = Duration::from_secs(20);
const BACKLOG: i32 = 4_096;
