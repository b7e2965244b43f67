//! Calling an Active until there is a link, and again when it ended.

use std::{io, net::IpAddr, time::Duration};

use kedge_host::peer::Stream;
use kedge_net::on_link;
use tokio::{
    net::TcpSocket,
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{Own, PeerEvent, Remote, What, at, listen::serve};

/// Who calls whom.
pub(super) struct Caller {
    pub remote: Remote,
    pub from: IpAddr,
    pub port: u16,
    pub own: Own,
    pub tell: mpsc::Sender<PeerEvent>,
}

/// Never ends: whoever wants no link any more drops it.
pub(super) async fn keep_calling(caller: Caller) {
    let mut pause = FIRST;
    loop {
        let called = timeout(PATIENCE, call(&caller)).await;
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it did not answer");
        match called.unwrap_or_else(|_| Err(late())) {
            Ok(stream) => {
                pause = FIRST;
                let (host, tell) = (caller.own.host.clone(), caller.tell.clone());
                // A task of its own: whoever drops this one leaves it time for its farewell.
                let link = tokio::spawn(serve(stream, caller.remote, true, host, tell));
                // It ends when its link does; there is nothing to learn from how.
                let _ = link.await;
            }
            Err(error) => {
                let remote = caller.remote;
                let what = What::Failed { remote, error };
                let event = PeerEvent { link: 0, what };
                // The agent is leaving otherwise.
                if caller.tell.send(event).await.is_err() {
                    return;
                }
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST);
    }
}

async fn call(caller: &Caller) -> io::Result<Stream> {
    let to = at(caller.remote.address, caller.port);
    let (socket, to) = on_link::towards(caller.remote.ifindex, caller.from, to)?;
    let stream = TcpSocket::from_std_stream(socket).connect(to).await?;
    stream.set_nodelay(true)?;
    caller.own.bond.connect(stream).await
}

const PATIENCE: Duration = Duration::from_secs(5);
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(60);
