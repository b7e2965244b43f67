//! Both directions of one proxied connection.

use std::{io, pin::pin};

use kedge_net::splice;
use tokio::{io::Interest, net::TcpStream};

use crate::{gather::Gather, pipes::Pipes};

/// Carries bytes both ways until both ends have finished, or one of them breaks.
///
/// The end of one direction closes only that direction. A reset arrives as an error, also when
/// the peer that sent it had finished sending before: the caller passes it on.
pub(crate) async fn relay(client: &TcpStream, member: &TcpStream, pipes: &Pipes) -> io::Result<()> {
    let mut up = pin!(pump(client, member, pipes));
    let mut down = pin!(pump(member, client, pipes));
    tokio::select! {
        ended = &mut up => {
            let stopped = ended?;
            tokio::select! {
                ended = &mut down => refuse_stopped(stopped | ended?),
                () = broken(client), if !stopped => Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
        ended = &mut down => {
            let stopped = ended?;
            tokio::select! {
                ended = &mut up => refuse_stopped(stopped | ended?),
                () = broken(member), if !stopped => Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
    }
}

/// One direction, to the end of `from`. `true`: `to` takes no more bytes. What `to` still has to
/// say (an early answer before its reset) is then for the other direction to deliver.
async fn pump(from: &TcpStream, to: &TcpStream, pipes: &Pipes) -> io::Result<bool> {
    let mut carried = 0;
    let mut gather = Gather::new();
    loop {
        gather.readable(from).await?;
        let mut lent = pipes.take()?;
        let pipe = &mut lent.pipe;
        match gather.read(from, || pipe.fill(from)) {
            Ok(0) => {
                pipes.give(lent);
                return Ok(splice::finish(to).is_err());
            }
            Ok(moved) => {
                carried += moved;
                gather.brought(moved, from)?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                pipes.give(lent);
                continue;
            }
            Err(error) => return Err(error),
        }
        while pipe.held() > 0 {
            to.writable().await?;
            match to.try_io(Interest::WRITABLE, || pipe.drain(to)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok(true),
            }
        }
        pipes.give(lent);
        if carried >= FAIR {
            carried = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Returns when the peer of a socket we have read to its end resets the connection.
async fn broken(socket: &TcpStream) {
    match socket.ready(Interest::ERROR).await {
        Ok(ready) if !ready.is_error() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}

fn refuse_stopped(stopped: bool) -> io::Result<()> {
    if stopped {
        Err(io::ErrorKind::BrokenPipe.into())
    } else {
        Ok(())
    }
}

/// Bytes one direction may carry before others get their turn.
const FAIR: usize = 1024 * 1024;
