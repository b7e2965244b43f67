//! Whether an endpoint answers by its gateway, and which hosts of the site serve it. Nobody is asked while that
//! makes no difference.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use kedge_control::agent::ShortcutConfig;
use kedge_net::detour;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{Event, places};

/// Asks until it is dropped.
#[derive(Debug)]
pub(super) struct Probe(JoinHandle<()>);

impl Probe {
    pub fn start(wish: &ShortcutConfig, tell: mpsc::Sender<Event>) -> Self {
        let wish = wish.clone();
        Self(tokio::spawn(async move {
            loop {
                let (endpoint, answering) = tokio::join!(by_gateway(&wish), of_site(&wish));
                let event = Event::Heard {
                    name: wish.name.clone(),
                    endpoint,
                    answering,
                };
                if tell.send(event).await.is_err() {
                    return;
                }
                sleep(PAUSE).await;
            }
        }))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether the endpoint answers, whoever answers for it here. One of its addresses is enough, and its first
/// port, which is that of the API.
async fn by_gateway(wish: &ShortcutConfig) -> bool {
    let first = wish.ports.first().map(|port| port.port.get());
    let all = places(wish).filter(|place| Some(place.port()) == first);
    let mut asked: JoinSet<bool> = all.map(stays).collect();
    while let Some(answer) = asked.join_next().await {
        if answer.unwrap_or_default() {
            return true;
        }
    }
    false
}

/// The hosts that take connections, in the order they are told in.
async fn of_site(wish: &ShortcutConfig) -> Vec<IpAddr> {
    let Some(port) = wish.ports.first().map(|port| port.target_port.get()) else {
        return Vec::new();
    };
    let all = wish.targets.iter().take(MOST).map(|it| it.address);
    let asked = all.clone().map(|address| async move {
        let connect = TcpStream::connect(SocketAddr::new(address, port));
        let answers = matches!(timeout(CONNECT, connect).await, Ok(Ok(_)));
        answers.then_some(address)
    });
    let mut asked: JoinSet<Option<IpAddr>> = asked.collect();
    let mut answering = Vec::new();
    while let Some(answer) = asked.join_next().await {
        answering.extend(answer.ok().flatten());
    }
    all.filter(|address| answering.contains(address)).collect()
}

/// Whether a connection comes to be and stays: a gateway that reaches nobody takes it and resets it.
async fn stays(place: SocketAddr) -> bool {
    let connect = timeout(CONNECT, detour::connect(place));
    let Ok(Ok(mut stream)) = connect.await else {
        return false;
    };
    let said: Result<io::Result<usize>, _> = timeout(STAYS, stream.read(&mut [0])).await;
    match said {
        Ok(Ok(count)) => count > 0,
        Ok(Err(_)) => false,
        // A server of TLS waits for its client.
        Err(_) => true,
    }
}

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_millis(1_500);
/// How long one stays that leads to somebody: as long as a gateway may look for him.
const STAYS: Duration = Duration::from_millis(1_500);
/// Hosts that are asked.
const MOST: usize = 16;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_is_taken_and_closed_is_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        if kedge_net::privilege::check().is_err() {
            return;
        }
        let (quiet, taken) = tokio::join!(stays(at), listener.accept());
        assert!(quiet, "it was kept");
        drop(taken);
        let closes = async { drop(listener.accept().await.unwrap()) };
        let (closed, ()) = tokio::join!(stays(at), closes);
        assert!(!closed);
        drop(listener);
        assert!(!stays(at).await, "nobody listens");
    }
}
