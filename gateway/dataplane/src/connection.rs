//! One accepted connection: find a live member, connect, carry bytes.

use std::{error::Error, sync::Arc};

use kedge_control::balance::Member;
use kedge_net::splice;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tracing::{debug, info};

use crate::{listener::Shared, proxied::opening, proxy_protocol::Addresses, relay::relay};

/// A client, and what it has said already: that is the member's.
#[derive(Debug)]
pub(crate) struct Client {
    pub socket: TcpStream,
    pub said: Vec<u8>,
    /// Who it is, where a load balancer before the gateway has said so.
    pub proxied: Option<Addresses>,
}

/// Serves one client to the end.
pub(crate) async fn serve(client: Client, shared: Arc<Shared>) {
    let Client {
        socket: client,
        said,
        proxied,
    } = client;
    let Some((seat, mut member)) = reach(&shared).await else {
        shared.counters.unreachable.add();
        reset(&client);
        return;
    };
    // The client's socket is prepared since it was accepted.
    let prepared = splice::prepare(&member, shared.limits.silence);
    let opening = prepared.and_then(|()| opening(&shared, &client, proxied, said));
    let outcome = match opening {
        Ok(said) => match member.write_all(&said).await {
            Ok(()) => relay(&client, &member, &shared.means.pipes).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        debug!(
            host = seat.member.host,
            error = &error as &dyn Error,
            "connection broken"
        );
        reset(&client);
        reset(&member);
    }
}

/// Asks a refused member whether it takes connections again.
pub(crate) async fn probe(member: Member, shared: Arc<Shared>) {
    if shared
        .means
        .connect(&member, shared.limits.connect)
        .await
        .is_ok()
    {
        answered(&member, &shared);
    }
}

/// A connect to the member worked.
fn answered(member: &Member, shared: &Shared) {
    if shared.pool().answered(member) {
        info!(
            listener = shared.name(),
            host = member.host,
            from = "dead",
            to = "alive",
            because = "a connect works again",
            "member"
        );
    }
}

/// A connection that counts at its member.
struct Seat {
    shared: Arc<Shared>,
    member: Member,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.pool().closed(&self.member);
    }
}

async fn reach(shared: &Arc<Shared>) -> Option<(Seat, TcpStream)> {
    let mut tried = Vec::new();
    while tried.len() < MOST_TRIES {
        let member = shared.pool().choose(&tried)?;
        let seat = Seat {
            shared: Arc::clone(shared),
            member: member.clone(),
        };
        match shared.means.connect(&member, shared.limits.connect).await {
            Ok(stream) => {
                answered(&member, shared);
                return Some((seat, stream));
            }
            Err(error) => {
                let because = format!(
                    "no connection to {}: {error}",
                    std::net::SocketAddr::new(member.address, member.port)
                );
                // The only member is tried by every client: once is enough to be told.
                if shared.pool().refused(&member, because.clone()) {
                    info!(
                        listener = shared.name(),
                        host = member.host,
                        from = "alive",
                        to = "dead",
                        because,
                        "member"
                    );
                }
                shared.recheck.notify_one();
                tried.push(member);
            }
        }
    }
    None
}

/// Makes the close that follows a reset, so that the peer learns of it at once.
pub(crate) fn reset(socket: &TcpStream) {
    // A socket that takes no option is closed in the ordinary way.
    let _ = socket.set_zero_linger();
}

/// Members one client is led to before it is turned away: it does not wait longer than three
/// connect limits.
const MOST_TRIES: usize = 3;
