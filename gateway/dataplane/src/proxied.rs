//! Clients behind load balancers of others: who they are, before anything else is read, and telling members.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use ipnet::IpNet;
use kedge_control::frontend::ClientIp;
use tokio::{net::TcpStream, time::timeout};
use tracing::debug;

use crate::{
    connection::{Client, reset, serve},
    listener::Shared,
    proxy_protocol::{Addresses, Header, MOST, read, write},
};

/// Whether members are told who the client is.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<ClientIp>);

impl Told {
    pub fn set(&self, told: ClientIp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    fn get(&self) -> ClientIp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a client that has just come.
pub(crate) async fn meet(client: Client, shared: Arc<Shared>) {
    let Some(client) = met(client, &shared).await else {
        return;
    };
    if is_let_in(&client, &shared) {
        serve(client, shared).await;
    } else {
        debug!(listener = shared.name(), "a client is not let in");
        shared.counters.outside.add();
        reset(&client.socket);
    }
}

/// Whether the listener takes a client with its address. A load balancer that has a connection for itself is one.
fn is_let_in(client: &Client, shared: &Shared) -> bool {
    if shared.ranges.is_open() {
        return true;
    }
    let proxied = client.proxied.as_ref().map(|ends| ends.source);
    let client = proxied.map_or_else(|| client.socket.peer_addr(), Ok);
    client.is_ok_and(|client| shared.ranges.has(client.ip()))
}

/// A client that has just come, as soon as it is known who it is. Nobody, where it comes by another way than
/// through the load balancers before the gateway, or they do not say who it is.
pub(crate) async fn met(mut client: Client, shared: &Shared) -> Option<Client> {
    let Some(outer) = shared.means.outer() else {
        return Some(client);
    };
    let why = match comes_from(&client.socket) {
        Ok(from) if is_one(&outer, from) => {
            match timeout(shared.limits.hello, hear(&mut client)).await {
                Ok(Ok(None)) => return Some(client),
                Ok(Ok(Some(why))) => why,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "its header takes too long".to_owned(),
            }
        }
        Ok(from) => format!("{} is no load balancer before this gateway", from.ip()),
        Err(error) => error.to_string(),
    };
    debug!(listener = shared.name(), why, "a connection is not taken");
    shared.counters.unproxied.add();
    reset(&client.socket);
    None
}

/// What is sent to a member first: who the client is, where it is to be told, and what the client has said.
pub(crate) fn opening(
    shared: &Shared,
    client: &TcpStream,
    proxied: Option<Addresses>,
    said: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let told = shared.told.get();
    if told == ClientIp::Hidden {
        return Ok(said);
    }
    let ends = match proxied {
        Some(ends) => ends,
        None => Addresses {
            source: client.peer_addr()?,
            destination: client.local_addr()?,
        },
    };
    let mut opening = write(told, &ends);
    opening.extend(said);
    Ok(opening)
}

/// Reads a header. `Some` says why there is none.
async fn hear(client: &mut Client) -> io::Result<Option<String>> {
    loop {
        client.socket.readable().await?;
        let mut room = [0; CHUNK];
        let length = match client.socket.try_read(&mut room) {
            Ok(0) => return Ok(Some("it left before its header".to_owned())),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        client.said.extend(room.iter().take(length));
        match read(&client.said) {
            Ok(None) if client.said.len() > MOST => {
                return Ok(Some("its header has no end".to_owned()));
            }
            Ok(None) => {}
            Ok(Some((header, end))) => {
                client.said.drain(..end);
                client.proxied = match header {
                    Header::Proxied(ends) => Some(ends),
                    Header::Own => None,
                };
                return Ok(None);
            }
            Err(wrong) => return Ok(Some(wrong.to_string())),
        }
    }
}

fn comes_from(socket: &TcpStream) -> io::Result<SocketAddr> {
    let peer = socket.peer_addr()?;
    // A socket of IPv6 takes IPv4, too.
    Ok(SocketAddr::new(peer.ip().to_canonical(), peer.port()))
}

fn is_one(outer: &[IpNet], from: SocketAddr) -> bool {
    outer.iter().any(|net| net.contains(&from.ip()))
}

/// What is read at once: a header is rarely longer.
const CHUNK: usize = 512;
